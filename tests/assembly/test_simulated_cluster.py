"""The simulated cluster: the scheduler's core in virtual time."""

from typing import Any

import pytest

from scheduler.api.core import Node, Pod
from scheduler.assembly.simulated_cluster import SimulatedCluster
from scheduler.config import default_config
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Status, wait
from scheduler.plugins import SCHEME
from scheduler.testing import make_node, make_pod


def node(cpu: str) -> Node:
    return make_node("n1", allocatable={"cpu": cpu, "memory": "1Gi", "pods": "10"})


def pod(name: str, cpu: str, **fields: Any) -> Pod:
    return make_pod(name, requests={"cpu": cpu}, **fields)


def cluster(*plugins: Any) -> SimulatedCluster:
    return SimulatedCluster(default_config(SCHEME), plugins=plugins)


def nodes_of(simulated: SimulatedCluster) -> dict[str, str]:
    return {pod.metadata.name: pod.spec.node_name for pod in simulated.pods}


async def test_pods_are_bound_at_once() -> None:
    simulated = cluster()
    simulated.apply(node("2"))
    for name in ("a", "b", "c"):
        simulated.apply(pod(name, "1"))
    await simulated.settle()
    assert nodes_of(simulated) == {"a": "n1", "b": "n1", "c": ""}


async def test_a_pod_that_waits_is_bound_after_a_timed_change() -> None:
    simulated = cluster()
    simulated.apply(pod("a", "1"))
    start = simulated.clock.now()
    simulated.after(600, lambda: simulated.apply(node("2")))
    await simulated.run_until(start + 599)
    assert nodes_of(simulated) == {"a": ""}
    await simulated.settle()
    assert nodes_of(simulated) == {"a": "n1"}
    assert simulated.clock.now() >= start + 600


async def test_a_preemptor_waits_until_its_victim_is_gone() -> None:
    simulated = cluster()
    simulated.apply(node("2"))
    simulated.apply(pod("low", "2", node_name="n1"))
    simulated.apply(pod("high", "2", priority=10))
    await simulated.settle()
    pods = {pod.metadata.name: pod for pod in simulated.pods}
    assert pods["low"].metadata.deletion_timestamp is not None
    assert pods["high"].status.nominated_node_name == "n1"
    simulated.remove(pods["low"])
    await simulated.settle()
    assert nodes_of(simulated) == {"high": "n1"}


@pytest.mark.parametrize(("seconds", "attempts"), [(300, 1), (360, 2)])
async def test_a_pod_is_tried_again_after_five_minutes(seconds: int, attempts: int) -> None:
    tried: list[str] = []
    simulated = SimulatedCluster(
        default_config(SCHEME), on_cycle=lambda queued, _: tried.append(queued.key)
    )
    simulated.apply(node("1"))
    simulated.apply(pod("big", "2"))
    await simulated.run_until(simulated.clock.now() + seconds)
    assert len(tried) == attempts


class Hold(Plugin):
    """Holds each pod for ten seconds, then rejects it."""

    name = "Hold"

    def permit(self, state: Any, pod: Any, node_name: str) -> Status:
        return wait(10)


async def test_work_that_waits_goes_on_when_its_time_has_come() -> None:
    simulated = cluster(Hold)
    simulated.apply(node("2"))
    simulated.apply(pod("a", "1"))
    start = simulated.clock.now()
    await simulated.run_until(start + 9)
    assert simulated.core.cache.is_assumed_pod(simulated.pods[0])
    await simulated.run_until(start + 10)
    [condition] = simulated.pods[0].status.conditions
    assert "rejected due to timeout after waiting 10s at plugin Hold" in condition.message
    await simulated.close()
