"""ResourceQuota over HTTP: refusals and their texts, and status.used after writes."""

import subprocess
import sys
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeapi import FakeApiServer, LoadError, ManualClock, ServerOptions
from fakeapi.decoding.options import WriteOptions
from fakeapi.quota.controller import QuotaController, TrackedQuota
from fakeapi.store.registry import Target
from fakeapi.writes import pipeline
from fakeapi.writes.completion import complete
from tests.thoroughness import examples

from ..api_client import STRATEGIC, ApiClient, Reply
from ..objects import PODS, binding, config_map, pod, with_resources

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
SERVICES = "/api/v1/namespaces/default/services"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEVICE_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


async def quota(api: ApiClient, hard: dict[str, str], **spec: Any) -> None:
    await api.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}})


async def used(api: ApiClient) -> dict[str, str]:
    status = (await api.get(f"{QUOTAS}/q")).body["status"]
    found: dict[str, str] = status["used"]
    return found


def asking(name: str, cpu: str, memory: str = "1Gi", **spec: Any) -> dict[str, Any]:
    return pod(name, spec={**with_resources(requests={"cpu": cpu, "memory": memory}), **spec})


def storage(size: str, **spec: Any) -> dict[str, Any]:
    asked = {"requests": {"storage": size}}
    return {"accessModes": ["ReadWriteOnce"], "resources": asked, **spec}


async def test_existing_objects_are_counted_for_a_new_quota(api: ApiClient) -> None:
    await api.create(PODS, asking("a", "300m"))
    hard = {"requests.cpu": "1", "requests.memory": "4Gi", "pods": "3", "example.com/x": "1"}
    await quota(api, hard)
    status = (await api.get(f"{QUOTAS}/q")).body["status"]
    assert status["hard"] == hard
    assert status["used"] == {"pods": "1", "requests.cpu": "300m", "requests.memory": "1Gi"}


async def test_a_pod_that_exceeds_a_quota_is_refused_with_upstreams_message(api: ApiClient) -> None:
    await quota(api, {"requests.cpu": "1", "requests.memory": "1536Mi"})
    await api.create(PODS, asking("a", "600m"))
    reply = await api.post(PODS, asking("b", "500m"))
    assert (reply.code, reply.reason) == (403, "Forbidden")
    assert reply.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=500m,'
        "requests.memory=1Gi, used: requests.cpu=600m,requests.memory=1Gi, "
        "limited: requests.cpu=1,requests.memory=1536Mi"
    )
    assert await used(api) == {"requests.cpu": "600m", "requests.memory": "1Gi"}


async def test_every_container_must_set_counted_resources(api: ApiClient) -> None:
    await quota(
        api, {"limits.cpu": "1", "requests.memory": "1Gi", "requests.ephemeral-storage": "1"}
    )
    containers = [{"name": name, "image": "x"} for name in ("b", "a")]
    reply = await api.post(PODS, pod("p", spec={"containers": containers}))
    assert reply.message == (
        'pods "p" is forbidden: failed quota: q: must specify limits.cpu for: a,b; '
        "requests.memory for: a,b"
    )
    whole = {"limits": {"cpu": "100m"}, "requests": {"memory": "1Mi"}}
    spec = {"containers": containers, "resources": whole}
    assert (await api.post(PODS, pod("p", spec=spec))).code == 201
    assert (await used(api))["limits.cpu"] == "100m"


async def test_use_goes_down_when_pods_end_or_go(api: ApiClient) -> None:
    await quota(api, {"pods": "2", "count/pods": "5", "cpu": "1"})
    for name in ("a", "b"):
        await api.create(PODS, asking(name, "500m"))
    assert (await api.post(PODS, asking("c", "1m"))).code == 403
    await api.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
    assert await used(api) == {"count/pods": "2", "cpu": "500m", "pods": "1"}
    await api.delete(f"{PODS}/b")
    assert await used(api) == {"count/pods": "1", "cpu": "0", "pods": "0"}
    await api.create(PODS, asking("c", "1"))


async def test_a_pod_that_should_be_gone_makes_room(api: ApiClient, clock: ManualClock) -> None:
    await quota(api, {"pods": "1", "count/pods": "9"})
    await api.create(PODS, pod("a"))
    await api.post(f"{PODS}/a/binding", binding("a"))
    await api.delete(f"{PODS}/a")
    assert (await api.post(PODS, pod("b"))).code == 403
    clock.advance(61)  # its time, and as much again
    await api.create(PODS, pod("b"))
    assert await used(api) == {"count/pods": "2", "pods": "1"}
    await api.delete(f"{PODS}/a?gracePeriodSeconds=0")
    assert await used(api) == {"count/pods": "1", "pods": "1"}


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ("BestEffort", {}, with_resources(requests={"cpu": "1"})),
        ("NotBestEffort", with_resources(requests={"cpu": "1"}), {}),
        ("Terminating", {"activeDeadlineSeconds": 5}, {}),
        ("NotTerminating", {}, {"activeDeadlineSeconds": 5}),
        (
            "CrossNamespacePodAffinity",
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "z", "namespaces": ["x"], "labelSelector": {}}
                        ]
                    }
                }
            },
            {},
        ),
    ],
)
async def test_a_scope_is_about_some_pods_only(
    api: ApiClient, scope: str, inside: dict[str, Any], outside: dict[str, Any]
) -> None:
    await quota(api, {"pods": "0"}, scopes=[scope])
    assert (await api.post(PODS, pod("in", spec=inside))).code == 403
    assert (await api.post(PODS, pod("out", spec=outside))).code == 201


@pytest.mark.parametrize(
    ("operator", "values", "refused"),
    [
        ("In", ["system-node-critical"], [True, False]),
        ("NotIn", ["system-node-critical"], [False, True]),
        ("Exists", [], [True, False]),
        ("DoesNotExist", [], [False, True]),
    ],
)
async def test_a_scope_selector_is_about_classes_of_priority(
    api: ApiClient, operator: str, values: list[str], refused: list[bool]
) -> None:
    wanted = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    await quota(api, {"pods": "0"}, scopeSelector={"matchExpressions": [wanted]})
    critical = pod("a", spec={"priorityClassName": "system-node-critical"})
    replies = [await api.post(PODS, critical), await api.post(PODS, pod("b"))]
    assert [reply.code == 403 for reply in replies] == refused


async def test_a_resize_must_fit_into_the_rest_of_the_quota(api: ApiClient) -> None:
    await quota(api, {"requests.cpu": "1"})
    await api.create(PODS, asking("a", "600m"))
    path = f"{PODS}/a/resize"

    async def resized(cpu: str) -> Reply:
        asked = {"requests": {"cpu": cpu, "memory": "1Gi"}}
        change = {"spec": {"containers": [{"name": "c", "resources": asked}]}}
        return await api.patch(path, change, STRATEGIC)

    refused = await resized("1100m")
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        'pods "a" is forbidden: exceeded quota: q, requested: requests.cpu=500m, '
        "used: requests.cpu=600m, limited: requests.cpu=1"
    )
    assert (await resized("1")).code == 200
    assert await used(api) == {"requests.cpu": "1"}
    assert (await resized("200m")).code == 200
    assert await used(api) == {"requests.cpu": "200m"}


async def test_claims_can_be_counted_by_their_class_of_attributes(api: ApiClient) -> None:
    wanted = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}
    hard = {"persistentvolumeclaims": "1", "requests.storage": "3Gi"}
    await quota(api, hard, scopeSelector={"matchExpressions": [wanted]})

    def claim(name: str, size: str, kind: str) -> dict[str, Any]:
        spec = storage(size, volumeAttributesClassName=kind)
        return {"metadata": {"name": name}, "spec": spec}

    await api.create(CLAIMS, claim("silver", "9Gi", "silver"))
    assert await used(api) == {"persistentvolumeclaims": "0", "requests.storage": "0"}
    assert (await api.post(CLAIMS, claim("large", "4Gi", "gold"))).code == 403
    await api.create(CLAIMS, claim("gold", "2Gi", "gold"))
    assert await used(api) == {"persistentvolumeclaims": "1", "requests.storage": "2Gi"}
    assert (await api.post(CLAIMS, claim("second", "1Gi", "gold"))).code == 403
    status = {"status": {"currentVolumeAttributesClassName": "gold"}}
    assert (await api.patch(f"{CLAIMS}/silver/status", status)).code == 200
    assert (await used(api))["persistentvolumeclaims"] == "2", "it is still of that class"


async def test_objects_of_any_kind_are_counted(api: ApiClient) -> None:
    await quota(
        api, {"count/configmaps": "1", "configmaps": "5", "count/leases.coordination.k8s.io": "0"}
    )
    await api.create(CONFIG_MAPS, config_map("a"))
    reply = await api.post(CONFIG_MAPS, config_map("b"))
    assert reply.message == (
        'configmaps "b" is forbidden: exceeded quota: q, requested: count/configmaps=1, '
        "used: count/configmaps=1, limited: count/configmaps=1"
    )
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert (await api.post(leases, {"metadata": {"name": "l"}})).code == 403
    assert await used(api) == {
        "configmaps": "1",
        "count/configmaps": "1",
        "count/leases.coordination.k8s.io": "0",
    }


async def test_services_claims_and_devices_have_names_of_their_own(api: ApiClient) -> None:
    per_class = "gold.storageclass.storage.k8s.io/requests.storage"
    devices = "gpu.deviceclass.resource.k8s.io/devices"
    names = ("services", "services.nodeports", "services.loadbalancers", "requests.storage",
             "persistentvolumeclaims")  # fmt: skip
    await quota(api, {**dict.fromkeys(names, "20Gi"), per_class: "3Gi", devices: "3"})
    ports = [{"name": name, "port": number} for name, number in (("a", 1), ("b", 2))]
    await api.create(
        SERVICES, {"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "ports": ports}}
    )
    claim = {"metadata": {"name": "c"}, "spec": storage("2Gi", storageClassName="gold")}
    await api.create(CLAIMS, claim)
    reply = await api.post(CLAIMS, {**claim, "metadata": {"name": "d"}})
    assert reply.message.endswith(
        f"exceeded quota: q, requested: {per_class}=2Gi, used: {per_class}=2Gi, "
        f"limited: {per_class}=3Gi"
    )
    exact = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    requests = [{"name": "r", "exactly": exact}]
    made = {"metadata": {"name": "d"}, "spec": {"devices": {"requests": requests}}}
    await api.create(DEVICE_CLAIMS, made)
    assert (await api.post(DEVICE_CLAIMS, {**made, "metadata": {"name": "e"}})).code == 403
    assert await used(api) == {
        "services": "2", "services.nodeports": "2", "services.loadbalancers": "1",
        "requests.storage": "2Gi", "persistentvolumeclaims": "1", per_class: "2Gi", devices: "2",
    }  # fmt: skip


async def test_a_dry_run_is_checked_and_not_counted(api: ApiClient) -> None:
    await quota(api, {"pods": "1"})
    assert (await api.post(f"{PODS}?dryRun=All", pod("a"))).code == 201
    assert await used(api) == {"pods": "0"}
    await api.create(PODS, pod("a"))
    assert (await api.post(f"{PODS}?dryRun=All", pod("b"))).code == 403


async def test_refused_objects_are_not_counted(api: ApiClient) -> None:
    await quota(api, {"pods": "5"})
    await api.create(PODS, pod("a"))
    assert (await api.post(PODS, pod("a"))).code == 409
    assert await used(api) == {"pods": "1"}


async def test_a_changed_quota_is_counted_again_and_a_deleted_one_is_ignored(
    api: ApiClient,
) -> None:
    await quota(api, {"pods": "1"})
    await api.create(PODS, pod("a"))
    await api.patch(f"{QUOTAS}/q", {"spec": {"hard": {"pods": "2", "count/pods": "2"}}})
    assert await used(api) == {"count/pods": "1", "pods": "1"}
    await api.patch(f"{QUOTAS}/q/status", {"status": {"used": {"pods": "7"}}})
    assert await used(api) == {"count/pods": "1", "pods": "1"}
    await api.create(PODS, pod("b"))
    await api.delete(f"{QUOTAS}/q")
    await api.create(PODS, pod("c"))


async def test_the_status_is_the_controllers(api: ApiClient) -> None:
    await quota(api, {"pods": "1"})
    entries = (await api.get(f"{QUOTAS}/q")).body["metadata"]["managedFields"]
    mine = [(entry["manager"], entry.get("subresource")) for entry in entries]
    assert ("kube-controller-manager", "status") in mine


async def test_a_write_does_not_look_at_quotas_that_do_not_count_its_kind(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await quota(api, {"pods": "1"})
    asked: list[object] = []

    def names(_: TrackedQuota, resource: object) -> list[str]:
        asked.append(resource)
        return []

    monkeypatch.setattr(TrackedQuota, "names", names)
    await api.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}})
    assert asked == []


async def test_without_the_plugin_a_quota_is_only_an_object(
    session: aiohttp.ClientSession,
) -> None:
    async with FakeApiServer(
        options=ServerOptions(disable_admission_plugins=["ResourceQuota"])
    ) as server:
        api = ApiClient(session, server.url)
        await quota(api, {"pods": "0"})
        await api.create(PODS, pod("a"))
        assert (await api.get(f"{QUOTAS}/q")).body["status"] == {}


async def test_loaded_objects_have_to_fit_or_none_is_stored(
    server: FakeApiServer, api: ApiClient
) -> None:
    await quota(api, {"configmaps": "1"})
    both = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": n}} for n in ("a", "b")]
    with pytest.raises(LoadError, match="exceeded quota: q, requested: configmaps=1"):
        server.load(both)
    assert await used(api) == {"configmaps": "0"}
    assert server.load(both[:1]) == 1
    assert await used(api) == {"configmaps": "1"}


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "finish", "delete", "deadline"]),
        st.sampled_from("abcd"),
        st.sampled_from(["100m", "1", "0.3"]),
    ),
    max_size=25,
)


@settings(max_examples=examples(30))
@given(_STEPS)
def test_the_status_is_always_that_of_a_new_count(steps: list[tuple[str, str, str]]) -> None:
    server = FakeApiServer(seed=1, options=ServerOptions(managed_fields=False))
    state = server._registry
    kinds = {name: state.kinds.find("", "v1", name) for name in ("pods", "resourcequotas")}
    assert kinds["pods"] is not None
    assert kinds["resourcequotas"] is not None
    hard = {"pods": "99", "requests.cpu": "99", "count/pods": "99"}
    made = {"metadata": {"name": "q"}, "spec": {"hard": hard, "scopes": ["NotTerminating"]}}
    where = Target(kinds["resourcequotas"], "default", "", WriteOptions())
    pipeline.create(state, where, complete(kinds["resourcequotas"], made))
    for verb, name, cpu in steps:
        present = state.store.get(("", "pods"), "default", name)
        if verb == "create" and present is None:
            obj = complete(kinds["pods"], asking(name, cpu))
            pipeline.create(state, Target(kinds["pods"], "default", "", WriteOptions()), obj)
        elif verb == "delete" and present is not None:
            state.store.remove(("", "pods"), present.key)
        elif present is not None:
            changed = (
                {**present.object, "status": {"phase": "Failed"}}
                if verb == "finish"
                else {
                    **present.object,
                    "spec": {**present.object["spec"], "activeDeadlineSeconds": 1},
                }  # type: ignore[dict-item]
            )
            state.store.put(("", "pods"), present.key, changed)
    before = state.store.collection(("", "resourcequotas")).revisions["default/q"]
    QuotaController(state)  # it counts all objects and writes only changes
    assert state.store.collection(("", "resourcequotas")).revisions["default/q"] is before


def test_a_server_without_quotas_does_not_import_them() -> None:
    program = (
        "import sys, fakeapi\n"
        "server = fakeapi.FakeApiServer()\n"
        "assert 'fakeapi.quota' not in sys.modules\n"
        "metadata = {'name': 'q', 'namespace': 'default'}\n"
        "server.load([{'apiVersion': 'v1', 'kind': 'ResourceQuota', 'metadata': metadata}])\n"
        "assert 'fakeapi.quota' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
