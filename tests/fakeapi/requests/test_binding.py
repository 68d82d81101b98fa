"""Binding pods to nodes: the order of the checks, and what changes on the pod."""

from typing import Any

import pytest

from fakeapi import ManualClock

from ..api_client import ApiClient
from ..objects import NODES, PODS, binding, pod

OTHER_UID = "00000000-0000-0000-0000-000000000000"


async def test_a_bound_pod_has_its_node_and_the_condition(
    api: ApiClient, clock: ManualClock
) -> None:
    created = await api.create(PODS, pod("p"))
    clock.advance(5)
    reply = await api.post(f"{PODS}/p/binding", binding("p", uid=created["metadata"]["uid"]))
    assert (reply.code, reply.body["status"], reply.body["code"]) == (201, "Success", 201)
    bound = (await api.get(f"{PODS}/p")).body
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["generation"] == 1
    (condition,) = bound["status"]["conditions"]
    assert condition == {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": condition["lastTransitionTime"],
    }
    assert condition["lastTransitionTime"] > created["metadata"]["creationTimestamp"]


@pytest.mark.parametrize(
    ("subresource", "kind"), [("binding", "Binding"), ("eviction", "Eviction")]
)
async def test_unknown_fields_follow_the_field_validation(
    api: ApiClient, subresource: str, kind: str
) -> None:
    await api.create(PODS, pod("p"))
    body = {**(binding("p") if kind == "Binding" else {"metadata": {"name": "p"}}), "nope": 1}
    path = f"{PODS}/p/{subresource}?dryRun=All"
    strict = await api.post(f"{path}&fieldValidation=Strict", body)
    assert (strict.code, strict.message) == (
        400,
        f'{kind} in version "v1" cannot be handled as a {kind}: '
        'strict decoding error: unknown field "nope"',
    )
    told = await api.post(path, body)
    assert (told.code, told.headers["Warning"]) == (201, '299 - "unknown field \\"nope\\""')
    assert "Warning" not in (await api.post(f"{path}&fieldValidation=Ignore", body)).headers


async def test_binding_is_one_write(api: ApiClient) -> None:
    created = await api.create(PODS, pod("p"))
    await api.post(f"{PODS}/p/binding", binding("p"))
    bound = await api.get(f"{PODS}/p")
    assert bound.version == int(created["metadata"]["resourceVersion"]) + 1


async def test_the_node_need_not_exist(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    assert (await api.post(f"{PODS}/p/binding", binding("p", "nowhere"))).code == 201


async def test_labels_and_annotations_of_the_binding_are_merged_into_the_pod(
    api: ApiClient,
) -> None:
    await api.create(PODS, pod("p", labels={"a": "pod", "b": "pod"}, annotations={"x": "y"}))
    given = binding("p", labels={"a": "binding"}, annotations={"k": "v"})
    await api.post(f"{PODS}/p/binding", given)
    metadata = (await api.get(f"{PODS}/p")).body["metadata"]
    assert metadata["labels"] == {"a": "binding", "b": "pod"}
    assert metadata["annotations"] == {"x": "y", "k": "v"}


async def test_the_pod_learns_the_zone_and_region_of_its_node(api: ApiClient) -> None:
    topology = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"}
    labels = {**topology, "kubernetes.io/hostname": "n1"}
    await api.create(NODES, {"metadata": {"name": "n1", "labels": labels}})
    await api.create(PODS, pod("p", labels={"topology.kubernetes.io/zone": "wrong"}))
    await api.post(f"{PODS}/p/binding", binding("p", "n1"))
    assert (await api.get(f"{PODS}/p")).body["metadata"]["labels"] == topology


async def test_a_binding_without_the_kind_node_adds_no_zone(api: ApiClient) -> None:
    labels = {"topology.kubernetes.io/zone": "z1"}
    await api.create(NODES, {"metadata": {"name": "n1", "labels": labels}})
    await api.create(PODS, pod("p"))
    reply = await api.post(f"{PODS}/p/binding", {**binding("p"), "target": {"name": "n1"}})
    assert reply.code == 201
    bound = (await api.get(f"{PODS}/p")).body
    assert (bound["spec"]["nodeName"], bound["metadata"].get("labels")) == ("n1", None)


async def test_the_nomination_is_cleared(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    await api.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "n2"}})
    await api.post(f"{PODS}/p/binding", binding("p"))
    assert "nominatedNodeName" not in (await api.get(f"{PODS}/p")).body["status"]


@pytest.mark.parametrize("node", ["n1", "n2"])
async def test_a_bound_pod_cannot_be_bound_again(api: ApiClient, node: str) -> None:
    await api.create(PODS, pod("p"))
    await api.post(f"{PODS}/p/binding", binding("p", "n1"))
    reply = await api.post(f"{PODS}/p/binding", binding("p", node))
    assert (reply.code, reply.reason) == (409, "Conflict")
    assert reply.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )
    assert reply.body["details"] == {"name": "p", "kind": "pods/binding"}


async def test_a_gated_pod_cannot_be_bound(api: ApiClient) -> None:
    await api.create(PODS, pod("p", spec={"schedulingGates": [{"name": "example.com/wait"}]}))
    reply = await api.post(f"{PODS}/p/binding", binding("p"))
    assert reply.code == 409
    assert reply.message.endswith("pod p has non-empty .spec.schedulingGates")


async def test_a_pod_that_is_going_cannot_be_bound(api: ApiClient) -> None:
    await api.create(PODS, pod("p", finalizers=["example.com/hold"]))
    await api.delete(f"{PODS}/p")
    reply = await api.post(f"{PODS}/p/binding", binding("p"))
    assert reply.code == 409
    assert reply.message.endswith("pod p is being deleted, cannot be assigned to a host")


async def test_a_binding_for_another_uid_is_refused(api: ApiClient) -> None:
    created = await api.create(PODS, pod("p"))
    reply = await api.post(f"{PODS}/p/binding", binding("p", uid=OTHER_UID))
    assert (reply.code, reply.reason) == (409, "Conflict")
    uid = created["metadata"]["uid"]
    assert reply.message.endswith(
        f"Precondition failed: UID in precondition: {OTHER_UID}, UID in object meta: {uid}"
    )
    assert "nodeName" not in (await api.get(f"{PODS}/p")).body["spec"]


async def test_a_binding_for_another_version_is_refused(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    reply = await api.post(f"{PODS}/p/binding", binding("p", resourceVersion="1"))
    assert (reply.code, reply.reason) == (409, "Conflict")


@pytest.mark.parametrize(
    ("name", "body", "code", "message"),
    [
        ("p", binding("other"), 400, "name in URL does not match name in Binding object"),
        (
            "p",
            {"metadata": {"name": "p"}, "target": {"kind": "Pod", "name": "n1"}},
            500,
            'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
        ),
        ("p", binding("p", ""), 500, "target.name: Required value"),
        (
            "p",
            {"metadata": {"name": "p"}, "target": {"kind": "Pod"}},
            500,
            '[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", '
            "target.name: Required value]",
        ),
        ("gone", binding("gone"), 404, 'pods "gone" not found'),
    ],
)
async def test_bindings_that_make_no_sense(
    api: ApiClient, name: str, body: dict[str, Any], code: int, message: str
) -> None:
    await api.create(PODS, pod("p"))
    reply = await api.post(f"{PODS}/{name}/binding", body)
    assert (reply.code, reply.message) == (code, message)


async def test_the_old_bindings_collection_binds_too(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    path = "/api/v1/namespaces/default/bindings"
    assert (await api.post(path, binding("p"))).code == 201
    again = await api.post(path, binding("p"))
    assert again.body["details"]["kind"] == "pods/binding"


async def test_a_dry_run_binds_nothing(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    assert (await api.post(f"{PODS}/p/binding", binding("p"), dryRun="All")).code == 201
    assert "nodeName" not in (await api.get(f"{PODS}/p")).body["spec"]


async def test_nothing_is_bound_in_a_namespace_that_is_going(api: ApiClient) -> None:
    await api.create("/api/v1/namespaces", {"metadata": {"name": "ns"}})
    await api.create("/api/v1/namespaces/ns/pods", pod("p"))
    await api.delete("/api/v1/namespaces/ns")
    reply = await api.post("/api/v1/namespaces/ns/pods/p/binding", binding("p"))
    assert (reply.code, reply.causes) == (403, [("NamespaceTerminating", "metadata.namespace")])


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_binding_can_only_be_posted(api: ApiClient, method: str) -> None:
    await api.create(PODS, pod("p"))
    assert (await api.request(method, f"{PODS}/p/binding")).code == 405
