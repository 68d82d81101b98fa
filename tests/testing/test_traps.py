"""The traps of docs/plugins.md: when a rejected pod is retried."""

from collections.abc import AsyncIterator

import pytest

from fakeapi import FakeApiServer
from scheduler import (
    ActionType,
    ClusterEventWithHint,
    CycleState,
    NodeInfo,
    Plugin,
    Pod,
    PodInfo,
    Status,
    unschedulable,
)
from scheduler.testing import Simulation, VirtualClock, make_node, make_pod

pytestmark = pytest.mark.slow


class Rejects(Plugin):
    """Rejects the pod `p`; without events."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("no") if pod.name == "p" else None


class ForgetsEvents(Rejects):
    def events_to_register(self) -> list[ClusterEventWithHint]:
        return []


class WaitsForPods(Rejects):
    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint.on(Pod, ActionType.ADD)]


class Raises(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        raise RuntimeError("a bug")


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer(clock=VirtualClock(), seed=1) as running:
        yield running


def _rejections(simulation: Simulation) -> int:
    return simulation.statistics().attempts["unschedulable"]


async def test_without_events_every_change_retries_the_pod(server: FakeApiServer) -> None:
    async with Simulation(server, plugins=[Rejects]) as simulation:
        await simulation.create(make_node("a"), make_pod("p"))
        await simulation.advance(60)
        assert _rejections(simulation) == 2  # again after the patch of its own status
        await simulation.create(make_pod("other", node_name="a"))
        await simulation.advance(20)
        assert _rejections(simulation) == 3


async def test_a_pod_whose_event_is_not_registered_waits_for_the_flush(
    server: FakeApiServer,
) -> None:
    async with Simulation(server, plugins=[ForgetsEvents]) as simulation:
        await simulation.create(make_node("a"), make_pod("p"))
        await simulation.create(make_node("b"))
        await simulation.advance(290)
        assert _rejections(simulation) == 1
        await simulation.advance(60)
        assert _rejections(simulation) == 2


async def test_the_arrival_of_a_pod_without_a_node_is_no_event(server: FakeApiServer) -> None:
    async with Simulation(server, plugins=[WaitsForPods]) as simulation:
        await simulation.create(make_node("a"), make_pod("p"))
        await simulation.create(make_pod("too-large", requests={"cpu": "64"}))
        await simulation.advance(20)
        assert _rejections(simulation) == 2  # one of each pod
        await simulation.create(make_pod("bound", node_name="a"))
        await simulation.advance(20)
        assert _rejections(simulation) == 3


async def test_an_exception_is_retried_after_a_backoff(
    server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with Simulation(server, plugins=[Raises]) as simulation:
        await simulation.create(make_node("a"), make_pod("p"))
        await simulation.advance(5)
        assert simulation.statistics().attempts["error"] > 1
    logged = [record for record in caplog.records if record.exc_info]
    assert len(logged) == 1  # the traceback only once
    assert "Plugin Raises failed at Filter for pod default/p" in logged[0].getMessage()
