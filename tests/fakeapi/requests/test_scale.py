"""The scale subresource of workloads: read, replaced, patched, as kubectl scale does."""

from typing import Any

import pytest

from fakeapi.requests.scale import selector_text

from ..api_client import MERGE, STRATEGIC, ApiClient

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def workload(**spec: Any) -> dict[str, Any]:
    labels = {"app": "a"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    return {
        "metadata": {"name": "d"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


async def test_the_scale_of_a_deployment(api: ApiClient) -> None:
    made = await api.create(DEPLOYMENTS, workload())
    scale = (await api.get(f"{DEPLOYMENTS}/d/scale")).body
    metadata = made["metadata"]
    assert scale == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            name: metadata[name]
            for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        },
        "spec": {"replicas": 3},
        "status": {"replicas": 0, "selector": "app=a"},
    }


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
async def test_a_patch_scales(api: ApiClient, content_type: str) -> None:
    await api.create(DEPLOYMENTS, workload())
    path = f"{DEPLOYMENTS}/d/scale"
    scaled = await api.patch(path, {"spec": {"replicas": 5}}, content_type)
    assert (scaled.code, scaled.body["spec"]) == (200, {"replicas": 5})
    now = (await api.get(f"{DEPLOYMENTS}/d")).body
    assert (now["spec"]["replicas"], now["metadata"]["generation"]) == (5, 2)
    assert now["metadata"]["resourceVersion"] == scaled.body["metadata"]["resourceVersion"]
    same = await api.patch(path, {"spec": {"replicas": 5}}, content_type)
    assert same.version == scaled.version, "a write that changes nothing is none"


async def test_the_scale_of_another_uid_is_a_conflict(api: ApiClient) -> None:
    await api.create(DEPLOYMENTS, workload())
    other = {"metadata": {"name": "d", "uid": "u"}, "spec": {"replicas": 1}}
    reply = await api.put(f"{DEPLOYMENTS}/d/scale", other)
    assert (reply.code, "UID in precondition: u" in reply.message) == (409, True)


@pytest.mark.parametrize("plural", ["replicasets", "statefulsets"])
async def test_other_workloads_scale(api: ApiClient, plural: str) -> None:
    path = f"/apis/apps/v1/namespaces/default/{plural}"
    await api.create(path, workload(serviceName="s") if plural == "statefulsets" else workload())
    assert (await api.patch(f"{path}/d/scale", {"spec": {"replicas": 1}})).code == 200


async def test_a_replication_controller_selects_by_a_map(api: ApiClient) -> None:
    path = "/api/v1/namespaces/default/replicationcontrollers"
    await api.create(path, workload(selector={"app": "a"}))
    scale = (await api.get(f"{path}/d/scale")).body
    assert scale["status"]["selector"] == "app=a"


def test_selectors_in_one_line() -> None:
    selector = {
        "matchLabels": {"b": "1"},
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]},
            {"key": "d", "operator": "DoesNotExist"},
            {"key": "c", "operator": "Exists"},
            {"key": "e", "operator": "NotIn", "values": ["z"]},
        ],
    }
    assert selector_text(selector) == "a in (x,y),b=1,c,!d,e notin (z)"
    assert selector_text("a=b") == "a=b"
    assert selector_text(None) == ""
