"""Pods whose spec has come before are taken in as if it had not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fakeapi import FakeApiServer
from fakeapi.decoding.options import WriteOptions
from fakeapi.requests import pod_bodies as pod_bodies
from fakeapi.requests.front import Inquiry
from fakeapi.requests.verbs import decoded_body
from fakeapi.types import sharing
from fakeapi.types.errors import ApiError

from .api_client import STRATEGIC
from .objects import PODS, PRIORITY_CLASSES, pod, with_resources

if TYPE_CHECKING:
    from .api_client import ApiClient

SPEC: Final = '{"containers": [{"name": "c", "image": "x", "command": ["\\u0022"]}]}'
#: A second key whose quotes are made up for by two that are written as escapes.
HIDDEN: Final = (
    '{"metadata": {"name": "h", "annotations": {"a": "\\u0022\\u0022"}, '
    '"generation": 1, "generation": 2}, "spec": SPEC}'
)
TYPED: Final = {"Content-Type": "application/json"}
LIMIT_RANGES: Final = "/api/v1/namespaces/default/limitranges"
RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"


def _read_in_full(raw: bytes) -> tuple[Any, list[str]]:
    """What the long way makes of a body, and what it says of it."""
    registry = FakeApiServer(seed=1)._registry
    inquiry = Inquiry.of(registry, "POST", PODS, TYPED)
    assert inquiry.route is not None
    request = inquiry.request(inquiry.route, raw)
    try:
        obj = decoded_body(registry, request, WriteOptions())
    except ApiError as error:
        return error.message, request.warnings
    return obj, request.warnings


_texts = st.sampled_from(["p", "Pod", "v1", "", "a b", 'say "x"', "back\\slash", "ü"])
_scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 3), _texts)
_owner = st.fixed_dictionaries({"uid": _texts, "name": _texts})
_metadata = st.dictionaries(
    st.sampled_from(["name", "labels", "nope", "uid", "ownerReferences", "managedFields"]),
    st.one_of(
        _scalars,
        st.dictionaries(_texts, _scalars, max_size=2),
        st.lists(_owner, max_size=2),
    ),
    max_size=4,
)
_others = st.lists(
    st.tuples(
        st.sampled_from(["kind", "apiVersion", "metadata", "spec", "status", "nope"]), _scalars
    ),
    max_size=3,
)


@st.composite
def _bodies(draw: st.DrawFn) -> bytes:
    """Bodies around one spec: fields in any order, some twice, unknown or of a wrong type."""
    fields = [("spec", SPEC), ("metadata", json.dumps(draw(_metadata)))]
    fields += [(name, json.dumps(value)) for name, value in draw(_others)]
    order = draw(st.permutations(fields))
    space = draw(st.sampled_from(["", " ", "\n  "]))
    return ("{" + ",".join(f'{space}"{name}":{space}{text}' for name, text in order) + "}").encode()


def _body(frame: str) -> bytes:
    return frame.replace("SPEC", SPEC).encode()


@settings(max_examples=300, deadline=None)
@given(_bodies())
@example(_body('{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": SPEC}'))
@example(_body('{"metadata": {"name": "p"}, "spec": SPEC, "status": {}}'))
@example(_body('{"metadata": {"name": "p"}, "spec": SPEC, "status": {"phase": "Running"}}'))
@example(_body('{"metadata": {"name": "p"}, "spec": SPEC, "status": {}, "status": {}}'))
@example(_body('{"status": {}, "spec": SPEC, "metadata": {"name": "p"}}'))
@example(_body('{"metadata": {"name": "p", "name": "q"}, "spec": SPEC}'))
@example(_body('{"metadata": {"name": "p", "labels": {"a": "\\u0022", "a": 1}}, "spec": SPEC}'))
@example(_body(HIDDEN))
@example(_body('{"metadata": {"name": "p"}, "spec": {}, "spec": SPEC}'))
@example(_body('{"metadata": {"name": "p"}, "spec": SPEC, "spec": SPEC}'))
@example(_body('{"metadata": {"annotations": {"a": "SPEC"}}, "spec": SPEC}'))
def test_what_is_recalled_is_what_reading_in_full_makes_of_it(raw: bytes) -> None:
    plain = _body('{"metadata": {"name": "first"}, "spec": SPEC}')
    first, _ = _read_in_full(plain)
    assert pod_bodies.recalled(plain) == first

    recalled = pod_bodies.recalled(raw)

    whole, findings = _read_in_full(raw)
    assert recalled is None or findings == []
    assert recalled is None or json.dumps(recalled) == json.dumps(whole), "the order counts as well"


def test_an_empty_status_is_in_nobodys_way() -> None:
    """Clients in Go send one with each pod, and a creationTimestamp that is null."""
    raw = _body('{"metadata": {"creationTimestamp": null}, "spec": SPEC, "status": {}}')
    _read_in_full(raw)
    assert pod_bodies.recalled(raw) == {
        "metadata": {},
        "spec": _read_in_full(raw)[0]["spec"],
        "status": {},
    }


@pytest.mark.parametrize(
    "field", ['"hostIPC": true, "hostIPC": true', '"nope": 1', '"securityContext": {"nope": 1}']
)
async def test_a_body_with_findings_teaches_nothing(api: ApiClient, field: str) -> None:
    spec = f"{SPEC[:-1]}, {field}}}"
    for name in ("first", "second"):
        raw = f'{{"metadata": {{"name": "{name}"}}, "spec": {spec}}}'.encode()
        reply = await api.post(PODS, raw)
        assert reply.code == 201
        assert "field" in reply.headers["Warning"]
        assert pod_bodies.recalled(raw) is None


async def test_a_field_said_twice_is_told_whatever_came_before(api: ApiClient) -> None:
    frame = '{"metadata": {"name": "NAME"%s}, "spec": SPEC}'
    await api.post(PODS, _body((frame % "").replace("NAME", "a")))
    twice = _body((frame % ', "name": "b"').replace("NAME", "x"))
    reply = await api.post(PODS, twice)
    assert reply.code == 201
    assert reply.headers["Warning"] == '299 - "duplicate field \\"metadata.name\\""'
    strict = await api.post(f"{PODS}?fieldValidation=Strict", twice)
    assert (strict.code, strict.reason) == (400, "BadRequest")


async def test_escaped_quotes_do_not_hide_a_field_said_twice(api: ApiClient) -> None:
    spec = SPEC.replace("\\u0022", "x")
    reply = await api.post(PODS, HIDDEN.replace("SPEC", spec).encode())
    assert reply.headers["Warning"] == '299 - "duplicate field \\"metadata.generation\\""'


async def test_classes_that_come_later_hold_for_specs_that_came_before(api: ApiClient) -> None:
    await api.create(PODS, pod("before"))
    await api.create(
        PRIORITY_CLASSES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
    )
    after = await api.create(PODS, pod("after"))
    assert (after["spec"]["priority"], after["spec"]["priorityClassName"]) == (7, "usual")
    await api.delete(f"{PRIORITY_CLASSES}/usual")
    assert (await api.create(PODS, pod("later")))["spec"]["priority"] == 0
    assert (await api.get(f"{PODS}/after")).body["spec"]["priority"] == 7


async def test_a_class_that_is_lost_with_the_newest_versions_is_forgotten(
    api: ApiClient, server: FakeApiServer
) -> None:
    await api.create(PODS, pod("before"))
    usual = {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
    await api.create(PRIORITY_CLASSES, usual)
    assert (await api.create(PODS, pod("lost")))["spec"]["priority"] == 7
    server._registry.store.rewind(2)
    assert (await api.create(PODS, pod("after")))["spec"]["priority"] == 0


async def test_specs_too_long_to_be_known_are_each_pods_own(api: ApiClient) -> None:
    containers = [{"name": f"c{number}", "image": "x"} for number in range(400)]
    spec = {"containers": containers}
    first, second = [await api.create(PODS, pod(name, spec=spec)) for name in ("a", "b")]
    assert len(json.dumps(spec)) < 16 * 1024 < len(json.dumps(first["spec"]))
    limit = {"type": "Container", "defaultRequest": {"cpu": "1m"}}
    await api.create(LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    third = await api.create(PODS, pod("c", spec=spec))
    assert third["spec"]["containers"][-1]["resources"] == {"requests": {"cpu": "1m"}}
    await api.delete(f"{LIMIT_RANGES}/l")
    fourth = await api.create(PODS, pod("d", spec=spec))
    assert first["spec"] == second["spec"] == fourth["spec"]


async def test_a_runtime_class_that_changes_holds_for_the_next_pod(api: ApiClient) -> None:
    runtime = {"metadata": {"name": "vm"}, "handler": "vm"}
    await api.create(RUNTIME_CLASSES, {**runtime, "overhead": {"podFixed": {"cpu": "1"}}})
    first = await api.create(PODS, pod("first", spec={"runtimeClassName": "vm"}))
    assert first["spec"]["overhead"] == {"cpu": "1"}
    await api.delete(f"{RUNTIME_CLASSES}/vm")
    refused = await api.post(PODS, pod("none", spec={"runtimeClassName": "vm"}))
    assert (refused.code, refused.reason) == (403, "Forbidden")
    await api.create(RUNTIME_CLASSES, runtime)
    second = await api.create(PODS, pod("second", spec={"runtimeClassName": "vm"}))
    assert "overhead" not in second["spec"]


async def test_a_limit_range_gives_only_to_pods_that_come_after_it(api: ApiClient) -> None:
    await api.create(PODS, pod("before"))
    limit = {"type": "Container", "defaultRequest": {"cpu": "250m"}}
    await api.create(LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    after = await api.create(PODS, pod("after"))
    assert after["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "250m"}}
    before = (await api.get(f"{PODS}/before")).body
    assert before["spec"]["containers"][0]["resources"] == {}


async def test_what_a_limit_range_gives_to_a_resize_is_that_pods_alone(api: ApiClient) -> None:
    spec = with_resources(requests={"cpu": "1"})
    await api.create(PODS, pod("p", spec=spec))
    limit = {"type": "Container", "defaultRequest": {"memory": "1Gi"}}
    await api.create(LIMIT_RANGES, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    wanted = with_resources(requests={"cpu": "2"})
    reply = await api.patch(f"{PODS}/p/resize", {"spec": wanted}, STRATEGIC)
    assert reply.body["spec"]["containers"][0]["resources"]["requests"]["memory"] == "1Gi"
    await api.delete(f"{LIMIT_RANGES}/l")
    await api.create(PODS, pod("q", spec=spec))
    reply = await api.patch(f"{PODS}/q/resize", {"spec": wanted}, STRATEGIC)
    assert reply.body["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}


async def test_labels_of_one_pod_do_not_become_terms_of_another(api: ApiClient) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        "matchLabelKeys": ["hash"],
    }
    spec = {"topologySpreadConstraints": [constraint]}
    for value in ("1", "2"):
        made = await api.create(PODS, pod(f"p{value}", spec=spec, labels={"hash": value}))
        selector = made["spec"]["topologySpreadConstraints"][0]["labelSelector"]
        assert [term["values"] for term in selector["matchExpressions"]] == [[value]]


def test_a_shared_value_that_somebody_changes_is_noticed() -> None:
    value = sharing.shared({"a": {"b": "only here"}})
    inner = value["a"]
    assert isinstance(inner, dict)
    inner["b"] = "changed"
    assert sharing.spoiled() == [b'{"a":{"b":"only here"}}']
    inner["b"] = "only here"
