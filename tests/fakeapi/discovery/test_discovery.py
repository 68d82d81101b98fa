"""Discovery and health, the first requests of clients."""

import aiohttp
import pytest

from fakeapi import FakeApiServer, Generation, Kind, ServerOptions

from ..api_client import ApiClient

GROUPS = {
    "apiextensions.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
}
#: The resources that kube-scheduler lists and watches: after a 404 for one it schedules nothing.
WATCHED = [
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/namespaces",
    "/api/v1/services",
    "/api/v1/replicationcontrollers",
    "/api/v1/persistentvolumes",
    "/api/v1/persistentvolumeclaims",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/csidrivers",
    "/apis/storage.k8s.io/v1/csistoragecapacities",
    "/apis/storage.k8s.io/v1/volumeattachments",
    "/apis/resource.k8s.io/v1/resourceclaims",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses",
]
ALSO_SERVED = [
    "/api/v1/configmaps",
    "/api/v1/events",
    "/api/v1/secrets",
    "/api/v1/serviceaccounts",
    "/api/v1/endpoints",
    "/api/v1/limitranges",
    "/api/v1/resourcequotas",
    "/apis/apps/v1/deployments",
    "/api/v1/podtemplates",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apps/v1/controllerrevisions",
    "/apis/apps/v1/daemonsets",
    "/apis/autoscaling/v2/horizontalpodautoscalers",
    "/apis/batch/v1/cronjobs",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/apis/networking.k8s.io/v1/ingressclasses",
    "/apis/networking.k8s.io/v1/ingresses",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/storage.k8s.io/v1/volumeattributesclasses",
    "/apis/batch/v1/jobs",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/events.k8s.io/v1/events",
    "/apis/node.k8s.io/v1/runtimeclasses",
    "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
]


@pytest.mark.parametrize("path", WATCHED + ALSO_SERVED)
async def test_every_resource_lists_and_watches(api: ApiClient, path: str) -> None:
    listed = await api.get(path)
    assert listed.code == 200
    async with api.watch(path, resourceVersion=listed.version):
        pass


async def test_the_groups(api: ApiClient) -> None:
    core = (await api.get("/api")).body
    assert (core["kind"], core["versions"]) == ("APIVersions", ["v1"])
    groups = (await api.get("/apis")).body
    assert groups["kind"] == "APIGroupList"
    assert {group["name"] for group in groups["groups"]} == GROUPS


async def test_one_group(api: ApiClient) -> None:
    group = (await api.get("/apis/scheduling.k8s.io")).body
    assert [version["version"] for version in group["versions"]] == ["v1"]
    assert group["preferredVersion"]["groupVersion"] == "scheduling.k8s.io/v1"
    assert (await api.get("/apis/nope.k8s.io")).code == 404


ALPHA = "/apis/scheduling.k8s.io/v1alpha2"


async def test_alpha_versions_are_off_by_default(api: ApiClient) -> None:
    assert (await api.get(ALPHA)).code == 404
    assert (await api.get(f"{ALPHA}/namespaces/default/podgroups")).code == 404
    groups = (await api.get("/apis")).body["groups"]
    assert "v1alpha2" not in [v["version"] for group in groups for v in group["versions"]]


@pytest.mark.parametrize("on", ["api/alpha=true", "scheduling.k8s.io/v1alpha2=true", "api/all"])
async def test_alpha_versions_can_be_turned_on(session: aiohttp.ClientSession, on: str) -> None:
    async with FakeApiServer(options=ServerOptions(runtime_config=on)) as server:
        api = ApiClient(session, server.url)
        group = (await api.get("/apis/scheduling.k8s.io")).body
        assert [version["version"] for version in group["versions"]] == ["v1", "v1alpha2"]
        assert group["preferredVersion"]["groupVersion"] == "scheduling.k8s.io/v1"
        for plural in ("podgroups", "workloads"):
            assert (await api.get(f"{ALPHA}/{plural}")).code == 200


async def test_the_resources_of_a_version(api: ApiClient) -> None:
    found = (await api.get("/api/v1")).body
    assert (found["kind"], found["groupVersion"]) == ("APIResourceList", "v1")
    by_name = {resource["name"]: resource for resource in found["resources"]}
    assert by_name["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": [
            "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
        ],
        "shortNames": ["po"],
        "categories": ["all"],
        "storageVersionHash": "xPOwRZ+Yhw8=",
    }  # fmt: skip
    assert by_name["pods/binding"]["kind"] == "Binding"
    assert by_name["pods/status"]["verbs"] == ["get", "patch", "update"]
    eviction = by_name["pods/eviction"]
    assert (eviction["group"], eviction["version"], eviction["kind"]) == (
        "policy",
        "v1",
        "Eviction",
    )
    assert by_name["bindings"]["verbs"] == ["create"]
    assert by_name["nodes"]["namespaced"] is False
    assert by_name["endpoints"]["singularName"] == "endpoints"


async def test_the_version_is_that_of_the_release_it_mirrors(api: ApiClient) -> None:
    version = (await api.get("/version")).body
    assert (version["major"], version["minor"], version["gitVersion"]) == ("1", "36", "v1.36.3")


@pytest.mark.parametrize("path", ["/", "/index.html"])
async def test_the_index_names_paths_that_are_there(api: ApiClient, path: str) -> None:
    paths = (await api.get(path)).body["paths"]
    assert paths == sorted(paths)
    assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/readyz/shutdown", "/version"} <= set(paths)
    assert [each for each in paths if (await api.get(each)).code != 200] == []


async def test_a_verbose_probe_lists_its_checks_and_each_has_a_path(api: ApiClient) -> None:
    told = (await api.get("/readyz", verbose="", exclude="etcd")).body.splitlines()
    assert told[:3] == ["[+]ping ok", "[+]log ok", "[+]etcd excluded: ok"]
    assert told[-1] == "readyz check passed"
    for line in told[:-1]:
        check = line.removeprefix("[+]").split()[0]
        assert (await api.get(f"/readyz/{check}")).body == "ok"
    strange = (await api.get("/livez", verbose="", exclude="x")).body.splitlines()
    assert strange[-2:] == [
        'warn: some health checks cannot be excluded: no matches for "x"',
        "livez check passed",
    ]
    assert (await api.get("/livez/nope")).code == 404


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping"])
async def test_health_endpoints_answer_ok(api: ApiClient, path: str) -> None:
    reply = await api.get(path)
    assert (reply.code, reply.body) == (200, "ok")


async def test_a_kind_is_served_as_soon_as_it_is_in_the_table(
    api: ApiClient, server: FakeApiServer
) -> None:
    path = "/apis/example.com/v1/namespaces/default/widgets"
    assert (await api.get(path)).code == 404
    server.kinds.add(
        Kind(
            "example.com", "v1", "widgets", "Widget",
            subresources=("status",), generation=Generation.SPEC,
        )
    )  # fmt: skip
    widget = {"metadata": {"name": "w"}, "spec": {"any": {"thing": [1, 2.5]}}, "status": {"a": 1}}
    created = await api.create(path, widget)
    assert (created["kind"], created["apiVersion"]) == ("Widget", "example.com/v1")
    assert created["spec"] == {"any": {"thing": [1, 2.5]}}
    assert "status" not in created
    changed = await api.patch(f"{path}/w", {"spec": {"any": None}})
    assert changed.body["metadata"]["generation"] == 2
    status = await api.patch(f"{path}/w/status", {"spec": {"x": 1}, "status": {"ready": True}})
    assert (status.body["spec"], status.body["status"]) == ({}, {"ready": True})
    strategic = "application/strategic-merge-patch+json"
    assert (await api.patch(f"{path}/w", {}, strategic)).code == 415
    assert (await api.get("/apis/example.com/v1")).body["resources"][0]["name"] == "widgets"


@pytest.mark.parametrize(
    ("version", "plural", "expected"),
    [  # as in kube-apiserver v1.36.3
        ("/apis/events.k8s.io/v1", "events", "r2yiGXH7wu8="),
        ("/api/v1", "events", "r2yiGXH7wu8="),
        ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", "jfWCUB31mvA="),
        ("/apis/authentication.k8s.io/v1", "tokenreviews", None),
    ],
)
async def test_discovery_has_a_hash_of_the_storage_version(
    api: ApiClient, version: str, plural: str, expected: str | None
) -> None:
    resources = (await api.get(version)).body["resources"]
    found = next(resource for resource in resources if resource["name"] == plural)
    assert found.get("storageVersionHash") == expected
    assert all("storageVersionHash" not in one for one in resources if "/" in one["name"])


async def test_the_emulated_version_is_in_the_document_of_the_version(
    session: aiohttp.ClientSession,
) -> None:
    async with FakeApiServer(options=ServerOptions(emulated_version="1.34")) as server:
        body = (await ApiClient(session, server.url).get("/version")).body
    assert (body["minor"], body["gitVersion"]) == ("36", "v1.36.3")
    assert (body["emulationMinor"], body["minCompatibilityMinor"]) == ("34", "33")
    with pytest.raises(ValueError, match=r"'1\.32': expected one of 1\.33, 1\.34, 1\.35, 1\.36"):
        FakeApiServer(options=ServerOptions(emulated_version="1.32"))
