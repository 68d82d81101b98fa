"""Endpoints and EndpointSlices of Services, and the ServiceAccount of each namespace."""

from typing import Any

from ..actor_cluster import PODS, Cluster, cluster

SERVICES = "/api/v1/namespaces/default/services"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
ACCOUNTS = "/api/v1/namespaces/{}/serviceaccounts"

Json = dict[str, Any]


def service(name: str, **spec: Any) -> Json:
    ports = [{"name": "web", "port": 80, "targetPort": "http"}]
    return {"metadata": {"name": name}, "spec": {"selector": {"app": "a"}, "ports": ports, **spec}}


def pod(name: str, port: int = 8080, **metadata: Any) -> Json:
    ports = [{"name": "http", "containerPort": port}]
    return {
        "metadata": {"name": name, "labels": {"app": "a"}, **metadata},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i", "ports": ports}]},
    }


async def run(running: Cluster, name: str, ip: str, *, ready: bool, port: int = 8080) -> Json:
    """Create a pod and write the status that a kubelet would."""
    made = await running.create(PODS, pod(name, port))
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": conditions}
    await running.api.patch(f"{PODS}/{name}/status", {"status": status})
    await running.settle()
    return made


async def test_endpoints_have_the_addresses_of_ready_pods() -> None:
    async with cluster(endpoints=True) as running:
        await running.create(SERVICES, service("s"))
        made = await run(running, "p1", "10.1.0.1", ready=True)
        await run(running, "p2", "10.1.0.2", ready=False)
        found = await running.read(f"{ENDPOINTS}/s")
        (subset,) = found["subsets"]
        reference = {"kind": "Pod", "namespace": "default", "name": "p1"}
        assert subset["addresses"] == [
            {
                "ip": "10.1.0.1",
                "nodeName": "n1",
                "targetRef": {**reference, "uid": made["metadata"]["uid"]},
            }
        ]
        assert [address["ip"] for address in subset["notReadyAddresses"]] == ["10.1.0.2"]
        assert subset["ports"] == [{"name": "web", "protocol": "TCP", "port": 8080}]
        assert found["metadata"]["labels"] == {
            "endpoints.kubernetes.io/managed-by": "endpoint-controller"
        }


async def test_a_slice_has_all_pods_with_their_conditions() -> None:
    async with cluster(endpoints=True) as running:
        made = await running.create(SERVICES, service("s"))
        await run(running, "p1", "10.1.0.1", ready=True)
        await run(running, "p2", "10.1.0.2", ready=False)
        await running.api.delete(f"{PODS}/p1")
        await running.settle()
        (found,) = await running.items(SLICES, labelSelector="kubernetes.io/service-name=s")
        conditions = [endpoint["conditions"] for endpoint in found["endpoints"]]
        assert conditions == [
            {"ready": False, "serving": True, "terminating": True},
            {"ready": False, "serving": False, "terminating": False},
        ]
        assert found["ports"] == [{"name": "web", "protocol": "TCP", "port": 8080}]
        assert found["addressType"] == "IPv4"
        (owner,) = found["metadata"]["ownerReferences"]
        assert owner["uid"] == made["metadata"]["uid"]
        endpoints = await running.read(f"{ENDPOINTS}/s")
        assert "addresses" not in endpoints["subsets"][0]


async def test_a_named_port_may_differ_between_pods() -> None:
    async with cluster(endpoints=True) as running:
        await running.create(SERVICES, service("s"))
        await run(running, "p1", "10.1.0.1", ready=True, port=8080)
        await run(running, "p2", "10.1.0.2", ready=True, port=9090)
        subsets = (await running.read(f"{ENDPOINTS}/s"))["subsets"]
        assert [subset["ports"][0]["port"] for subset in subsets] == [8080, 9090]
        assert len(await running.items(SLICES, labelSelector="kubernetes.io/service-name=s")) == 2


async def test_a_slice_has_at_most_100_endpoints() -> None:
    async with cluster(endpoints=True) as running:
        await running.create(SERVICES, service("s"))
        selector = "kubernetes.io/service-name=s"
        (empty,) = await running.items(SLICES, labelSelector=selector)
        assert empty["endpoints"] == []
        for number in range(101):
            await run(running, f"p{number:03}", f"10.1.0.{number + 1}", ready=True)
        found = await running.items(SLICES, labelSelector=selector)
        assert sorted(len(one["endpoints"]) for one in found) == [1, 100]
        await running.api.delete(f"{PODS}/p000", gracePeriodSeconds=0)
        await running.settle()
        (left,) = await running.items(SLICES, labelSelector=selector)
        assert len(left["endpoints"]) == 100


async def test_deleted_endpoints_are_written_again_and_changed_labels_follow() -> None:
    async with cluster(endpoints=True) as running:
        await running.create(SERVICES, service("s"))
        await running.api.delete(f"{ENDPOINTS}/s")
        await running.settle()
        assert await running.code(f"{ENDPOINTS}/s") == 200
        await running.api.patch(f"{SERVICES}/s", {"metadata": {"labels": {"team": "x"}}})
        await running.settle()
        assert (await running.read(f"{ENDPOINTS}/s"))["metadata"]["labels"]["team"] == "x"


async def test_services_without_selector_are_left_alone() -> None:
    async with cluster(endpoints=True) as running:
        await running.create(SERVICES, service("none", selector={}))
        await running.create(
            SERVICES, service("name", type="ExternalName", externalName="example.com", ports=[])
        )
        assert await running.code(f"{ENDPOINTS}/none") == 404
        assert await running.code(f"{ENDPOINTS}/name") == 404


async def test_each_namespace_has_a_service_account_default() -> None:
    async with cluster(garbage_collector=True) as running:
        await running.create("/api/v1/namespaces", {"metadata": {"name": "later"}})
        for namespace in ("default", "kube-system", "later"):
            found = await running.items(ACCOUNTS.format(namespace))
            assert [one["metadata"]["name"] for one in found] == ["default"]
        await running.api.delete(f"{ACCOUNTS.format('later')}/default")
        await running.settle()
        assert await running.code(f"{ACCOUNTS.format('later')}/default") == 200
        await running.api.delete("/api/v1/namespaces/later")
        await running.settle()
        assert await running.code("/api/v1/namespaces/later") == 404
