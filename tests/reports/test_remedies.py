"""Remedies: the texts of each plugin, the nearest node first."""

from typing import Any

import pytest

from scheduler.api import resources
from scheduler.config import default_config
from scheduler.explain.world import World
from scheduler.framework import (
    CycleState,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    Rejections,
    Status,
    unschedulable,
)
from scheduler.framework.failures import PluginFailedError
from scheduler.plugins import SCHEME
from scheduler.reports.decision import result_of
from scheduler.reports.remedies import all_rejections, distinct_remedies
from scheduler.testing import make_node, make_pod

SMALL = {"cpu": "2", "memory": "2Gi", "pods": "2", "example.com/gpu": "1"}


def _found(
    node: dict[str, Any],
    pod: dict[str, Any],
    *,
    running: dict[str, Any] | None = None,
    plugins: tuple[type[Plugin], ...] = (),
) -> list[str]:
    nodes = [make_node("n", **{"allocatable": SMALL, **node})]
    pods = [make_pod("r", node_name="n", **running)] if running is not None else []
    world = World(default_config(SCHEME), nodes=nodes, pods=pods, plugins=plugins)
    decision = result_of(world.decide(make_pod("p", **pod)))
    assert decision.result == "unschedulable"
    framework = world.profiles["default-scheduler"]
    rejected = all_rejections(framework, world.snapshot, decision.pod)
    found = distinct_remedies(rejected, world.snapshot, decision.pod, candidates_max=None)
    return [f"{plugin}: {remedy.text}" for plugin, remedy in found[0].changes]


def _affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("node", "pod", "running", "remedies"),
    [
        (
            {},
            {"requests": {"cpu": "2500m", "memory": "3Gi", "example.com/gpu": "3"}},
            {"requests": {"cpu": "1", "example.com/gpu": "1"}},
            ["needs 1500m more cpu", "needs 1Gi more memory", "needs 3 more example.com/gpu"],
        ),
        ({"allocatable": {"cpu": "1", "pods": "1"}}, {}, {}, ["needs room for one more pod"]),
        (
            {
                "taints": [
                    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
                    {"key": "soft", "effect": "PreferNoSchedule"},
                    {"key": "gone", "effect": "NoExecute"},
                ]
            },
            {},
            None,
            ["tolerate dedicated=db:NoSchedule", "tolerate gone:NoExecute"],
        ),
        (
            {"unschedulable": True},
            {},
            None,
            ["uncordon the node, or tolerate node.kubernetes.io/unschedulable:NoSchedule"],
        ),
        ({}, {"host_ports": [80, 81]}, {"host_ports": [81]}, ["free host port 81/TCP"]),
        (
            {"labels": {"gen": "2"}},
            {
                "node_selector": {"disk": "ssd"},
                "affinity": _affinity(
                    [_expression("a", "Exists"), _expression("b", "In", "x", "y")],
                    [_expression("gen", "Gt", "3"), _expression("gen", "NotIn", "9")],
                ),
            },
            None,
            ["label disk=ssd", "label gen > 3"],
        ),
        (
            {"labels": {"a": "1", "b": "2"}},
            {
                "affinity": _affinity(
                    [_expression("a", "DoesNotExist"), _expression("b", "NotIn", "2", "3")]
                )
            },
            None,
            ["no label a", "label b not in (2, 3)"],
        ),
    ],
)
def test_remedies_name_the_needed_changes(
    node: dict[str, Any],
    pod: dict[str, Any],
    running: dict[str, Any] | None,
    remedies: list[str],
) -> None:
    found = _found(node, pod, running=running)
    assert [text.partition(": ")[2] for text in found] == remedies


class Guard(Plugin):
    """Has no remedy to offer."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("guarded")


def test_a_node_that_a_pod_may_not_use_at_all_is_named_as_such() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["other"]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    found = _found({}, {"affinity": affinity})
    assert found[-1] == "NodeAffinity: is not among the nodes that the pod can use"


class Rejecting(Plugin):
    """Ends PreFilter, so that the next plugin has no state."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status:
        return unschedulable("not now")


class NeedsState(Plugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        raise KeyError("state of PreFilter")


class NeedsStateAtOnce(Plugin):
    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        raise KeyError("state of PreFilter")


@pytest.mark.parametrize("broken", [NeedsState, NeedsStateAtOnce])
def test_a_filter_may_lack_its_state_only_after_a_rejection_in_pre_filter(
    broken: type[Plugin],
) -> None:
    def filters(*plugins: type[Plugin]) -> set[str]:
        world = World(default_config(SCHEME), nodes=[make_node("n")], plugins=plugins)
        framework, pod = world.profiles["default-scheduler"], PodInfo(make_pod())
        return {p.name for p, _ in all_rejections(framework, world.snapshot, pod).by_plugin}

    assert broken.name not in filters(Rejecting, broken)
    with pytest.raises(PluginFailedError, match=f'"{broken.name}"'):
        filters(broken)


def test_all_plugins_have_remedies_or_their_reasons() -> None:
    found = _found({"unschedulable": True}, {"requests": {"cpu": "3"}}, plugins=(Guard,))
    assert [text.partition(": ")[0] for text in found] == [
        "NodeUnschedulable",
        "NodeResourcesFit",
        "Guard",
    ]
    assert found[-1] == "Guard: no longer rejected: guarded"


def test_the_nearest_node_comes_first() -> None:
    nodes = [
        make_node("far", allocatable={"cpu": "1", "pods": "1"}, unschedulable=True),
        make_node("near", allocatable={"cpu": "3500m", "pods": "1"}),
        make_node("middle", allocatable={"cpu": "1", "pods": "1"}),
    ]
    world = World(default_config(SCHEME), nodes=nodes, pods=[])
    pod = PodInfo(make_pod("p", requests={"cpu": "4"}))
    framework = world.profiles["default-scheduler"]
    rejected = all_rejections(framework, world.snapshot, pod)
    found = distinct_remedies(rejected, world.snapshot, pod, candidates_max=None)
    assert [node.node for node in found] == ["near", "far"]
    assert [node.nodes for node in found] == [2, 1]
    assert found[0].distance < found[1].distance


@pytest.mark.parametrize(
    ("name", "count", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 3 * 1024**3, "3Gi"),
        ("memory", 1000, "1000"),
        ("ephemeral-storage", 1536 * 1024, "1.5Mi"),
        ("memory", 74_900_000_000, "69.8Gi"),
        ("hugepages-2Mi", 4 * 1024**2, "4Mi"),
        ("example.com/gpu", 1024, "1024"),
    ],
)
def test_counts_are_written_as_people_write_them(name: str, count: int, text: str) -> None:
    assert resources.count_text(name, count) == text
