"""NodeResourcesFit against upstream's own cases."""

import re

import numpy as np
import pytest

from scheduler.assembly.gated_fields import transforms
from scheduler.devices.manager import DraManager
from scheduler.framework import CycleState, EventResource
from scheduler.framework.failures import PluginSetupError
from scheduler.framework.registrations import PluginEvents
from scheduler.framework.types import Placement, PodGroupAssignments, PodGroupInfo
from scheduler.plugins._shape_score import UtilizationShapePoint, broken_linear
from scheduler.plugins.node_resources.args import ResourceSpec
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.plugins.node_resources.resource_allocation import Amounts, score
from scheduler.snapshot import PodInfo
from scheduler.snapshot.columns import IntArray
from tests.upstream.loading import Case, cases, feature_gates, pod, snapshot, verdict, verdicts
from tests.upstream.running import (
    actions,
    events_in_case,
    filter_statuses,
    hint,
    incoming,
    plugin_of,
    pre_filter,
    pre_score,
    scores,
)


@pytest.mark.parametrize("case", cases("node_resources_fit", "filter"))
def test_the_same_nodes_are_rejected_for_the_same_reasons(case: Case) -> None:
    plugin, state = plugin_of(NodeResourcesFit, case), CycleState()
    assert pre_filter(plugin, case, state) == verdict(case.get("pre_filter"))
    if "pre_filter" not in case.fields:
        assert filter_statuses(plugin, case, state) == verdicts(case["statuses"])


@pytest.mark.parametrize("case", cases("node_resources_fit", "without_pre_filter"))
def test_filter_without_pre_filter(case: Case) -> None:
    with pytest.raises(LookupError, match=case["error"]):
        filter_statuses(plugin_of(NodeResourcesFit, case), case, CycleState())


@pytest.mark.parametrize(
    "case",
    [
        *cases("node_resources_fit", "score"),
        *cases("node_resources_fit", "least_allocated"),
        *cases("node_resources_fit", "most_allocated"),
        *cases("node_resources_fit", "requested_to_capacity_ratio"),
    ],
)
def test_nodes_get_upstreams_scores(case: Case) -> None:
    if "error" in case.fields:
        with pytest.raises(PluginSetupError, match=re.escape(case["error"])):
            plugin_of(NodeResourcesFit, case)
        return
    plugin, state = plugin_of(NodeResourcesFit, case), CycleState()
    if not case.get("without_pre_score"):
        assert pre_score(plugin, case, state) is None
    assert scores(plugin, case, state) == case["scores"]


@pytest.mark.parametrize("case", cases("node_resources_fit", "score_placement"))
def test_score_placement(case: Case) -> None:
    args = {"scoringStrategy": {"type": "LeastAllocated", "resources": case["resources"]}}
    fields = {**case.fields, "args": args}
    plugin = plugin_of(NodeResourcesFit, Case(case.upstream, case.source, "", fields))
    here = plugin.handle.snapshot
    nodes = here.nodes.take(np.array([here.row(name) for name in case["placement"]]))
    members = [PodInfo(pod(value)) for value in case["members"]]
    proposed = [(info, case["proposed"][info.name]) for info in members]
    group = PodGroupInfo("ns", "pg", members)
    assignments = PodGroupAssignments(Placement("", nodes), proposed)
    assert plugin.score_placement(CycleState(), group, assignments) == case["score"]


@pytest.mark.parametrize("case", cases("node_resources_fit", "broken_linear"))
def test_a_shape_gives_upstreams_scores(case: Case) -> None:
    """Our function is scaled to node scores, which are ten times a shape's."""
    shape = [UtilizationShapePoint(**point) for point in case["shape"]]
    found = [
        [utilization, broken_linear(shape, utilization) // 10] for utilization, _ in case["values"]
    ]
    assert found == case["values"]


@pytest.mark.parametrize("case", cases("node_resources_fit", "filter_requests"))
def test_requests_that_must_fit(case: Case) -> None:
    # An informer drops the fields of gates that are off.
    read = transforms(feature_gates(case))["pods"](incoming(case).pod)
    assert PodInfo(read).spec_requests == case["requests"]


@pytest.mark.parametrize("case", cases("node_resources_fit", "scored_requests"))
def test_requests_that_are_scored(case: Case) -> None:
    found = incoming(case).non_zero_container_requests
    assert {name: found.get(name, 0) for name in case["requests"]} == case["requests"]


@pytest.mark.parametrize("case", cases("node_resources_fit", "shares"))
def test_allocatable_resources_of_a_node(case: Case) -> None:
    found: list[Amounts] = []

    def scorer(amounts: Amounts) -> IntArray:
        found.append(amounts)
        return np.zeros(1, dtype=np.int64)

    specs = (ResourceSpec(name=case["resource"], weight=1),)
    devices = DraManager(plugin_of(NodeResourcesFit, case).handle)
    score(snapshot(case).nodes, scorer, specs, (1,), non_zero=True, devices=devices)
    # A resource that no node has is left out.
    has_any = case["allocatable"] > 0
    assert found[0].allocatable.tolist() == ([[case["allocatable"]]] if has_any else [])
    assert found[0].allocated.tolist() == ([[case["allocated"]]] if has_any else [])


@pytest.mark.parametrize("case", cases("node_resources_fit", "events"))
def test_events_to_register(case: Case) -> None:
    plugin = plugin_of(NodeResourcesFit, case)
    registered = events_in_case(case, PluginEvents(plugin, plugin.events_to_register()))
    found = {str(event.resource): event.action_type for event, _ in registered.events}
    assert found == {resource: actions(names) for resource, names in case["events"].items()}


@pytest.mark.parametrize("case", cases("node_resources_fit", "pod_hints"))
def test_hint_for_pods(case: Case) -> None:
    assert hint(plugin_of(NodeResourcesFit, case), case, EventResource.POD) == case["hint"]


@pytest.mark.parametrize("case", cases("node_resources_fit", "node_hints"))
def test_hint_for_nodes(case: Case) -> None:
    assert hint(plugin_of(NodeResourcesFit, case), case, EventResource.NODE) == case["hint"]


@pytest.mark.parametrize("case", cases("node_resources_fit", "device_class_hints"))
def test_hint_for_device_classes(case: Case) -> None:
    plugin = plugin_of(NodeResourcesFit, case)
    assert hint(plugin, case, EventResource.DEVICE_CLASS) == case["hint"]
