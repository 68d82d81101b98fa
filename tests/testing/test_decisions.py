"""One decision of the default profile with further plugins."""

import re

import msgspec
import pytest

from scheduler import CycleState, NodeInfo, Plugin, PodInfo, Status, Unstructured, unschedulable
from scheduler.runtime import PluginSetupError
from scheduler.testing import decide, make_node, make_pod


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


class ReadsWithoutReads(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        self.handle.lister("configmaps.v1").list()
        return None


class Misspells(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return getattr(node, "lables")  # type: ignore[no-any-return]  # noqa: B009


class ReadsAnUnknownKind(ReadsWithoutReads):
    reads = ("configmaps",)


def test_a_kind_that_is_not_in_reads_is_an_error() -> None:
    decision = decide(NODES, make_pod(), plugins=[ReadsWithoutReads])
    assert decision.result == "error"
    assert 'the kind "configmaps.v1" is not watched: add it to reads' in decision.message
    assert 'running "ReadsWithoutReads" filter plugin' in decision.message


def test_the_message_of_a_plugin_that_raises_names_file_and_line() -> None:
    decision = decide(NODES, make_pod(), plugins=[Misspells])
    assert decision.result == "error"
    assert re.search(r"has no attribute 'lables' \(.*test_decisions\.py:\d+\)$", decision.message)


def test_a_plugin_that_a_scheduler_refuses_is_refused() -> None:
    with pytest.raises(PluginSetupError, match="did you mean"):
        decide(NODES, make_pod(), plugins=[ReadsAnUnknownKind])
