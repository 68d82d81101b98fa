"""Pods with equal specs: each is written by the rules of its own moment."""

import json
from typing import Final

import pytest

from fakeapi import FakeApiServer

from ..api_client import STRATEGIC, ApiClient
from ..objects import PODS, PRIORITY_CLASSES, pod, with_resources

SPEC: Final = '{"containers": [{"name": "c", "image": "x", "command": ["\\u0022"]}]}'
#: A second key whose quotes are made up for by two that are written as escapes.
HIDDEN: Final = (
    '{"metadata": {"name": "h", "annotations": {"a": "\\u0022\\u0022"}, '
    '"generation": 1, "generation": 2}, "spec": SPEC}'
)
LIMIT_RANGES: Final = "/api/v1/namespaces/default/limitranges"
RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"


def _body(frame: str) -> bytes:
    return frame.replace("SPEC", SPEC).encode()


@pytest.mark.parametrize(
    "field", ['"hostIPC": true, "hostIPC": true', '"nope": 1', '"securityContext": {"nope": 1}']
)
async def test_findings_are_reported_for_each_pod_of_a_spec(api: ApiClient, field: str) -> None:
    spec = f"{SPEC[:-1]}, {field}}}"
    for name in ("first", "second"):
        reply = await api.post(
            PODS, f'{{"metadata": {{"name": "{name}"}}, "spec": {spec}}}'.encode()
        )
        assert reply.code == 201
        assert "field" in reply.headers["Warning"]


async def test_a_duplicate_field_is_reported_even_if_the_same_spec_was_sent_before(
    api: ApiClient,
) -> None:
    frame = '{"metadata": {"name": "NAME"%s}, "spec": SPEC}'
    await api.post(PODS, _body((frame % "").replace("NAME", "a")))
    twice = _body((frame % ', "name": "b"').replace("NAME", "x"))
    reply = await api.post(PODS, twice)
    assert reply.code == 201
    assert reply.headers["Warning"] == '299 - "duplicate field \\"metadata.name\\""'
    strict = await api.post(f"{PODS}?fieldValidation=Strict", twice)
    assert (strict.code, strict.reason) == (400, "BadRequest")


async def test_escaped_quotes_do_not_hide_a_duplicate_field(api: ApiClient) -> None:
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


async def test_the_defaults_of_a_limit_range_for_a_resize_change_that_pod_only(
    api: ApiClient,
) -> None:
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


async def test_equal_specs_are_one_object_in_the_store(
    api: ApiClient, server: FakeApiServer
) -> None:
    for name in ("a", "b"):
        await api.create(PODS, pod(name))
    first, second = (
        server._registry.store.get(("", "pods"), "default", name) for name in ("a", "b")
    )
    assert first is not None
    assert second is not None
    assert first.object["spec"] is second.object["spec"]
