"""Victims on many nodes at once."""

import pytest

from scheduler.api.core import LabelSelector, ObjectMeta
from scheduler.api.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from scheduler.framework import CycleState, NodeInfo, Plugin, Status, unschedulable
from scheduler.preemption import PREEMPTION
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod
from scheduler.testing.doubles import FakeLister
from tests.preemption.builders import Scene, running


async def victims(scene: Scene) -> dict[str, list[str]]:
    """The victims on each candidate, the most important one first."""
    await scene.post_filter()
    found = scene.state.find(PREEMPTION)
    candidates = [] if found is None else found.candidates
    return {c.name: [pod.name for pod in c.victims.pods] for c in candidates}


async def test_each_node_puts_back_as_many_as_fit_the_more_important_ones_first() -> None:
    scene = Scene(
        running("a1", "a", priority=1, cpu="1"),
        running("a2", "a", priority=2, cpu="1"),
        running("a3", "a", priority=3, cpu="2"),
        running("b1", "b", priority=5, cpu="4"),
        running("c1", "c", priority=1, cpu="1"),
        running("c2", "c", priority=20, cpu="2"),
        preemptor=make_pod("preemptor", priority=10, requests={"cpu": "2"}),
    )
    assert await victims(scene) == {"a": ["a2", "a1"], "b": ["b1"], "c": ["c1"]}


async def test_victims_that_violate_a_budget_are_reprieved_before_more_important_ones() -> None:
    scene = Scene(
        running("important", "a", priority=5, cpu="2"),
        running("kept", "a", priority=1, cpu="2"),
        preemptor=make_pod("preemptor", priority=10, requests={"cpu": "2"}),
    )
    spec = PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": "db"}))
    metadata = ObjectMeta(name="budget", namespace="default")
    scene.handle.listers["poddisruptionbudgets"] = FakeLister(
        [PodDisruptionBudget(metadata, spec, PodDisruptionBudgetStatus())]
    )
    assert await victims(scene) == {"a": ["kept"]}
    labelled = make_pod(
        "kept", node_name="a", priority=1, requests={"cpu": "2"}, labels={"app": "db"}
    )
    scene = Scene(
        running("important", "a", priority=5, cpu="2"),
        labelled,
        preemptor=make_pod("preemptor", priority=10, requests={"cpu": "2"}),
    )
    scene.handle.listers["poddisruptionbudgets"] = FakeLister(
        [PodDisruptionBudget(metadata, spec, PodDisruptionBudgetStatus())]
    )
    assert await victims(scene) == {"a": ["important"]}


async def test_the_search_goes_on_through_nodes_without_victims() -> None:
    names = [f"n{i:03}" for i in range(300)]
    pods = [running(f"p-{name}", name, priority=10) for name in names[:-2]]
    pods += [running(f"p-{name}", name) for name in names[-2:]]
    args = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 2}
    assert await victims(Scene(*pods, args=args)) == {
        "n298": ["p-n298"],
        "n299": ["p-n299"],
    }


class Lonely(Plugin):
    """Wants no more than two pods on a node, and breaks if there is none."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("crowded") if node.pod_count > 2 else None


async def test_filters_that_look_at_one_node_take_part() -> None:
    pods = [running(f"p{i}", "a", priority=i, cpu="0") for i in range(5)]
    preemptor = make_pod("preemptor", priority=10)
    scene = Scene(*pods, preemptor=preemptor, filters=[Lonely])
    assert await victims(scene) == {"a": ["p2", "p1", "p0"]}


class CannotPutBack(Plugin):
    """Cannot follow pods that come back."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: object) -> None:
        """There is nothing to prepare."""

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        if added.name.startswith("bad"):
            raise ValueError("broken")


@pytest.mark.parametrize("count", [1, 2])
async def test_a_node_to_which_a_pod_cannot_be_put_back_is_no_candidate(count: int) -> None:
    pods = [running("good", "b"), running("bad", "a"), running("bad2", "a", cpu="0")][: count + 1]
    scene = Scene(*pods, filters=[CannotPutBack])
    assert await victims(scene) == {"b": ["good"]}
