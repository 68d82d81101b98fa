"""The resize subresource of pods changes the cpu and memory of containers, and nothing else."""

from typing import Any

import pytest

from ..api_client import ApiClient
from ..objects import PODS

RESIZE = f"{PODS}/p/resize"


def sized(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}


def change(container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", **container}], **spec}}


async def test_requests_change_and_the_generation_moves(api: ApiClient) -> None:
    await api.create(PODS, sized())
    wanted = change({"resources": {"requests": {"cpu": "500m"}}})
    reply = await api.patch(RESIZE, wanted, "application/strategic-merge-patch+json")
    assert reply.code == 200
    assert reply.body["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m"}
    assert reply.body["metadata"]["generation"] == 2
    assert (await api.get(f"{PODS}/p")).body == reply.body
    assert (await api.get(RESIZE)).body == reply.body


async def test_all_else_stays_as_it_was(api: ApiClient) -> None:
    created = await api.create(PODS, sized())
    wanted = {**created, "metadata": {**created["metadata"], "labels": {"a": "b"}}}
    wanted["spec"] = {**created["spec"], "nodeName": "n"}
    wanted["status"] = {"phase": "Running"}
    reply = await api.put(RESIZE, wanted)
    assert (reply.code, reply.body) == (200, created)


async def test_a_limit_range_fills_in_resources_of_a_resized_pod_without_a_note(
    api: ApiClient,
) -> None:
    await api.create(PODS, sized())
    limit = {"type": "Container", "defaultRequest": {"memory": "1Mi"}}
    ranges = "/api/v1/namespaces/default/limitranges"
    await api.create(ranges, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    wanted = change({"resources": {"requests": {"cpu": "500m"}}})
    reply = await api.patch(RESIZE, wanted, "application/strategic-merge-patch+json")
    resources = reply.body["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "500m", "memory": "1Mi"}
    assert "annotations" not in reply.body["metadata"]


REQUESTS = "spec.containers[0].resources.requests"


@pytest.mark.parametrize(
    ("before", "container", "field", "detail"),
    [
        pytest.param(
            sized(), {"resources": None}, REQUESTS, "resource requests cannot be removed",
            id="a request is taken away",
        ),
        pytest.param(
            sized(), {"resources": {"requests": {"cpu": "1", "memory": "1Gi"},
                                    "limits": {"cpu": "1", "memory": "1Gi"}}},
            "spec", "Pod QOS Class may not change as a result of resizing",
            id="the quality of service would change",
        ),
        pytest.param(
            sized(), {"resources": {"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}}},
            "spec", "only cpu and memory resources are mutable",
            id="another resource",
        ),
    ],
)  # fmt: skip
async def test_changes_other_than_resources_are_refused(
    api: ApiClient, before: dict[str, Any], container: dict[str, Any], field: str, detail: str
) -> None:
    await api.create(PODS, before)
    wanted = change(container)
    reply = await api.patch(RESIZE, wanted, "application/strategic-merge-patch+json")
    assert reply.code == 422
    assert (field, True) in [
        (cause["field"], detail in cause["message"]) for cause in reply.body["details"]["causes"]
    ]


async def test_containers_cannot_be_renamed(api: ApiClient) -> None:
    created = await api.create(PODS, sized())
    [container] = created["spec"]["containers"]
    wanted = {**created, "spec": {**created["spec"], "containers": [{**container, "name": "d"}]}}
    reply = await api.put(RESIZE, wanted)
    assert (reply.code, reply.causes) == (
        422,
        [("FieldValueForbidden", "spec.containers[0].name")],
    )


async def test_containers_cannot_be_added(api: ApiClient) -> None:
    created = await api.create(PODS, sized())
    [container] = created["spec"]["containers"]
    containers = [container, {**container, "name": "d"}]
    reply = await api.put(
        RESIZE, {**created, "spec": {**created["spec"], "containers": containers}}
    )
    assert (reply.code, reply.causes) == (422, [("FieldValueForbidden", "spec.containers")])


async def test_an_init_container_that_would_restart_cannot_be_resized(api: ApiClient) -> None:
    first = {
        "name": "first",
        "image": "i",
        "resources": {"requests": {"cpu": "1"}},
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
    }
    created = await api.create(PODS, sized(initContainers=[first]))
    [container] = created["spec"]["initContainers"]
    container = {**container, "resources": {"requests": {"cpu": "2"}}}
    wanted = {**created, "spec": {**created["spec"], "initContainers": [container]}}
    reply = await api.put(RESIZE, wanted)
    assert (reply.code, reply.causes) == (422, [("FieldValueForbidden", "spec.initContainers[0]")])


async def test_a_node_that_cannot_resize_is_named(api: ApiClient) -> None:
    created = await api.create(PODS, sized())
    running = {"name": "c", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    status = {"phase": "Running", "containerStatuses": [running]}
    ready = await api.put(f"{PODS}/p/status", {**created, "status": status})
    wanted = change({"resources": {"requests": {"cpu": "500m"}}})
    reply = await api.patch(RESIZE, wanted, "application/strategic-merge-patch+json")
    assert ready.code == 200
    assert (reply.code, reply.causes) == (422, [("FieldValueForbidden", "spec")])
    assert "Pod running on node without support for resize" in reply.body["message"]


async def test_other_kinds_have_none(api: ApiClient) -> None:
    assert (await api.get("/api/v1/nodes/n/resize")).code == 404
