"""The Service `default/kubernetes` and its endpoints, which point at the server."""

from pathlib import Path

from fakeapi import FakeApiServer

from ..api_client import ApiClient
from ..state_files import serving

SERVICE = "/api/v1/namespaces/default/services/kubernetes"
ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"
SLICE = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"


async def test_the_kubernetes_service_points_at_the_server(
    server: FakeApiServer, api: ApiClient
) -> None:
    service = (await api.get(SERVICE)).body
    assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    assert service["spec"] == {
        "clusterIP": "10.96.0.1",
        "clusterIPs": ["10.96.0.1"],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": server.port}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }
    ports = [{"name": "https", "port": server.port, "protocol": "TCP"}]
    endpoints = (await api.get(ENDPOINTS)).body
    assert endpoints["subsets"] == [{"addresses": [{"ip": "127.0.0.1"}], "ports": ports}]
    found = (await api.get(SLICE)).body
    assert found["addressType"] == "IPv4"
    assert found["endpoints"] == [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]
    assert found["ports"] == ports
    assert found["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}


async def test_a_restored_server_points_at_its_new_port(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    async with serving(snapshot=path) as (_, api):
        before = (await api.get(SERVICE)).body
    async with serving(snapshot=path, port=0) as (server, api):
        service, endpoints = (await api.get(SERVICE)).body, (await api.get(ENDPOINTS)).body
        assert service == before
        assert endpoints["subsets"][0]["ports"][0]["port"] == server.port
        found = (await api.get(SLICE)).body
        assert found["ports"][0]["port"] == server.port


async def test_a_service_of_a_manifest_stays_and_its_address_may_be_taken() -> None:
    metadata = {"name": "kubernetes", "namespace": "default", "labels": {"from": "manifest"}}
    ports = [{"port": 443}]
    given = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}
    async with serving(load=[given]) as (_, api):
        service = (await api.get(SERVICE)).body
        assert service["metadata"]["labels"] == {"from": "manifest"}
    other = {
        **given,
        "metadata": {"name": "other", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.1", "ports": ports},
    }
    async with serving(load=[other]) as (_, api):
        assert (await api.get(SERVICE)).code == 200
