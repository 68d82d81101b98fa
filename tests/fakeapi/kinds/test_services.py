"""Services over HTTP: the cluster IPs and node ports that the server chooses.

Answers recorded from upstream are in exchanges/services.yaml.
"""

import ipaddress
from pathlib import Path
from typing import Any

import pytest

from fakeapi import FakeApiServer
from fakeapi.faults import Fault, Restart
from fakeapi.kinds import service_addresses

from ..api_client import ApiClient
from ..state_files import serving

SERVICES = "/api/v1/namespaces/default/services"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
RANGE = ipaddress.ip_network("10.96.0.0/12")
#: Addresses and ports below these are allocated last: clients ask for them by number.
FIRST_ADDRESS, FIRST_PORT = ipaddress.ip_address("10.96.1.1"), 30086

Json = dict[str, Any]


def service(name: str, **spec: Any) -> Json:
    """A service with one port."""
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def node_ports(made: Json) -> list[int]:
    """Return the node ports of a service."""
    return [port["nodePort"] for port in made["spec"]["ports"] if "nodePort" in port]


async def test_kubectl_get_svc_shows_the_address_and_the_node_port(api: ApiClient) -> None:
    made = await api.create(SERVICES, service("s", type="NodePort", selector={"a": "b"}))
    reply = await api.request("GET", f"{SERVICES}/s", headers={"Accept": TABLE})
    cells = reply.body["rows"][0]["cells"]
    (port,) = node_ports(made)
    address = made["spec"]["clusterIP"]
    assert cells[:5] == ["s", "NodePort", address, "<none>", f"80:{port}/TCP"]
    assert made["spec"]["clusterIPs"] == [address]
    assert ipaddress.ip_address(address) in RANGE


async def test_a_new_service_does_not_read_those_that_are_there(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        await api.create(SERVICES, service(f"s{number}"))
    read: list[object] = []

    def is_external_name(spec: Json) -> bool:
        read.append(spec)
        return spec.get("type") == "ExternalName"

    monkeypatch.setattr(service_addresses, "has_cluster_ip", lambda s: not is_external_name(s))
    await api.create(SERVICES, service("one-more"))
    assert 0 < len(read) < 10


async def test_no_two_services_share_an_address_or_a_port(api: ApiClient) -> None:
    made = [await api.create(SERVICES, service(f"s{i}", type="NodePort")) for i in range(150)]
    addresses = {ipaddress.ip_address(each["spec"]["clusterIP"]) for each in made}
    ports = {port for each in made for port in node_ports(each)}
    assert len(addresses) == len(ports) == 150
    assert min(int(address) for address in addresses) >= int(FIRST_ADDRESS)
    assert min(ports) >= FIRST_PORT
    assert max(ports) <= 32767


async def test_the_lowest_free_address_and_node_port_are_next(api: ApiClient) -> None:
    made = [await api.create(SERVICES, service(f"s{i}", type="NodePort")) for i in range(3)]
    await api.delete(f"{SERVICES}/s1")
    again = await api.create(SERVICES, service("again", type="NodePort"))
    found = [(each["spec"]["clusterIP"], *node_ports(each)) for each in (*made, again)]
    assert found == [
        ("10.96.1.1", 30086),
        ("10.96.1.2", 30087),
        ("10.96.1.3", 30088),
        ("10.96.1.2", 30087),
    ]


async def test_the_reserved_node_ports_come_last_and_then_the_range_is_full(api: ApiClient) -> None:
    def ports(count: int) -> list[Json]:
        return [{"name": f"p{number}", "port": number} for number in range(1, count + 1)]

    made = await api.create(SERVICES, service("a", type="NodePort", ports=ports(2682)))
    assert node_ports(made) == list(range(FIRST_PORT, 32768))
    made = await api.create(SERVICES, service("b", type="NodePort", ports=ports(85)))
    assert node_ports(made) == list(range(30000, 30085))
    refused = await api.post(SERVICES, service("c", type="NodePort", ports=ports(2)))
    assert (refused.code, refused.body["message"]) == (
        500,
        "Internal error occurred: failed to allocate a nodePort: range is full",
    )


async def test_a_node_port_of_an_external_name_is_not_taken(api: ApiClient) -> None:
    ports = [{"port": 80, "nodePort": 30040}]
    named = service("named", type="ExternalName", externalName="e.org", ports=ports)
    await api.create(SERVICES, named)
    await api.create(SERVICES, service("owner", type="NodePort", ports=ports))
    change = {"spec": {"type": "NodePort"}}
    refused = await api.patch(f"{SERVICES}/named", change)
    assert refused.causes == [("FieldValueInvalid", "spec.ports[0].nodePort")]
    await api.delete(f"{SERVICES}/named")
    assert (await api.post(SERVICES, service("x", type="NodePort", ports=ports))).code == 422


async def test_endpoints_without_finalizers_are_deleted_with_their_service(
    api: ApiClient,
) -> None:
    for name in ("gone", "held", "other"):
        await api.create(SERVICES, service(name))
        finalizers = ["example.com/hold"] if name == "held" else []
        metadata = {"name": name, "finalizers": finalizers}
        await api.create(ENDPOINTS, {"metadata": metadata})
    for name in ("gone", "held"):
        await api.delete(f"{SERVICES}/{name}")
    assert (await api.get(ENDPOINTS)).names == ["held", "kubernetes", "other"]


async def test_a_service_with_a_finalizer_keeps_its_address(api: ApiClient) -> None:
    held = service("held", clusterIP="10.96.0.20")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await api.create(SERVICES, held)
    await api.delete(f"{SERVICES}/held")
    assert (await api.post(SERVICES, service("next", clusterIP="10.96.0.20"))).code == 422
    await api.patch(f"{SERVICES}/held/status", {"metadata": {"finalizers": None}})
    assert (await api.post(SERVICES, service("next", clusterIP="10.96.0.20"))).code == 201


@pytest.mark.parametrize("file", ["snapshot", "data"])
async def test_a_restored_server_allocates_nothing_that_is_taken(tmp_path: Path, file: str) -> None:
    path = tmp_path / "state"
    spec = {"type": "NodePort", "clusterIP": "10.96.0.60"}
    ports = [{"port": 80, "nodePort": 30060}]
    async with serving(seed=3, **{file: path}) as (_, api):
        await api.create(SERVICES, service("gone", clusterIP="10.96.0.61"))
        await api.create(SERVICES, service("s", **spec, ports=ports))
        await api.delete(f"{SERVICES}/gone")
    async with serving(seed=3, **{file: path}) as (_, api):
        address = await api.post(SERVICES, service("t", clusterIP="10.96.0.60"))
        assert address.causes == [("FieldValueInvalid", "spec.clusterIPs")]
        port = await api.post(SERVICES, service("t", type="NodePort", ports=ports))
        assert port.causes == [("FieldValueInvalid", "spec.ports[0].nodePort")]
        await api.create(SERVICES, service("t", clusterIP="10.96.0.61"))


async def test_addresses_of_lost_writes_are_free(server: FakeApiServer, api: ApiClient) -> None:
    await api.create(SERVICES, service("kept", clusterIP="10.96.0.70"))
    await api.create(SERVICES, service("lost", clusterIP="10.96.0.71"))
    server.faults.add(Fault(restart=Restart(lost_versions=1)))
    assert (await api.get(SERVICES)).names == ["kept", "kubernetes"]
    await api.create(SERVICES, service("found", clusterIP="10.96.0.71"))
    assert (await api.post(SERVICES, service("more", clusterIP="10.96.0.70"))).code == 422


async def test_a_dump_of_a_cluster_keeps_its_addresses_whatever_its_range() -> None:
    spec = {
        "type": "ClusterIP",
        "clusterIP": "172.20.0.10",
        "clusterIPs": ["172.20.0.10", "fd00::10"],
        "ipFamilies": ["IPv4", "IPv6"],
        "ipFamilyPolicy": "RequireDualStack",
        "ports": [{"port": 53}],
    }
    dumped = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "dns", "namespace": "default", "uid": "1", "resourceVersion": "5"},
        "spec": spec,
    }
    async with serving(load=[dumped]) as (_, client):
        found = (await client.get(f"{SERVICES}/dns")).body["spec"]
        assert {name: found[name] for name in spec if name != "ports"} == {
            name: value for name, value in spec.items() if name != "ports"
        }
        labelled = await client.patch(f"{SERVICES}/dns", {"metadata": {"labels": {"a": "b"}}})
        assert labelled.code == 200, labelled.body
