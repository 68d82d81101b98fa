"""Dry runs: pods are added and removed in many worlds, each of which changes one node."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.framework import (
    CycleState,
    NodeInfo,
    Nodes,
    NominatingInfo,
    NominatingMode,
    Plugin,
    PreFilterResult,
    Rejections,
    StateKey,
    Status,
    unschedulable,
)
from scheduler.framework.status import Code
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.runtime.worlds import Worlds
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.runtime.profiles import answering, framework_of, plugin

POD = PodInfo(make_pod("pod", priority=5))
SNAPSHOT = snapshot_of(
    [make_node(name) for name in "abc"],
    [make_pod("low", node_name="a", requests={"cpu": "1"})],
)
LOW = SNAPSHOT.get("a").pods[0]
X, Y = PodInfo(make_pod("x")), PodInfo(make_pod("y"))
ONE = {"cpu": "1", "memory": "4Gi"}
COUNTS = StateKey["Counts"]("Counts")


class Counts(dict[str, int]):
    """The number of pods added to each node."""

    def clone(self) -> Counts:
        return Counts(self)


class OnePerNode(Plugin):
    """Accepts nodes to which at most one pod was added, counted one pod at a time."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        state.write(COUNTS, Counts())

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        counts = state.read(COUNTS)
        counts["all"] = counts.get("all", 0) + 1

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        state.read(COUNTS)["all"] -= 1

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        count = state.read(COUNTS).get("all", 0)
        return unschedulable(f"{count} pods came") if count > 1 else None


def worlds_of(*classes: type[Plugin], handle: FakeHandle | None = None) -> Worlds:
    """Return the worlds of nodes a, b and c after PreFilter."""
    framework = framework_of(*classes, handle=handle or FakeHandle(SNAPSHOT))
    state = CycleState()
    framework.pre_filters.run(state, POD, SNAPSHOT.nodes)
    return framework.filters.worlds(state, POD, SNAPSHOT.nodes)


def texts(rejections: Rejections | None, length: int = 3) -> list[str]:
    if rejections is None:
        return [""] * length
    found = [rejections.status(i) for i in range(length)]
    return ["" if status is None else status.message for status in found]


def test_pods_are_added_and_removed_in_one_world_only() -> None:
    def pods(self: Plugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        return unschedulable(" ".join(sorted(pod.name for pod in node.pods)) or "nobody")

    worlds = worlds_of(plugin("P", filter=pods))
    worlds.add_pods([1, 1, 2], [X, Y, X])
    worlds.remove_pods([0, 1], [LOW, Y])
    assert texts(worlds.run_filters()) == ["nobody", "x", "x"]
    assert texts(worlds.run_filters(np.array([2, 0])), 2) == ["x", "nobody"]
    assert [pod.name for pod in SNAPSHOT.get("a").pods] == ["low"]


def test_a_plugin_that_looks_at_nodes_one_by_one_has_a_state_for_each_world() -> None:
    worlds = worlds_of(OnePerNode)
    worlds.add_pods([0, 1, 1, 2], [X, X, Y, X])
    assert texts(worlds.run_filters()) == ["", "2 pods came", ""]
    worlds.remove_pods([1], [X])
    assert worlds.run_filters() is None


def test_a_plugin_that_filters_all_nodes_has_one_state_and_gets_the_changed_node() -> None:
    recorded: list[str] = []

    def record(
        self: Plugin, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo
    ) -> None:
        state.read(COUNTS)[node.name] = node.pod_count
        recorded.append(f"{other.name} {node.base_row}")

    def few(self: Plugin, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        assert state.read(COUNTS) == {"b": 2, "c": 1}
        return None

    worlds = worlds_of(
        plugin(
            "P",
            pre_filter=lambda self, state, pod, nodes: state.write(COUNTS, Counts()),
            add_pod=record,
            filter_nodes=few,
        )
    )
    worlds.add_pods([1, 1, 2], [X, Y, X])
    assert worlds.run_filters() is None
    assert recorded == ["x 1", "x 2", "y 1"]


@pytest.mark.parametrize(("method", "change"), [("add_pod", X), ("remove_pod", LOW)])
def test_only_plugins_that_are_not_skipped_follow(method: str, change: PodInfo) -> None:
    recorded: list[str] = []

    def record(
        self: Plugin, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo
    ) -> None:
        recorded.append(f"{self.name}: {pod.name} {other.name} {node.name}")

    classes = [
        plugin(name, pre_filter=lambda self, *arguments: None, **{method: record})
        for name in ("A", "Skipped", "B")
    ]
    framework = framework_of(*classes, answering("Stateless", pre_filter=None))
    state = CycleState()
    state.skip_filter_plugins.add("Skipped")
    worlds = framework.filters.worlds(state, POD, SNAPSHOT.nodes)
    getattr(worlds, f"{method}s")([0], [change])
    assert recorded == [f"A: pod {change.name} a", f"B: pod {change.name} a"]


@pytest.mark.parametrize(
    ("method", "upstream", "change"), [("add_pod", "AddPod", X), ("remove_pod", "RemovePod", LOW)]
)
@pytest.mark.parametrize("answer", [ValueError("broken"), unschedulable("broken")])
def test_a_plugin_that_fails_to_follow_breaks_one_world_only(
    method: str, upstream: str, change: PodInfo, answer: object
) -> None:
    worlds = worlds_of(answering("P", pre_filter=None, **{method: answer}))
    getattr(worlds, f"{method}s")([0], [change])
    assert {world: str(failure) for world, failure in worlds.failures.items()} == {
        0: f'running {upstream} on PreFilter plugin "P": broken'
    }


def test_a_filter_that_fails_in_one_world_does_not_spoil_the_others() -> None:
    def picky(self: Plugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if node.name == "b":
            raise ValueError("not b")
        return unschedulable("no") if node.name == "c" else None

    rejections = worlds_of(plugin("P", filter=picky)).run_filters()
    assert rejections is not None
    found = [rejections.status(i) for i in range(3)]
    assert found[0] is None
    assert (found[1].code, found[1].message) == (Code.ERROR, 'running "P" filter plugin: not b')
    assert (found[2].code, found[2].message) == (Code.UNSCHEDULABLE, "no")


def test_nominated_pods_are_added_to_each_world() -> None:
    handle = FakeHandle(SNAPSHOT)
    nominated = PodInfo(make_pod("promised", priority=9))
    handle.nominator.add_nominated_pod(nominated, NominatingInfo("b", NominatingMode.OVERRIDE))
    worlds = worlds_of(OnePerNode, handle=handle)
    assert worlds.run_filters() is None
    worlds.add_pods([0, 1], [X, X])
    assert texts(worlds.run_filters()) == ["", "2 pods came", ""]
    assert texts(worlds.run_filters(np.array([1, 2])), 2) == ["2 pods came", ""]
    worlds.remove_pods([1], [X])
    assert worlds.run_filters() is None


def test_scores_see_the_pods_of_a_world_and_its_images() -> None:
    nodes = [make_node(name, images={"web:1": 500_000_000} if name == "b" else {}) for name in "ab"]
    snapshot = snapshot_of(nodes)
    framework = framework_of(NodeResourcesFit, ImageLocality, handle=FakeHandle(snapshot))
    pod = PodInfo(make_pod("pod", image="web:1", requests={"cpu": "1", "memory": "4Gi"}))
    state = CycleState()
    worlds = framework.worlds(state, pod, framework.feasible_nodes(state, pod))
    expected = framework.scores.run(CycleState(), pod, snapshot.nodes).total
    assert worlds.run_scores().tolist() == expected.tolist()
    assert expected[1] > expected[0]
    # Three quarters of node b are requested then, and a quarter of node a.
    worlds.add_pods(np.array([1, 1]), [PodInfo(make_pod(n, requests=ONE)) for n in ("x", "y")])
    assert (worlds.run_scores() - expected).tolist() == [0, -50]


def test_feasible_nodes_pass_pre_filter_and_filter() -> None:
    narrows = answering("Narrows", pre_filter=PreFilterResult(frozenset("bc")))
    rejects = plugin(
        "Rejects",
        filter=lambda self, state, pod, node: None if node.name == "c" else unschedulable("no"),
    )
    framework = framework_of(narrows, rejects, handle=FakeHandle(SNAPSHOT))
    assert framework.feasible_nodes(CycleState(), POD).names == ["c"]
    closed = framework_of(
        answering("Closed", pre_filter=unschedulable("no")), handle=FakeHandle(SNAPSHOT)
    )
    assert closed.feasible_nodes(CycleState(), POD).names == []
