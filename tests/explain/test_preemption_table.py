"""The tables of `kubesched-explain` about preemption."""

import io
from collections.abc import Generator

import pytest

from scheduler.api.core import Pod
from scheduler.config import default_config
from scheduler.explain.text import TextPrinter
from scheduler.explain.world import World
from scheduler.framework import (
    Code,
    CycleState,
    NodeToStatus,
    NominatingInfo,
    NominatingMode,
    Plugin,
    PodInfo,
    PostFilterResult,
    Status,
)
from scheduler.plugins import SCHEME
from scheduler.reports.build import pod_report
from scheduler.reports.decision import result_of
from scheduler.testing import make_node, make_pod


def shown(world: World, pod: Pod) -> list[str]:
    decision = result_of(world.decide(pod))
    framework = world.profiles[decision.pod.spec.scheduler_name]
    out = io.StringIO()
    TextPrinter(out, nodes_max=None).pod(pod_report(decision, framework, world.snapshot))
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def busy(name: str, node_name: str, priority: int, cpu: str = "4") -> Pod:
    return make_pod(name, node_name=node_name, priority=priority, requests={"cpu": cpu})


def world_of(*pods: Pod, **options: object) -> World:
    names = sorted({pod.spec.node_name for pod in pods if pod.spec.node_name})
    nodes = [make_node(name) for name in names]
    return World(default_config(SCHEME), nodes=nodes, pods=pods, **options)  # type: ignore[arg-type]


HIGH = make_pod("high", priority=10, requests={"cpu": "4"})
LOW = make_pod("low", priority=1, requests={"cpu": "4"})


def test_the_table_shows_the_victims_on_each_candidate_and_the_deciding_criterion() -> None:
    world = world_of(busy("a1", "a", 5), busy("b1", "b", 2, "2"), busy("b2", "b", 1, "2"))
    lines = shown(world, HIGH)
    assert "b <- nominated default/b1 (2), default/b2 (1)" in lines
    assert "a default/a1 (5) not the lowest priority of the most important victim" in lines


def test_the_table_has_the_reason_without_a_candidate() -> None:
    lines = shown(world_of(busy("a1", "a", 5)), LOW)
    assert any(
        line.endswith(
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        )
        for line in lines
    )


def test_later_pods_find_the_victims_gone_and_the_place_taken() -> None:
    world = world_of(busy("a1", "a", 5))
    outcome = result_of(world.decide(HIGH)).post_filter
    assert outcome is not None
    assert (outcome.nominated_node, list(outcome.victims)) == ("a", ["default/a1"])
    later = result_of(world.decide(LOW))
    assert later.result == "unschedulable"
    assert (
        result_of(world.decide(make_pod("higher", priority=11, requests={"cpu": "4"}))).result
        == "scheduled"
    )


class _Turn:
    """One turn of an event loop."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Impatient(Plugin):
    """Waits for something to happen."""

    async def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeToStatus
    ) -> tuple[PostFilterResult | None, Status | None]:
        await _Turn()
        return PostFilterResult(NominatingInfo("a", NominatingMode.OVERRIDE)), None


def test_a_plugin_that_waits_for_the_world_fails_as_nothing_happens_here() -> None:
    world = world_of(busy("a1", "a", 10), plugins=[Impatient])
    outcome = result_of(
        world.decide(make_pod("same", priority=10, requests={"cpu": "4"}))
    ).post_filter
    assert outcome is not None
    assert outcome.status.code == Code.ERROR
    assert "waits for something that never happens" in outcome.status.message
    assert not outcome.nominated_node


@pytest.mark.parametrize("policy", ["Never"])
def test_a_pod_that_must_not_preempt_has_a_message(policy: str) -> None:
    polite = make_pod("polite", priority=10, preemption_policy=policy, requests={"cpu": "4"})
    lines = shown(world_of(busy("a1", "a", 5)), polite)
    assert any("not eligible due to preemptionPolicy=Never." in line for line in lines)
