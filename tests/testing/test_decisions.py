"""One decision of the default profile with further plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from scheduler import Plugin, Unstructured, unschedulable
from scheduler.testing import decide, make_node, make_pod

if TYPE_CHECKING:
    from scheduler import CycleState, NodeInfo, PodInfo, Status


class Prefix(Plugin):
    class Args(msgspec.Struct):
        text: str = "x"

    args: Args

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if node.name.startswith(self.args.text):
            return None
        return unschedulable("another prefix")

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return len(node.name)


NODES = [make_node("xa"), make_node("xbb"), make_node("y")]


def test_verdicts_and_scores_are_by_node() -> None:
    decision = decide(NODES, make_pod(), plugins=[Prefix])
    assert (decision.result, decision.node, decision.message) == ("scheduled", "xbb", "")
    assert [name for name, verdict in decision.verdicts.items() if verdict is None] == ["xa", "xbb"]
    rejection = decision.verdicts["y"]
    assert rejection is not None
    assert (rejection.plugin, rejection.message) == ("Prefix", "another prefix")
    assert {name: scores["Prefix"] for name, scores in decision.scores.items()} == {
        "xa": 2,
        "xbb": 3,
    }


def test_arguments_reach_their_plugin() -> None:
    assert decide(NODES, make_pod(), plugins=[Prefix], args={"Prefix": {"text": "y"}}).node == "y"


def test_a_pod_that_fits_nowhere_has_the_message_of_its_condition() -> None:
    decision = decide(NODES, make_pod(requests={"cpu": "64"}))
    assert decision.result == "unschedulable"
    assert decision.message.startswith("0/3 nodes are available: 3 Insufficient cpu.")
    assert decision.scores == {}


def test_objects_of_other_kinds_are_refused_in_the_cluster() -> None:
    quota = Unstructured({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "quota"}})
    with pytest.raises(TypeError, match=r"got Unstructured: give objects .* others="):
        decide([*NODES, quota], make_pod())  # type: ignore[list-item]


def test_preemption_names_node_and_victims() -> None:
    running = make_pod("low", requests={"cpu": "3"}, node_name="y", priority=1)
    pod = make_pod("high", requests={"cpu": "3"}, priority=9)
    decision = decide([make_node("y"), running], pod)
    assert (decision.node, decision.victims) == ("y", ("default/low",))
