"""Behaviour that unmodified clients rely on and that no other file tests."""

from fakeapi import FakeApiServer, ManualClock

from .api_client import ApiClient
from .discovery.test_discovery import WATCHED
from .objects import CONFIG_MAPS, NODES, PODS, binding, config_map, pod
from .protobuf_writer import MEDIA_TYPE as PROTOBUF
from .protobuf_writer import enveloped, message, metadata


async def test_every_one_of_18_list_watch_resources_answers(api: ApiClient) -> None:
    assert len(WATCHED) == 18
    for path in WATCHED:
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        async with api.watch(path, allowWatchBookmarks="true", **query) as stream:
            while (event := await stream.next()) and event["type"] != "BOOKMARK":
                pass
            assert event is not None


async def test_protobuf_bodies_are_decoded_and_answered_in_json(api: ApiClient) -> None:
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


async def test_a_missing_content_type_means_json(api: ApiClient) -> None:
    body = b'{"metadata": {"name": "c"}}'
    assert (await api.request("POST", CONFIG_MAPS, body, content_type=None)).code == 201


async def test_versions_never_go_backwards_also_across_restarts(clock: ManualClock) -> None:
    before = FakeApiServer(clock=clock)
    for index in range(50):
        before.load([{"apiVersion": "v1", "kind": "ConfigMap", **config_map(f"c{index}")}])
    clock.advance(0.01)
    after = FakeApiServer(clock=clock)
    assert after.resource_version > before.resource_version


async def test_admission_sets_the_fields_that_scheduling_depends_on(api: ApiClient) -> None:
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


async def test_the_openapi_documents_for_kubectls_validation_are_served(api: ApiClient) -> None:
    """In OpenAPI v2 and v3: each patch has the parameters fieldValidation and dryRun."""
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
