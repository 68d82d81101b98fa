"""Checks of a write, in upstream's order, and effects of a delete: tables over HTTP.

Sources: pkg/registry/core/pod/storage/storage.go (BindingREST), apiserver
pkg/registry/generic/registry/store.go (Delete) and pkg/registry/core/pod/strategy.go of v1.36.3.
"""

from typing import Any

import pytest

from tests.fakeapi.api_client import ApiClient
from tests.fakeapi.objects import CONFIG_MAPS, NODES, PODS, binding, config_map, pod

Json = dict[str, Any]
OTHER_UID = "00000000-0000-0000-0000-000000000000"

#: What can be wrong with a binding, in the order in which it is looked at: code, part of the text.
BINDING_CHECKS: dict[str, tuple[int, str]] = {
    "name": (400, "name in URL does not match name in Binding object"),
    "target kind": (500, "target.kind"),
    "pod": (404, 'pods "p" not found'),
    "uid": (409, "Precondition failed: UID in precondition"),
    "version": (409, "Precondition failed: ResourceVersion in precondition"),
    "deleting": (409, "pod p is being deleted, cannot be assigned to a host"),
    "bound": (409, 'pod p is already assigned to node "n0"'),
}
WRONG = list(BINDING_CHECKS)


async def _pod_with(api: ApiClient, wrong: list[str]) -> None:
    """The pod `p` in a state in which these checks fail."""
    if "pod" in wrong:
        return
    await api.create(PODS, pod("p", finalizers=["example.com/hold"]))
    if "bound" in wrong:
        await api.post(f"{PODS}/p/binding", binding("p", "n0"))
    if "deleting" in wrong:
        await api.delete(f"{PODS}/p")


@pytest.mark.parametrize("first", range(len(WRONG)), ids=WRONG)
async def test_the_first_check_of_a_binding_that_fails_decides(api: ApiClient, first: int) -> None:
    """Everything from this check on is wrong; the answer is about this one."""
    wrong = WRONG[first:]
    await _pod_with(api, wrong)
    body = binding("other" if "name" in wrong else "p", "n1")
    body["target"]["kind"] = "Pod" if "target kind" in wrong else "Node"
    body["metadata"] |= {"uid": OTHER_UID} if "uid" in wrong else {}
    body["metadata"] |= {"resourceVersion": "1"} if "version" in wrong else {}
    refused = await api.post(f"{PODS}/p/binding", body)
    code, text = BINDING_CHECKS[WRONG[first]]
    assert refused.code == code, refused.body
    assert text in refused.message


async def test_gates_are_looked_at_last(api: ApiClient) -> None:
    gated = pod("p", spec={"schedulingGates": [{"name": "g"}]}, finalizers=["example.com/hold"])
    await api.create(PODS, gated)
    refused = await api.post(f"{PODS}/p/binding", binding("p"))
    assert (refused.code, refused.message.partition(": ")[2]) == (
        409,
        "pod p has non-empty .spec.schedulingGates",
    )
    await api.delete(f"{PODS}/p")
    refused = await api.post(f"{PODS}/p/binding", binding("p"))
    assert "is being deleted" in refused.message


#: Name: how the pod is (bound, its phase, its own grace, a finalizer); the options of the delete;
#: then the events, and whether the pod is still there with how much grace.
DELETES: dict[str, tuple[Json, Json | None, list[str], int | None]] = {
    "unscheduled": ({}, None, ["MODIFIED", "DELETED"], None),
    "unscheduled, grace asked for": (
        {}, {"gracePeriodSeconds": 60}, ["MODIFIED", "DELETED"], None,
    ),
    "bound": ({"bound": True}, None, ["MODIFIED"], 30),
    "bound, grace of its own": ({"bound": True, "grace": 7}, None, ["MODIFIED"], 7),
    "bound, grace asked for": ({"bound": True}, {"gracePeriodSeconds": 5}, ["MODIFIED"], 5),
    "bound, no grace": (
        {"bound": True}, {"gracePeriodSeconds": 0}, ["MODIFIED", "DELETED"], None,
    ),
    "bound, negative grace": ({"bound": True}, {"gracePeriodSeconds": -3}, ["MODIFIED"], 1),
    "succeeded": ({"bound": True, "phase": "Succeeded"}, None, ["MODIFIED", "DELETED"], None),
    "failed": ({"bound": True, "phase": "Failed"}, None, ["MODIFIED", "DELETED"], None),
    "running": ({"bound": True, "phase": "Running"}, None, ["MODIFIED"], 30),
    "unscheduled, held": ({"held": True}, None, ["MODIFIED"], 0),
    "bound, held": ({"bound": True, "held": True}, None, ["MODIFIED"], 30),
    "bound, held, no grace": (
        {"bound": True, "held": True}, {"gracePeriodSeconds": 0}, ["MODIFIED"], 0,
    ),
    "dry run": ({"bound": True}, {"dryRun": ["All"]}, [], None),
}  # fmt: skip


@pytest.mark.parametrize("row", DELETES.values(), ids=DELETES.keys())
async def test_deleting_a_pod(
    api: ApiClient, row: tuple[Json, Json | None, list[str], int | None]
) -> None:
    state, options, expected, grace = row
    spec = {"terminationGracePeriodSeconds": state["grace"]} if "grace" in state else {}
    await api.create(PODS, pod("p", spec=spec, finalizers=["example.com/x"] * ("held" in state)))
    if state.get("bound"):
        await api.post(f"{PODS}/p/binding", binding("p"))
    if "phase" in state:
        await api.patch(f"{PODS}/p/status", {"status": {"phase": state["phase"]}})
    before = (await api.get(f"{PODS}/p")).body
    async with api.watch(PODS, resourceVersion=before["metadata"]["resourceVersion"]) as stream:
        deleted = await api.delete(f"{PODS}/p", options)
        assert deleted.code == 200, deleted.body
        await api.create(PODS, pod("last"))
        events = []
        while (event := await stream.next()) and event["object"]["metadata"]["name"] == "p":
            events.append(event["type"])
    assert events == expected
    now = await api.get(f"{PODS}/p")
    if expected == []:
        assert now.body == before
    elif grace is None:
        assert now.code == 404
    else:
        metadata = now.body["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == grace
        assert metadata["generation"] == before["metadata"]["generation"] + 1


@pytest.mark.parametrize(
    ("preconditions", "code"),
    [
        ({"uid": "its own"}, 200),
        ({"uid": OTHER_UID}, 409),
        ({"resourceVersion": "its own"}, 200),
        ({"resourceVersion": "1"}, 409),
        ({"uid": "its own", "resourceVersion": "1"}, 409),
        ({}, 200),
    ],
)
@pytest.mark.parametrize(("path", "body"), [(PODS, pod("x")), (CONFIG_MAPS, config_map("x"))])
async def test_preconditions_of_a_delete(
    api: ApiClient, path: str, body: Json, preconditions: dict[str, str], code: int
) -> None:
    made = await api.create(path, body)
    sent = {
        name: made["metadata"][name] if value == "its own" else value
        for name, value in preconditions.items()
    }
    reply = await api.delete(f"{path}/x", {"preconditions": sent})
    assert reply.code == code, reply.body
    assert (await api.get(f"{path}/x")).code == (404 if code == 200 else 200)


#: Resource, label of a field, the value it has, and the object that has it.
FIELDS: list[tuple[str, str, str, Json]] = [
    (PODS, "metadata.name", "x", pod("x")),
    (PODS, "metadata.namespace", "default", pod("x")),
    (PODS, "spec.nodeName", "n", pod("x", spec={"nodeName": "n"})),
    (PODS, "spec.host", "n", pod("x", spec={"nodeName": "n"})),
    (PODS, "spec.restartPolicy", "Never", pod("x", spec={"restartPolicy": "Never"})),
    (PODS, "spec.schedulerName", "s", pod("x", spec={"schedulerName": "s"})),
    (PODS, "spec.serviceAccountName", "a", pod("x", spec={"serviceAccountName": "a"})),
    (PODS, "spec.hostNetwork", "true", pod("x", spec={"hostNetwork": True})),
    (PODS, "status.phase", "Pending", pod("x")),
    (PODS, "status.podIP", "", pod("x")),
    (PODS, "status.nominatedNodeName", "", pod("x")),
    (
        NODES, "spec.unschedulable", "true",
        {"metadata": {"name": "x"}, "spec": {"unschedulable": True}},
    ),
    (NODES, "metadata.name", "x", {"metadata": {"name": "x"}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "field", "value", "body"), FIELDS, ids=[f"{row[0]} {row[1]}" for row in FIELDS]
)
@pytest.mark.parametrize(("sign", "selected"), [("=", True), ("==", True), ("!=", False)])
async def test_field_selectors(
    api: ApiClient, path: str, field: str, value: str, body: Json, sign: str, selected: bool
) -> None:
    await api.create(path, body)
    reply = await api.get(path, fieldSelector=f"{field}{sign}{value}")
    assert reply.code == 200, reply.body
    assert reply.names == (["x"] if selected else [])
    other = await api.get(path, fieldSelector=f"{field}{sign}something-else")
    assert other.names == ([] if selected else ["x"])


@pytest.mark.parametrize(
    ("path", "selector", "text"),
    [
        (PODS, "spec.nothing=1", "field label not supported: spec.nothing"),
        (NODES, "spec.podCIDR=1", "field label not supported: spec.podCIDR"),
        (
            CONFIG_MAPS,
            "data.a=1",
            '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
@pytest.mark.parametrize("watch", ["true", "false"])
async def test_unknown_fields_are_refused(
    api: ApiClient, path: str, selector: str, text: str, watch: str
) -> None:
    refused = await api.get(path, fieldSelector=selector, watch=watch)
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert text in refused.message
