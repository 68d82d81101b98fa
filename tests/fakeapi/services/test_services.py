"""Services over HTTP: their addresses, their ports on nodes, and what becomes of these.

What upstream answers to each request is in exchanges/services.yaml; here is what chance decides.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

import pytest

from fakeapi.faults import Fault, Restart
from fakeapi.services import ServiceBooks
from fakeapi.services.ranges import Full, Handout
from fakeapi.store.store import Store
from fakeapi.types.identity import IdSource

from ..state_files import serving

if TYPE_CHECKING:
    from pathlib import Path

    from fakeapi import FakeApiServer

    from ..api_client import ApiClient

SERVICES = "/api/v1/namespaces/default/services"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
RANGE = ipaddress.ip_network("10.96.0.0/12")
#: Addresses and ports below these are left to those who ask for one.
FIRST_ADDRESS, FIRST_PORT = ipaddress.ip_address("10.96.1.1"), 30086

Json = dict[str, Any]


def service(name: str, **spec: Any) -> Json:
    """A service with one port."""
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def node_ports(made: Json) -> list[int]:
    """The ports on nodes of a service."""
    return [port["nodePort"] for port in made["spec"]["ports"] if "nodePort" in port]


async def test_kubectl_get_svc_has_all_it_shows(api: ApiClient) -> None:
    made = await api.create(SERVICES, service("s", type="NodePort", selector={"a": "b"}))
    reply = await api.request("GET", f"{SERVICES}/s", headers={"Accept": TABLE})
    cells = reply.body["rows"][0]["cells"]
    (port,) = node_ports(made)
    address = made["spec"]["clusterIP"]
    assert cells[:5] == ["s", "NodePort", address, "<none>", f"80:{port}/TCP"]
    assert made["spec"]["clusterIPs"] == [address]
    assert ipaddress.ip_address(address) in RANGE


async def test_no_two_services_share_an_address_or_a_port(api: ApiClient) -> None:
    made = [await api.create(SERVICES, service(f"s{i}", type="NodePort")) for i in range(150)]
    addresses = {ipaddress.ip_address(each["spec"]["clusterIP"]) for each in made}
    ports = {port for each in made for port in node_ports(each)}
    assert len(addresses) == len(ports) == 150
    assert min(int(address) for address in addresses) >= int(FIRST_ADDRESS)
    assert min(ports) >= FIRST_PORT
    assert max(ports) <= 32767


async def test_the_same_seed_hands_out_the_same() -> None:
    found = []
    for seed in (7, 7, 8):
        async with serving(seed=seed) as (_, api):
            made = [await api.create(SERVICES, service(f"s{i}", type="NodePort")) for i in (1, 2)]
            found.append([(each["spec"]["clusterIP"], node_ports(each)) for each in made])
    assert found[0] == found[1] != found[2]


async def test_what_is_deleted_can_be_had_again(api: ApiClient) -> None:
    first = (await api.create(SERVICES, service("first", type="NodePort")))["spec"]
    wanted = service("second", type="NodePort", clusterIP=first["clusterIP"], ports=first["ports"])
    assert (await api.post(SERVICES, wanted)).causes == [
        ("FieldValueInvalid", "spec.clusterIPs"),
    ]
    await api.delete(f"{SERVICES}/first")
    second = (await api.create(SERVICES, wanted))["spec"]
    assert second == first


async def test_a_mere_name_gives_its_address_back_and_gets_another(api: ApiClient) -> None:
    first = await api.create(SERVICES, service("first"))
    address = first["spec"]["clusterIP"]
    change = {"spec": {"type": "ExternalName", "externalName": "e.org"}}
    named = (await api.patch(f"{SERVICES}/first", change)).body
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & named["spec"].keys()
    await api.create(SERVICES, service("second", clusterIP=address))
    back = (await api.patch(f"{SERVICES}/first", {"spec": {"type": "ClusterIP"}})).body["spec"]
    assert back["clusterIP"] not in (address, "", None)
    assert back["clusterIPs"] == [back["clusterIP"]]
    assert (back["ipFamilies"], back["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


async def test_a_mere_name_may_list_a_port_on_nodes_and_has_none(api: ApiClient) -> None:
    ports = [{"port": 80, "nodePort": 30040}]
    named = service("named", type="ExternalName", externalName="e.org", ports=ports)
    await api.create(SERVICES, named)
    await api.create(SERVICES, service("owner", type="NodePort", ports=ports))
    change = {"spec": {"type": "NodePort"}}
    refused = await api.patch(f"{SERVICES}/named", change)
    assert refused.causes == [("FieldValueInvalid", "spec.ports[0].nodePort")]
    await api.delete(f"{SERVICES}/named")
    assert (await api.post(SERVICES, service("x", type="NodePort", ports=ports))).code == 422


async def test_endpoints_go_with_their_service_unless_somebody_holds_them(api: ApiClient) -> None:
    for name in ("gone", "held", "other"):
        await api.create(SERVICES, service(name))
        finalizers = ["example.com/hold"] if name == "held" else []
        metadata = {"name": name, "finalizers": finalizers}
        await api.create(ENDPOINTS, {"metadata": metadata})
    for name in ("gone", "held"):
        await api.delete(f"{SERVICES}/{name}")
    assert (await api.get(ENDPOINTS)).names == ["held", "other"]


async def test_one_that_is_held_by_a_finalizer_keeps_its_address(api: ApiClient) -> None:
    held = service("held", clusterIP="10.96.0.20")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await api.create(SERVICES, held)
    await api.delete(f"{SERVICES}/held")
    assert (await api.post(SERVICES, service("next", clusterIP="10.96.0.20"))).code == 422
    await api.patch(f"{SERVICES}/held/status", {"metadata": {"finalizers": None}})
    assert (await api.post(SERVICES, service("next", clusterIP="10.96.0.20"))).code == 201


async def test_a_dry_run_takes_nothing(api: ApiClient) -> None:
    asked = service("s", type="NodePort", clusterIP="10.96.0.30")
    asked["spec"]["ports"][0]["nodePort"] = 30030
    for _ in range(2):
        assert (await api.post(SERVICES, asked, dryRun="All")).code == 201
    await api.create(SERVICES, asked)
    change = {"spec": {"ports": [{"port": 80, "nodePort": 30031}]}}
    await api.patch(f"{SERVICES}/s", change, dryRun="All")
    other = service("t", type="NodePort", ports=[{"port": 80, "nodePort": 30031}])
    assert (await api.post(SERVICES, other)).code == 201
    assert (await api.post(SERVICES, service("u", clusterIP="10.96.0.30"))).code == 422


async def test_a_refused_service_takes_nothing(api: ApiClient) -> None:
    wrong = service("wrong", clusterIP="10.96.0.40", sessionAffinity="Cookie")
    assert (await api.post(SERVICES, wrong)).causes == [
        ("FieldValueNotSupported", "spec.sessionAffinity")
    ]
    await api.create(SERVICES, service("right", clusterIP="10.96.0.40"))


async def test_ports_that_an_update_leaves_are_free(api: ApiClient) -> None:
    (before,) = node_ports(await api.create(SERVICES, service("s", type="NodePort")))
    await api.patch(f"{SERVICES}/s", {"spec": {"ports": [{"port": 80, "nodePort": 30050}]}})
    heir = service("t", type="NodePort", ports=[{"port": 80, "nodePort": before}])
    await api.create(SERVICES, heir)


async def test_a_local_load_balancer_gets_a_health_check_and_loses_it(api: ApiClient) -> None:
    made = await api.create(
        SERVICES, service("s", type="LoadBalancer", externalTrafficPolicy="Local")
    )
    port = made["spec"]["healthCheckNodePort"]
    assert port not in node_ports(made)
    taken = service("t", type="NodePort", ports=[{"port": 80, "nodePort": port}])
    assert (await api.post(SERVICES, taken)).code == 422
    change = {"spec": {"externalTrafficPolicy": "Cluster"}}
    assert "healthCheckNodePort" not in (await api.patch(f"{SERVICES}/s", change)).body["spec"]
    assert (await api.post(SERVICES, taken)).code == 201


@pytest.mark.parametrize("file", ["snapshot", "data"])
async def test_a_restored_server_hands_out_nothing_that_is_taken(tmp_path: Path, file: str) -> None:
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


async def test_what_the_server_forgets_is_free_again(server: FakeApiServer, api: ApiClient) -> None:
    await api.create(SERVICES, service("kept", clusterIP="10.96.0.70"))
    await api.create(SERVICES, service("lost", clusterIP="10.96.0.71"))
    server.faults.add(Fault(restart=Restart(lost_versions=1)))
    assert (await api.get(SERVICES)).names == ["kept"]
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


def test_when_the_upper_part_is_full_the_lower_one_is_handed_out() -> None:
    upper, everything = set(range(30086, 32768)), set(range(30000, 32768))
    port = Handout((), upper, IdSource(1), is_dry=False).any_port()
    assert 30000 <= port < 30086
    with pytest.raises(Full, match="range is full"):
        Handout((), everything, IdSource(1), is_dry=False).any_port()


def test_the_books_read_only_what_has_changed_since() -> None:
    store, books = Store(resource_version=1, log_size=100), ServiceBooks()
    services = store.collection(("", "services"))

    class Counting(dict[str, Any]):
        reads = 0

        def get(self, *arguments: Any) -> Any:
            Counting.reads += 1
            return super().get(*arguments)

    for number in range(50):
        obj = {"metadata": {}, "spec": Counting(type="ClusterIP", clusterIP=f"10.96.0.{number}")}
        store.put(("", "services"), f"default/s{number}", obj)
    books.read_up(services)
    assert len(books.addresses) == 50
    of_all, Counting.reads = Counting.reads, 0
    store.remove(("", "services"), "default/s7")
    books.read_up(services)
    assert "10.96.0.7" not in books.addresses
    assert 0 < Counting.reads <= of_all / 50
