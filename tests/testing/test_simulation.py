"""A scheduler on a virtual clock, awaited until it is idle."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from fakeapi import FakeApiServer, ManualClock
from scheduler import CycleState, Plugin, PodInfo, Status, Unstructured, wait
from scheduler.client.errors import KindNotFound, NotFound
from scheduler.testing import Simulation, VirtualClock, make_node, make_pod

pytestmark = pytest.mark.slow


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer(clock=VirtualClock(), seed=1) as running:
        yield running


class Waits(Plugin):
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return wait(60)


async def test_pods_are_bound_when_it_is_idle(server: FakeApiServer) -> None:
    async with Simulation(server) as simulation:
        await simulation.create(make_node("a"), *(make_pod(f"p{n}") for n in range(150)))
        await simulation.idle()
        nodes = [await simulation.node_of(f"p{n}") for n in range(150)]
        assert nodes == ["a"] * 110 + [""] * 40  # the node takes 110 pods
        attempts = simulation.statistics().attempts
        assert (attempts["scheduled"], attempts["unschedulable"]) == (110, 40)


async def test_time_passes_only_when_told(server: FakeApiServer) -> None:
    async with Simulation(server, plugins=[Waits]) as simulation:
        await simulation.create(make_node("a"), make_pod("p"))
        await simulation.advance(59)
        pod = await simulation.pod("p")
        assert (pod.spec.node_name, pod.status.conditions) == ("", ())
        await simulation.advance(2)
        (condition,) = (await simulation.pod("p")).status.conditions
        assert "timeout after waiting 1m0s at plugin Waits" in condition.message


async def test_a_deleted_pod_makes_room_after_its_backoff(server: FakeApiServer) -> None:
    async with Simulation(server) as simulation:
        await simulation.create(
            make_node("a"),
            make_pod("old", requests={"cpu": "3"}, node_name="a"),
            make_pod("new", requests={"cpu": "3"}),
        )
        await simulation.idle()
        assert await simulation.node_of("new") == ""
        await simulation.delete_pod("old")
        await simulation.advance(2)
        assert await simulation.node_of("new") == "a"


async def test_a_node_and_a_waiting_pod_can_be_changed(server: FakeApiServer) -> None:
    async with Simulation(server) as simulation:
        pod = make_pod("p", requests={"cpu": "3"}, node_selector={"disk": "ssd"})
        resources = {"cpu": "1", "memory": "1Gi", "pods": "10"}
        await simulation.create(make_node("a", allocatable=resources), pod)
        await simulation.advance(2)
        await simulation.update(make_node("a", allocatable=resources, labels={"disk": "ssd"}))
        await simulation.advance(5)
        assert await simulation.node_of("p") == ""
        larger = {**resources, "cpu": "4"}
        await simulation.update(make_node("a", allocatable=larger, labels={"disk": "ssd"}))
        await simulation.advance(5)
        assert await simulation.node_of("p") == "a"
        bound = await simulation.pod("p")
        labels = replace(bound.metadata, labels={"app": "web"})
        await simulation.update(replace(bound, metadata=labels))
        assert (await simulation.pod("p")).metadata.labels == {"app": "web"}
        await simulation.delete(bound)
        with pytest.raises(NotFound):
            await simulation.pod("p")


async def test_objects_of_any_kind_are_created_changed_and_deleted(server: FakeApiServer) -> None:
    metadata = {"name": "m"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
    }
    path = "/api/v1/namespaces/default/configmaps/m"
    async with Simulation(server) as simulation:
        await simulation.create(Unstructured(config), role)
        await simulation.update(Unstructured({**config, "data": {"a": "2"}}))
        assert b'"a":"2"' in await simulation.client.request("GET", path)
        await simulation.delete(config)
        with pytest.raises(NotFound):
            await simulation.client.request("GET", path)
        with pytest.raises(KindNotFound, match="no kind Wonder of v1"):
            await simulation.create({**config, "kind": "Wonder"})
        with pytest.raises(ValueError, match=r"^an object without apiVersion and kind: "):
            await simulation.create({"metadata": metadata})
        with pytest.raises(ValueError, match=r"^an object without metadata: "):
            await simulation.create({"apiVersion": "v1", "kind": "ConfigMap"})
        with pytest.raises(ValueError, match=r"^metadata: expected a mapping, got None"):
            await simulation.create({**config, "metadata": None})


async def test_a_server_with_another_clock_is_refused() -> None:
    with pytest.raises(TypeError, match=r"scheduler\.testing\.VirtualClock, got ManualClock"):
        Simulation(FakeApiServer(clock=ManualClock()))


async def test_an_invalid_configuration_is_reported_on_entering(server: FakeApiServer) -> None:
    with pytest.raises(Exception, match="takes no arguments"):
        async with Simulation(server, plugins=[Waits], args={"Waits": {"seconds": 3}}):
            pass
