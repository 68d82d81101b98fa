"""TaintToleration against upstream's own cases."""

import pytest

from scheduler.framework import CycleState, EventResource
from scheduler.plugins.taint_toleration import TaintToleration
from tests.upstream.loading import Case, cases, verdicts
from tests.upstream.running import filter_statuses, hint, plugin_of, pre_score, scores


@pytest.mark.parametrize("case", cases("taint_toleration", "filter"))
def test_the_same_nodes_are_rejected_for_the_same_reasons(case: Case) -> None:
    found = filter_statuses(plugin_of(TaintToleration, case), case, CycleState())
    assert found == verdicts(case["statuses"])


@pytest.mark.parametrize("case", cases("taint_toleration", "score"))
def test_nodes_get_upstreams_scores(case: Case) -> None:
    plugin, state = plugin_of(TaintToleration, case), CycleState()
    assert pre_score(plugin, case, state) is None
    assert scores(plugin, case, state) == case["scores"]


@pytest.mark.parametrize("case", cases("taint_toleration", "node_hints"))
def test_hint_for_nodes(case: Case) -> None:
    assert hint(plugin_of(TaintToleration, case), case, EventResource.NODE) == case["hint"]


@pytest.mark.parametrize("case", cases("taint_toleration", "pod_hints"))
def test_hint_for_pods(case: Case) -> None:
    assert hint(plugin_of(TaintToleration, case), case, EventResource.POD) == case["hint"]
