"""The predicates and priorities of v1.13 against v1.13's own cases; its scores go from 0 to 10."""

import pytest

from scheduler.framework import CycleState, Plugin
from scheduler.plugins.legacy import scores as by_node
from scheduler.plugins.legacy import services as by_service
from scheduler.plugins.legacy.scores import UtilizationShapePoint, broken_linear
from tests.upstream.loading import Case, cases, snapshot
from tests.upstream.running import filter_statuses, incoming, plugin_of, pre_filter, scores

PRIORITIES: dict[str, type[Plugin]] = {
    "balanced_resource_allocation": by_node.BalancedResourceAllocation,
    "image_locality": by_node.ImageLocalityPriority,
    "inter_pod_affinity": by_node.InterPodAffinityPriority,
    "least_requested": by_node.LeastRequestedPriority,
    "most_requested": by_node.MostRequestedPriority,
    "node_affinity": by_node.NodeAffinityPriority,
    "node_label": by_node.NodeLabelPriority,
    "node_prefer_avoid_pods": by_node.NodePreferAvoidPodsPriority,
    "requested_to_capacity_ratio": by_node.RequestedToCapacityRatioPriority,
    "resource_limits": by_node.ResourceLimitsPriority,
    "selector_spread": by_service.SelectorSpreadPriority,
    "service_anti_affinity": by_service.ServiceAntiAffinityPriority,
    "taint_toleration": by_node.TaintTolerationPriority,
}


@pytest.mark.parametrize(
    ("plugin_class", "case"),
    [
        pytest.param(plugin_class, *param.values, id=f"{plugin_class.name}-{param.id}")
        for topic, plugin_class in PRIORITIES.items()
        for param in cases("legacy", topic)
    ],
)
def test_nodes_get_upstreams_scores(plugin_class: type[Plugin], case: Case) -> None:
    plugin, state = plugin_of(plugin_class, case), CycleState()
    if hasattr(plugin, "pre_score"):
        status = plugin.pre_score(state, incoming(case), snapshot(case).nodes)
        if status is not None:
            assert status.is_skip
            assert set(case["scores"].values()) == {0}
            return
    assert scores(plugin, case, state) == {name: 10 * n for name, n in case["scores"].items()}


@pytest.mark.parametrize("case", cases("legacy", "broken_linear"))
def test_broken_linear(case: Case) -> None:
    shape = [UtilizationShapePoint(**point) for point in case["shape"]]
    assert {used: broken_linear(shape, used) for used in case["values"]} == case["values"]


@pytest.mark.parametrize("case", cases("legacy", "service_affinity"))
def test_service_affinity(case: Case) -> None:
    plugin, state = plugin_of(by_service.CheckServiceAffinity, case), CycleState()
    assert pre_filter(plugin, case, state) is None
    found = filter_statuses(plugin, case, state).get(case["node_name"])
    rejected = ("Unschedulable", ("node(s) didn't match service affinity",))
    assert found == (None if case["fits"] else rejected)


@pytest.mark.parametrize("case", cases("legacy", "node_label_presence"))
def test_node_label_presence(case: Case) -> None:
    found = filter_statuses(plugin_of(by_service.CheckNodeLabelPresence, case), case, CycleState())
    reasons = ("node(s) didn't have the requested labels",)
    rejected = {"node": ("UnschedulableAndUnresolvable", reasons)}
    assert found == ({} if case["fits"] else rejected)
