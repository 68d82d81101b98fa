"""The status subresource: two halves of an object, each behind its own endpoint."""

import pytest

from fakeapi import ManualClock

from ..api_client import ApiClient
from ..objects import NODES, PODS, pod

VOLUMES = "/api/v1/persistentvolumes"
RESOURCE_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


async def test_the_object_endpoint_ignores_the_status(api: ApiClient) -> None:
    created = await api.create(PODS, pod("p"))
    reply = await api.put(f"{PODS}/p", {**created, "status": {"phase": "Failed"}})
    assert (reply.code, reply.body["status"]["phase"]) == (200, "Pending")
    patched = await api.patch(f"{PODS}/p", {"status": {"phase": "Failed"}})
    assert patched.body == created


async def test_the_status_endpoint_ignores_the_spec_but_takes_labels(api: ApiClient) -> None:
    created = await api.create(PODS, pod("p"))
    created["spec"]["nodeName"] = "n1"
    created["metadata"]["labels"] = {"x": "y"}
    created["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    ]
    reply = await api.put(f"{PODS}/p/status", {**created, "status": {"phase": "Running"}})
    assert reply.code == 200
    assert "nodeName" not in reply.body["spec"]
    assert reply.body["metadata"]["labels"] == {"x": "y"}
    assert "ownerReferences" not in reply.body["metadata"]
    assert reply.body["status"] == {"phase": "Running", "qosClass": "BestEffort"}


async def test_the_status_endpoint_does_not_mark_a_pod_for_deletion(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    change = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    reply = await api.patch(f"{PODS}/p/status", change)
    assert (reply.code, "deletionTimestamp" in reply.body["metadata"]) == (200, False)


async def test_the_status_can_be_read(api: ApiClient) -> None:
    created = await api.create(PODS, pod("p"))
    assert (await api.get(f"{PODS}/p/status")).body == created


async def test_the_quality_of_service_class_is_fixed(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    reply = await api.patch(f"{PODS}/p/status", {"status": {"qosClass": "Guaranteed"}})
    assert (reply.code, reply.causes) == (422, [("FieldValueInvalid", "status.qosClass")])
    cleared = await api.patch(f"{PODS}/p/status", {"status": {"qosClass": None}})
    assert cleared.body["status"]["qosClass"] == "BestEffort"


async def test_observed_generations_of_conditions_survive_their_omission(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    condition = {"type": "Ready", "status": "False", "observedGeneration": 3}
    await api.patch(f"{PODS}/p/status", {"status": {"conditions": [condition]}})
    later = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    reply = await api.patch(f"{PODS}/p/status", later)
    (found,) = reply.body["status"]["conditions"]
    assert (found["status"], found["observedGeneration"]) == ("True", 3)


async def test_a_bound_pod_cannot_be_nominated(api: ApiClient) -> None:
    await api.create(PODS, pod("p", spec={"nodeName": "n1"}))
    reply = await api.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "n2"}})
    assert (reply.code, reply.causes) == (
        422,
        [("FieldValueForbidden", "status.nominatedNodeName")],
    )


@pytest.mark.parametrize(
    ("condition", "field"),
    [
        ({"type": "bad type", "status": "True"}, "status.conditions[0].Type"),
        (
            {"type": "Ready", "status": "True", "observedGeneration": -1},
            "status.conditions[0].observedGeneration",
        ),
    ],
)
async def test_conditions_are_checked(
    api: ApiClient, condition: dict[str, object], field: str
) -> None:
    await api.create(PODS, pod("p"))
    reply = await api.patch(f"{PODS}/p/status", {"status": {"conditions": [condition]}})
    assert (reply.code, reply.causes) == (422, [("FieldValueInvalid", field)])


async def test_a_nodes_status_is_apart_too(api: ApiClient) -> None:
    await api.create(NODES, {"metadata": {"name": "n"}})
    await api.patch(f"{NODES}/n/status", {"status": {"capacity": {"cpu": "4"}}})
    reply = await api.patch(f"{NODES}/n", {"status": {"capacity": {"cpu": "8"}}})
    assert reply.body["status"]["capacity"] == {"cpu": "4"}
    wrong = await api.patch(f"{NODES}/n/status", {"spec": {"unschedulable": True}})
    assert wrong.body["spec"] == {}


async def test_a_volumes_phase_moves_its_time(api: ApiClient, clock: ManualClock) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/x"},
    }
    created = await api.create(VOLUMES, {"metadata": {"name": "v"}, "spec": spec})
    clock.advance(10)
    bound = await api.patch(f"{VOLUMES}/v/status", {"status": {"phase": "Bound"}})
    first = created["status"]["lastPhaseTransitionTime"]
    second = bound.body["status"]["lastPhaseTransitionTime"]
    assert first < second


async def test_some_status_endpoints_take_no_labels(api: ApiClient) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    await api.create(RESOURCE_CLAIMS, body)
    allocated = {"allocation": {"devices": {"results": []}}}
    change = {"metadata": {"labels": {"a": "b"}}, "status": allocated}
    reply = await api.patch(f"{RESOURCE_CLAIMS}/c/status", change)
    assert "labels" not in reply.body["metadata"]
    assert "allocation" in reply.body["status"]


async def test_updating_the_status_of_nothing_is_not_found(api: ApiClient) -> None:
    assert (await api.put(f"{PODS}/p/status", pod("p"))).code == 404
    assert (await api.patch(f"{PODS}/p/status", {})).code == 404
