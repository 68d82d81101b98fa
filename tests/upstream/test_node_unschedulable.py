"""NodeUnschedulable against upstream's own cases."""

import pytest

from scheduler.framework import CycleState, EventResource
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from tests.upstream.loading import Case, cases, verdicts
from tests.upstream.running import filter_statuses, hint, plugin_of


@pytest.mark.parametrize("case", cases("node_unschedulable", "filter"))
def test_the_same_nodes_are_rejected_for_the_same_reasons(case: Case) -> None:
    found = filter_statuses(plugin_of(NodeUnschedulable, case), case, CycleState())
    assert found == verdicts(case["statuses"])


@pytest.mark.parametrize("case", cases("node_unschedulable", "node_hints"))
def test_hint_for_nodes(case: Case) -> None:
    assert hint(plugin_of(NodeUnschedulable, case), case, EventResource.NODE) == case["hint"]


@pytest.mark.parametrize("case", cases("node_unschedulable", "pod_hints"))
def test_hint_for_pods(case: Case) -> None:
    assert hint(plugin_of(NodeUnschedulable, case), case, EventResource.POD) == case["hint"]
