"""Filters give the same verdicts for nodes one by one and in blocks of any size."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework import (
    CycleState,
    NodeInfo,
    Nodes,
    NominatingInfo,
    NominatingMode,
    Plugin,
    PodInfo,
    Rejections,
    Status,
    reject_by,
    unresolvable,
    unschedulable,
)
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.runtime.profiles import framework_of, plugin
from tests.thoroughness import examples

POD = PodInfo(make_pod(priority=0))
NODES_MAX = 12

Verdicts = list[Status | None]


def _per_node(fates: Sequence[int], statuses: tuple[Status, Status]) -> Callable[..., object]:
    def rule(self: Plugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        fate = fates[int(node.name[1:])]
        return statuses[fate - 1] if fate else None

    return rule


def _vectorised(fates: Sequence[int], statuses: tuple[Status, Status]) -> Callable[..., object]:
    def rule(self: Plugin, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        mine = np.array([fates[int(name[1:])] for name in nodes.names], dtype=np.int64)
        return reject_by((mine == 1, statuses[0]), (mine == 2, statuses[1]))

    return rule


def _crowded(self: Plugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
    """Depends on the pods on the node, nominated pods included."""
    return unschedulable(f"{node.pod_count} pods") if node.pod_count > 1 else None


@st.composite
def _plugins(draw: st.DrawFn) -> list[type[Plugin]]:
    """Draw a few plugins of either form, each with an answer for each node."""
    classes = [plugin("Crowded", filter=_crowded)]
    for number in range(draw(st.integers(1, 4))):
        fates = draw(st.lists(st.integers(0, 2), min_size=NODES_MAX, max_size=NODES_MAX))
        statuses = (unschedulable(f"no {number}"), unresolvable(f"never {number}"))
        if draw(st.booleans()):
            classes.append(plugin(f"P{number}", filter=_per_node(fates, statuses)))
        else:
            classes.append(plugin(f"P{number}", filter_nodes=_vectorised(fates, statuses)))
    return draw(st.permutations(classes))


NODE = st.integers(0, NODES_MAX - 1)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(
    _plugins(), st.lists(NODE, max_size=6), st.lists(NODE, max_size=4), st.permutations(range(12))
)
def test_filters_give_the_same_verdicts_for_nodes_together_and_one_by_one(
    classes: list[type[Plugin]], running: list[int], expected: list[int], order: list[int]
) -> None:
    snapshot = snapshot_of(
        [make_node(f"n{number}") for number in range(NODES_MAX)],
        [make_pod(f"running{i}", node_name=f"n{node}") for i, node in enumerate(running)],
    )
    handle = FakeHandle(snapshot)
    for i, node in enumerate(expected):
        handle.nominator.add_nominated_pod(
            PodInfo(make_pod(f"expected{i}")), NominatingInfo(f"n{node}", NominatingMode.OVERRIDE)
        )
    filters = framework_of(*classes, handle=handle).filters

    def verdicts(nodes: Nodes) -> Verdicts:
        rejections = filters.run_with_nominated_pods(CycleState(), POD, nodes)
        return [rejections.status(i) if rejections else None for i in range(len(nodes))]

    nodes = snapshot.nodes
    one_by_one = [verdicts(nodes.slice(row, row + 1))[0] for row in range(NODES_MAX)]
    assert verdicts(nodes) == one_by_one
    for size in (5, 7):
        blocks = [nodes.slice(start, start + size) for start in range(0, NODES_MAX, size)]
        assert [status for block in blocks for status in verdicts(block)] == one_by_one
    shuffled = verdicts(nodes.take(np.array(order)))
    assert shuffled == [one_by_one[row] for row in order]
    even = np.arange(NODES_MAX) % 2 == 0
    assert verdicts(nodes.take(even)) == one_by_one[::2]
