"""Every plugin, over all nodes at once, agrees with its reference on each node in turn."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.core import Node, Pod
from scheduler.api.core import NodeAffinity as NodeAffinitySpec
from scheduler.framework import Plugin
from scheduler.framework.interface import FilterNodesPlugin
from scheduler.plugins import IN_TREE
from scheduler.plugins.image_locality import ImageLocality
from scheduler.plugins.node_affinity import NodeAffinity
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.node_ports import NodePorts
from scheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.plugins.taint_toleration import TaintToleration
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod
from tests import reference
from tests.plugins.running import build, rejected, scores, verdict_of
from tests.properties import strategies
from tests.properties.strategies import repeatable
from tests.reference import (
    image_locality,
    node_affinity,
    node_name,
    node_ports,
    node_resources_balanced_allocation,
    node_resources_fit,
    node_unschedulable,
    priority_sort,
    scheduling_gates,
    taint_toleration,
)
from tests.reference.cluster import Cluster, Verdict

pytestmark = pytest.mark.slow


def expected_verdicts(
    cluster: Cluster, rule: Callable[[Node], Verdict | None]
) -> dict[str, Verdict]:
    verdicts = {node.metadata.name: rule(node) for node in cluster.nodes}
    return {name: verdict for name, verdict in verdicts.items() if verdict is not None}


def expected_scores(cluster: Cluster, rule: Callable[[Node], int]) -> dict[str, int]:
    return {node.metadata.name: rule(node) for node in cluster.nodes}


def normalized(scores: dict[str, int], rule: Callable[[list[int]], list[int]]) -> dict[str, int]:
    return dict(zip(scores, rule(list(scores.values())), strict=True))


def some_names(cluster: Cluster, data: st.DataObject) -> set[str]:
    """A view that leaves some nodes out, as earlier filters would."""
    names = [node.metadata.name for node in cluster.nodes]
    return set(data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))


@repeatable
@given(
    st.lists(
        st.tuples(st.none() | st.integers(-2, 2), st.sampled_from((0.0, 1.0, 2.5))),
        min_size=2,
        max_size=6,
    )
)
def test_priority_sort(queue: list[tuple[int | None, float]]) -> None:
    plugin = build(PrioritySort)
    queued = [
        QueuedPodInfo(PodInfo(make_pod(priority=priority)), timestamp=timestamp)
        for priority, timestamp in queue
    ]
    for first in queued:
        for second in queued:
            assert plugin.less(first, second) == priority_sort.less(first, second)


@repeatable
@given(st.lists(st.sampled_from(("a", "b.example.com/c")), max_size=3))
def test_scheduling_gates(gates: list[str]) -> None:
    pod = make_pod(scheduling_gates=gates)
    status = build(SchedulingGates).pre_enqueue(PodInfo(pod))
    assert verdict_of(status) == scheduling_gates.pre_enqueue(pod)


@repeatable
@given(strategies.clusters(()), st.sampled_from(("", *strategies.NODE_NAMES)))
def test_node_name(cluster: Cluster, wanted: str) -> None:
    pod = make_pod(node_name=wanted)
    expected = expected_verdicts(cluster, lambda n: node_name.filter_node(pod, n, cluster))
    assert rejected(build(NodeName), pod, strategies.snapshot(cluster)) == expected


@pytest.mark.parametrize(
    ("plugin_class", "judge", "vary"),
    [
        (NodeUnschedulable, node_unschedulable, strategies.TAINTS),
        (TaintToleration, taint_toleration, strategies.TAINTS),
        (NodeAffinity, node_affinity, strategies.LABELS),
        (NodePorts, node_ports, strategies.PORTS),
        (NodeResourcesFit, node_resources_fit, strategies.RESOURCES),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@repeatable
@given(data=st.data())
def test_each_filter_agrees_with_its_reference(
    plugin_class: type[Plugin], judge: ModuleType, vary: str, data: st.DataObject
) -> None:
    cluster, pod = data.draw(strategies.clusters((vary,))), data.draw(strategies.pods((vary,)))
    view = some_names(cluster, data)
    expected = expected_verdicts(
        cluster._replace(nodes=tuple(n for n in cluster.nodes if n.metadata.name in view)),
        lambda node: judge.filter_node(pod, node, cluster),
    )
    plugin = cast("FilterNodesPlugin", build(plugin_class))
    assert rejected(plugin, pod, strategies.snapshot(cluster), only=view) == expected


@repeatable
@given(
    strategies.clusters((strategies.RESOURCES,)),
    strategies.pods((strategies.RESOURCES,)),
    st.sets(st.sampled_from(("example.com/gpu", "vendor.io/fpga", "cpu"))),
    st.sets(st.sampled_from(("example.com", "vendor.io", "hugepages-2Mi"))),
)
def test_resources_that_the_filter_ignores(
    cluster: Cluster, pod: Pod, ignored: set[str], groups: set[str]
) -> None:
    plugin = build(
        NodeResourcesFit,
        {"ignoredResources": sorted(ignored), "ignoredResourceGroups": sorted(groups)},
    )
    expected = expected_verdicts(
        cluster,
        lambda node: node_resources_fit.filter_node(
            pod, node, cluster, frozenset(ignored), frozenset(groups)
        ),
    )
    assert rejected(plugin, pod, strategies.snapshot(cluster)) == expected


@repeatable
@given(
    strategies.clusters((strategies.LABELS,)),
    strategies.pods((strategies.LABELS,)),
    strategies.node_affinities(strategies.good_terms),
)
def test_node_affinity_with_added_affinity(
    cluster: Cluster, pod: Pod, added: NodeAffinitySpec
) -> None:
    plugin = build(NodeAffinity, {"addedAffinity": msgspec.to_builtins(added)})
    snapshot = strategies.snapshot(cluster)
    verdicts = expected_verdicts(
        cluster, lambda node: node_affinity.filter_node(pod, node, cluster, added)
    )
    assert rejected(plugin, pod, snapshot) == verdicts
    raw = expected_scores(cluster, lambda node: node_affinity.score(pod, node, cluster, added))
    found = scores(plugin, pod, snapshot)
    assert (found or dict.fromkeys(raw, 0)) == normalized(raw, node_affinity.normalize)


@repeatable
@given(strategies.clusters((strategies.TAINTS,)), strategies.pods((strategies.TAINTS,)))
def test_taint_toleration_score(cluster: Cluster, pod: Pod) -> None:
    raw = expected_scores(cluster, lambda node: taint_toleration.score(pod, node, cluster))
    expected = normalized(raw, taint_toleration.normalize)
    assert scores(build(TaintToleration), pod, strategies.snapshot(cluster)) == expected


@repeatable
@given(strategies.clusters((strategies.IMAGES,)), strategies.pods((strategies.IMAGES,)))
def test_image_locality(cluster: Cluster, pod: Pod) -> None:
    expected = expected_scores(cluster, lambda node: image_locality.score(pod, node, cluster))
    assert scores(build(ImageLocality), pod, strategies.snapshot(cluster)) == expected


weighted_resources = st.lists(
    st.tuples(
        st.sampled_from((*strategies.CAPACITIES, "pods", "nobody.knows/it")),
        st.sampled_from((1, 1, 2, 7, 100)),
    ),
    min_size=1,
    max_size=4,
).map(tuple)

shapes = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 10)),
    min_size=1,
    max_size=4,
    unique_by=lambda point: point[0],
).map(lambda points: tuple(sorted(points)))


@repeatable
@given(
    strategies.clusters((strategies.RESOURCES,)),
    strategies.pods((strategies.RESOURCES,)),
    st.sampled_from(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")),
    weighted_resources,
    shapes,
)
def test_node_resources_fit_score(
    cluster: Cluster,
    pod: Pod,
    kind: str,
    resources: tuple[tuple[str, int], ...],
    shape: tuple[tuple[int, int], ...],
) -> None:
    args: dict[str, object] = {
        "type": kind,
        "resources": [{"name": name, "weight": weight} for name, weight in resources],
    }
    if kind == "RequestedToCapacityRatio":
        points = [{"utilization": at, "score": score} for at, score in shape]
        args["requestedToCapacityRatio"] = {"shape": points}
    plugin = build(NodeResourcesFit, {"scoringStrategy": args})
    strategy = node_resources_fit.Strategy(kind, resources, shape)
    expected = expected_scores(
        cluster, lambda node: node_resources_fit.score(pod, node, cluster, strategy)
    )
    assert scores(plugin, pod, strategies.snapshot(cluster)) == expected


@repeatable
@given(
    strategies.clusters((strategies.RESOURCES,)),
    strategies.pods((strategies.RESOURCES,)),
    st.lists(
        st.sampled_from((*strategies.CAPACITIES, "pods")), min_size=1, max_size=5, unique=True
    ),
)
def test_balanced_allocation(cluster: Cluster, pod: Pod, names: list[str]) -> None:
    resources = [{"name": name, "weight": 1} for name in names]
    plugin = build(NodeResourcesBalancedAllocation, {"resources": resources})
    found = scores(plugin, pod, strategies.snapshot(cluster))
    if node_resources_balanced_allocation.skips(pod, names):
        assert found == {}
    else:
        assert found == expected_scores(
            cluster,
            lambda node: node_resources_balanced_allocation.score(pod, node, cluster, names),
        )


def test_every_plugin_with_a_rule_has_a_reference() -> None:
    # DefaultBinder decides nothing. The plugins of pod groups have recorded scenarios, as their
    # rules need the group's cycle.
    without = {"default_binder", "gang_scheduling"}
    without |= {"pod_group_pods_count", "topology_placement_generator"}
    written = {path.stem for path in Path(reference.__file__).parent.glob("*.py")}
    modules = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in IN_TREE}
    assert modules - written == without
