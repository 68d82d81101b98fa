"""Victims on many nodes at once."""

import random

import pytest

from scheduler.api.core import LabelSelector, ObjectMeta
from scheduler.api.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from scheduler.framework import (
    CycleState,
    NodeInfo,
    NominatingInfo,
    NominatingMode,
    Plugin,
    Status,
    unschedulable,
)
from scheduler.plugins.node_ports import NodePorts
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


class Quiet(Plugin):
    """Wants no more than one pod with some label on a node."""

    only_takes_room = True

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        loud = sum(other.labels.get("app") == "a" for other in node.pods)
        return unschedulable("loud") if loud > 1 else None


class Patient(Plugin):
    """Accepts every node, without a promise: pods are then put back one by one."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None


@pytest.mark.parametrize("filters", [[NodePorts], [NodePorts, Quiet]])
@pytest.mark.parametrize("seed", range(10))
async def test_victims_are_the_same_whether_pods_are_put_back_one_by_one_or_many_at_once(
    seed: int, filters: list[type[Plugin]]
) -> None:
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(12)]
    pods = [
        make_pod(
            f"{name}-{i}",
            node_name=name,
            priority=rng.randrange(12),
            requests={"cpu": f"{rng.randrange(1, 12) * 100}m", "memory": f"{rng.randrange(9)}Gi"},
            labels={"app": rng.choice("ab")},
            host_ports=[80 + i] if rng.random() < 0.1 else [],
        )
        for name in names
        for i in range(rng.randrange(1, 12))
    ]
    preemptor = make_pod("preemptor", priority=10, requests={"cpu": "2"}, host_ports=[82])
    metadata = ObjectMeta(name="budget", namespace="default")
    spec = PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": "a"}))
    budget = PodDisruptionBudget(metadata, spec, PodDisruptionBudgetStatus(1))
    found = []
    for more in ((), (Patient,)):
        scene = Scene(*pods, preemptor=preemptor, filters=[*filters, *more])
        scene.handle.listers["poddisruptionbudgets"] = FakeLister([budget])
        for name in names[::3]:
            expected = make_pod(f"to-{name}", priority=10, requests={"cpu": "1"})
            scene.handle.nominator.add_nominated_pod(
                PodInfo(expected), NominatingInfo(name, NominatingMode.OVERRIDE)
            )
        await scene.post_filter()
        found.append(
            [
                (candidate.name, [*map(str, of.pods)], of.num_pdb_violations)
                for candidate in scene.state.read(PREEMPTION).candidates
                if (of := candidate.victims)
            ]
        )
    assert found[0] == found[1]
    assert len({len(victims) for _, victims, _ in found[0]}) > 1
