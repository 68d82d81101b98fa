"""The cause of a decision as one sentence."""

from typing import Any

import pytest

from scheduler.config import load_text
from scheduler.explain.world import World
from scheduler.plugins import SCHEME
from scheduler.reports.build import pod_report
from scheduler.reports.decision import result_of
from scheduler.testing import make_node, make_pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""
ADDED = """
profiles:
- pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: team, operator: Exists}]}]
"""


def _cause(*nodes: dict[str, Any], config: str = "", **pod: Any) -> str:
    made = [make_node(f"n{i}", **node) for i, node in enumerate(nodes)]
    world = World(load_text(CONFIG + config, SCHEME), nodes=made, pods=[])
    decision = result_of(world.decide(make_pod("p", **pod)))
    return pod_report(decision, world.profiles["default-scheduler"], world.snapshot).cause


def _terms(*terms: dict[str, list[str]]) -> dict[str, Any]:
    listed = [
        {"matchExpressions": [{"key": k, "operator": "In", "values": v} for k, v in term.items()]}
        for term in terms
    ]
    required = {"nodeSelectorTerms": listed}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize(
    ("nodes", "pod", "cause"),
    [
        ([{}], {}, "scheduled"),
        (
            [{"labels": {"a": "1"}}, {"labels": {"b": "1"}}],
            {"node_selector": {"a": "1", "b": "1"}},
            "no node has a=1 and b=1",
        ),
        (
            [{"labels": {"a": str(i)}} for i in range(8)],
            {"node_selector": {"a": "x"}},
            "no node has a=x; a has 0, 1, 2, 3, 4 and 3 more",
        ),
        (
            [{"labels": {"a": "1"}}],
            {"affinity": _terms({"a": ["2", "3"]}, {"b": ["1"]})},
            "no node has a in (2, 3); a has 1, and no node has b=1, nor any label b",
        ),
        (
            [{"allocatable": {"cpu": "4", "memory": "1Gi", "pods": "9"}}],
            {"requests": {"cpu": "6", "memory": "70Gi"}},
            "no node is large enough for 6 cpu; the most is 4 on n0; "
            "no node is large enough for 70Gi memory; the most is 1Gi on n0",
        ),
        (
            [{"unschedulable": True}, {"taints": [{"key": "a", "effect": "NoExecute"}]}],
            {},
            "1 node: uncordon the node, or tolerate node.kubernetes.io/unschedulable:NoSchedule; "
            "1 node: tolerate a:NoExecute",
        ),
    ],
)
def test_a_cause_is_a_sentence_about_all_nodes(
    nodes: list[dict[str, Any]], pod: dict[str, Any], cause: str
) -> None:
    assert _cause(*nodes, **pod) == cause


def test_the_pods_own_labels_are_not_blamed_for_the_profile() -> None:
    labels = {"labels": {"a": "1", "b": "1"}}
    cause = _cause(labels, config=ADDED, node_selector={"a": "1", "b": "1"})
    assert cause == "1 node: label team"


def test_a_preemptor_has_its_victims_as_the_cause() -> None:
    node = make_node("n", allocatable={"cpu": "2", "pods": "9"})
    low = make_pod("low", node_name="n", requests={"cpu": "2"})
    world = World(load_text(CONFIG, SCHEME), nodes=[node], pods=[low])
    decision = result_of(world.decide(make_pod("high", priority=5, requests={"cpu": "2"})))
    report = pod_report(decision, world.profiles["default-scheduler"], world.snapshot)
    assert report.cause == "preempts 1 pod on n"
