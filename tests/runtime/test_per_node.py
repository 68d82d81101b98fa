"""The form over many nodes of a rule that a plugin defines for one node."""

import numpy as np
import pytest

from scheduler.framework import CycleState, Plugin, Status, unschedulable
from scheduler.framework.failures import PluginFailedError
from scheduler.framework.status import Code
from scheduler.runtime.filtering import filter_nodes_of
from scheduler.runtime.scoring import score_nodes_of
from scheduler.snapshot import NodeInfo, PodInfo
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.runtime.profiles import answering, plugin

NODES = snapshot_of([make_node(f"n{n}", zone="a" if n % 2 else "") for n in range(5)]).nodes
POD = PodInfo(make_pod())


def test_a_per_node_filter_is_called_for_each_node_and_equal_statuses_are_encoded_once() -> None:
    asked = []

    def rule(self: Plugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        asked.append(node.name)
        if node.name == "n0":
            return Status(Code.SUCCESS)
        return unschedulable(f"in zone {node.labels.get('topology.kubernetes.io/zone')}")

    some = NODES.take(np.array([3, 0, 1, 2]))
    rejections = filter_nodes_of(plugin("P", filter=rule)())(CycleState(), POD, some)
    assert asked == ["n3", "n0", "n1", "n2"]
    assert rejections is not None
    assert rejections.codes.tolist() == [0, -1, 0, 1]
    assert [status.message for status in rejections.statuses] == ["in zone a", "in zone None"]


def test_a_per_node_filter_without_objections_has_none() -> None:
    assert filter_nodes_of(answering("P", filter=None)())(CycleState(), POD, NODES) is None


@pytest.mark.parametrize("answer", [False, 0, "no"])
def test_a_per_node_filter_answers_with_a_status_or_not_at_all(answer: object) -> None:
    text = f'^running "P" filter plugin: expected a Status or None, got {answer!r}$'
    with pytest.raises(PluginFailedError, match=text):
        filter_nodes_of(answering("P", filter=answer)())(CycleState(), POD, NODES)


def test_a_per_node_score_is_called_for_each_node() -> None:
    scorer = plugin("P", score=lambda self, state, pod, node: int(node.name[1:]) * 2)()
    scores = score_nodes_of(scorer)(CycleState(), POD, NODES.take(np.array([4, 1])))
    assert scores.tolist() == [8, 2]
    assert len(score_nodes_of(scorer)(CycleState(), POD, NODES.slice(0, 0))) == 0


def test_the_form_over_many_nodes_is_called_as_it_is() -> None:
    fast = answering("P", filter_nodes=None, score_nodes=None)()
    assert filter_nodes_of(fast) == fast.filter_nodes
    assert score_nodes_of(fast) == fast.score_nodes
