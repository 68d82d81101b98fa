"""The things that decide whether unmodified clients believe a fake API server (apisem.md 0.1).

One test each, numbered as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi import FakeApiServer

from .api_client import STRATEGIC
from .objects import CONFIG_MAPS, NODES, PODS, binding, config_map, pod
from .protobuf_writer import MEDIA_TYPE as PROTOBUF
from .protobuf_writer import enveloped, message, metadata
from .test_discovery import WATCHED

if TYPE_CHECKING:
    from fakeapi import ManualClock

    from .api_client import ApiClient


async def test_01_every_one_of_18_list_watch_resources_answers(api: ApiClient) -> None:
    assert len(WATCHED) == 18
    for path in WATCHED:
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        async with api.watch(path, allowWatchBookmarks="true", **query) as stream:
            while (event := await stream.next()) and event["type"] != "BOOKMARK":
                pass
            assert event is not None


async def test_02_send_initial_events_is_implemented_with_its_end_bookmark(
    api: ApiClient,
) -> None:
    await api.create(PODS, pod("p"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    async with api.watch(PODS, allowWatchBookmarks="true", **query) as stream:
        assert await stream.take(1) == [("ADDED", "p")]
        end = await stream.next()
    assert end is not None
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_03_protobuf_bodies_are_decoded_and_answered_in_json(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    target = message((1, "Node"), (2, ""), (3, "n1"))
    body = enveloped("v1", "Binding", message((1, metadata("p")), (2, target)))
    reply = await api.request(
        "POST",
        f"{PODS}/p/binding",
        body,
        content_type=PROTOBUF,
        headers={"Accept": f"{PROTOBUF}, */*"},
    )
    assert (reply.code, reply.headers["Content-Type"]) == (201, "application/json")
    assert (await api.get(f"{PODS}/p")).body["spec"]["nodeName"] == "n1"


async def test_04_strategic_merge_keeps_the_other_conditions(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    for name in ("PodScheduled", "DisruptionTarget"):
        change = {"status": {"conditions": [{"type": name, "status": "True"}]}}
        reply = await api.patch(f"{PODS}/p/status", change, STRATEGIC)
    types = {condition["type"] for condition in reply.body["status"]["conditions"]}
    assert types == {"PodScheduled", "DisruptionTarget"}


async def test_05_a_missing_content_type_means_json(api: ApiClient) -> None:
    body = b'{"metadata": {"name": "c"}}'
    assert (await api.request("POST", CONFIG_MAPS, body, content_type=None)).code == 201


async def test_06_node_name_is_set_at_most_once_per_uid(api: ApiClient) -> None:
    created = await api.create(PODS, pod("p"))
    async with api.watch(PODS, resourceVersion=created["metadata"]["resourceVersion"]) as stream:
        assert (await api.post(f"{PODS}/p/binding", binding("p", "n1"))).code == 201
        event = await stream.next()
    assert event is not None
    assert event["type"] == "MODIFIED"
    assert event["object"]["spec"]["nodeName"] == "n1"
    assert (await api.post(f"{PODS}/p/binding", binding("p", "n2"))).code == 409
    change = {"spec": {"nodeName": "n2"}}
    assert (await api.patch(f"{PODS}/p", change)).code == 422
    status = await api.patch(f"{PODS}/p/status", {**change, "status": {"phase": "Running"}})
    assert status.body["spec"]["nodeName"] == "n1"


async def test_07_versions_never_go_backwards_also_across_restarts(clock: ManualClock) -> None:
    before = FakeApiServer(clock=clock)
    for index in range(50):
        before.load([{"apiVersion": "v1", "kind": "ConfigMap", **config_map(f"c{index}")}])
    clock.advance(0.01)
    after = FakeApiServer(clock=clock)
    assert after.resource_version > before.resource_version


async def test_08_an_object_that_leaves_a_selector_is_deleted_with_its_old_content(
    api: ApiClient,
) -> None:
    await api.create(CONFIG_MAPS, config_map("c", {"a": "old"}, labels={"x": "1"}))
    async with api.watch(CONFIG_MAPS, labelSelector="x=1") as stream:
        await stream.next()
        change = {"metadata": {"labels": None}, "data": {"a": "new"}}
        left = await api.patch(f"{CONFIG_MAPS}/c", change)
        event = await stream.next()
        assert event is not None
        assert (event["type"], event["object"]["data"]) == ("DELETED", {"a": "old"})
        assert int(event["object"]["metadata"]["resourceVersion"]) == left.version
        await api.patch(f"{CONFIG_MAPS}/c", {"metadata": {"labels": {"x": "1"}}})
        assert await stream.take(1) == [("ADDED", "c")]


async def test_09_a_write_without_a_change_keeps_the_version_and_makes_no_event(
    api: ApiClient, server: FakeApiServer
) -> None:
    created = await api.create(PODS, pod("p"))
    version = server.resource_version
    assert (await api.put(f"{PODS}/p", created)).body == created
    assert (await api.patch(f"{PODS}/p", {}, STRATEGIC)).body == created
    assert server.resource_version == version


async def test_10_binding_to_a_node_that_does_not_exist_succeeds(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    assert (await api.post(f"{PODS}/p/binding", binding("p", "nowhere"))).code == 201


async def test_11_an_unscheduled_pod_goes_at_once_and_a_bound_one_stays(
    api: ApiClient, clock: ManualClock
) -> None:
    await api.create(PODS, pod("free"))
    await api.create(PODS, pod("bound", spec={"nodeName": "n1"}))
    async with api.watch(PODS, fieldSelector="metadata.name=free") as stream:
        await stream.next()
        await api.delete(f"{PODS}/free")
        assert await stream.take(2) == [("MODIFIED", "free"), ("DELETED", "free")]
    await api.delete(f"{PODS}/bound")
    clock.advance(10**6)
    assert "deletionTimestamp" in (await api.get(f"{PODS}/bound")).body["metadata"]
    await api.delete(f"{PODS}/bound", {"gracePeriodSeconds": 0})
    assert (await api.get(f"{PODS}/bound")).code == 404


async def test_12_admission_does_what_scheduling_depends_on(api: ApiClient) -> None:
    labels = {"topology.kubernetes.io/zone": "z1"}
    await api.create(NODES, {"metadata": {"name": "n1", "labels": labels}})
    container = {"name": "c", "image": "x", "ports": [{"containerPort": 80}]}
    container["resources"] = {"limits": {"cpu": "1"}}
    spec = {"containers": [container], "hostNetwork": True}
    created = (await api.create(PODS, pod("p", spec=spec)))["spec"]
    assert created["priority"] == 0
    assert len(created["tolerations"]) == 2
    assert created["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    assert created["containers"][0]["ports"][0]["hostPort"] == 80
    await api.post(f"{PODS}/p/binding", binding("p", "n1"))
    assert (await api.get(f"{PODS}/p")).body["metadata"]["labels"] == labels


async def test_13_what_kubectl_validates_by_is_served(api: ApiClient) -> None:
    """In both versions: each kind that takes patches says so, and that it can be asked strictly."""
    assert (await api.get("/openapi/v2")).body["swagger"] == "2.0"
    index = (await api.get("/openapi/v3")).body["paths"]
    for group in (await api.get("/apis")).body["groups"]:
        assert {f"apis/{version['groupVersion']}" for version in group["versions"]} <= set(index)
    for section in ("api/v1", "apis/apps/v1"):
        document = (await api.get(index[section]["serverRelativeURL"])).body
        patches = [path["patch"] for path in document["paths"].values() if "patch" in path]
        assert patches
        for patch in patches:
            assert {"fieldValidation", "dryRun"} <= {each["name"] for each in patch["parameters"]}
            assert patch["x-kubernetes-action"] == "patch"
            assert patch["x-kubernetes-group-version-kind"]["kind"]


async def test_14_legacy_discovery_is_served(api: ApiClient) -> None:
    assert (await api.get("/api")).body["versions"] == ["v1"]
    for group in (await api.get("/apis")).body["groups"]:
        for version in group["versions"]:
            reply = await api.get(f"/apis/{version['groupVersion']}")
            assert reply.body["kind"] == "APIResourceList"
