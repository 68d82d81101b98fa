"""NodePorts against upstream's own cases."""

import pytest

from scheduler.framework import CycleState, EventResource
from scheduler.plugins.node_ports import NodePorts
from tests.upstream.loading import Case, cases, verdict, verdicts
from tests.upstream.running import filter_statuses, hint, plugin_of, pre_filter


@pytest.mark.parametrize("case", cases("node_ports", "filter"))
def test_the_same_nodes_are_rejected_for_the_same_reasons(case: Case) -> None:
    plugin, state = plugin_of(NodePorts, case), CycleState()
    assert pre_filter(plugin, case, state) == verdict(case.get("pre_filter"))
    if "pre_filter" not in case.fields:
        assert filter_statuses(plugin, case, state) == verdicts(case["statuses"])


@pytest.mark.parametrize("case", cases("node_ports", "without_pre_filter"))
def test_filter_without_pre_filter(case: Case) -> None:
    with pytest.raises(LookupError, match=case["error"]):
        filter_statuses(plugin_of(NodePorts, case), case, CycleState())


@pytest.mark.parametrize("case", cases("node_ports", "hints"))
def test_the_hint_of_an_event_is_upstreams(case: Case) -> None:
    assert hint(plugin_of(NodePorts, case), case, EventResource.POD) == case["hint"]
