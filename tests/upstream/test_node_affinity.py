"""NodeAffinity against upstream's own cases."""

import re

import pytest

from scheduler.framework import CycleState, EventResource
from scheduler.plugins.node_affinity import NodeAffinity
from tests.upstream.loading import Case, cases, verdict, verdicts
from tests.upstream.running import filter_statuses, hint, plugin_of, pre_filter, pre_score, scores


@pytest.mark.parametrize("case", cases("node_affinity", "filter"))
def test_the_same_nodes_are_rejected_for_the_same_reasons(case: Case) -> None:
    """Filter runs even after PreFilter has skipped the pod, unlike in the framework."""
    plugin, state, expected = plugin_of(NodeAffinity, case), CycleState(), None
    if not case.get("without_pre_filter"):
        expected = case.get("pre_filter")
        names_nodes = isinstance(expected, dict) and "nodes" in expected
        found = pre_filter(plugin, case, state)
        assert found == (expected if names_nodes else verdict(expected))
    assert filter_statuses(plugin, case, state) == verdicts(case["statuses"])


@pytest.mark.parametrize("case", cases("node_affinity", "score"))
def test_nodes_get_upstreams_scores(case: Case) -> None:
    plugin, state = plugin_of(NodeAffinity, case), CycleState()
    if "error" in case.fields:
        with pytest.raises(ValueError, match=re.escape(case["error"])):
            pre_score(plugin, case, state)
        return
    if not case.get("without_pre_score"):
        assert pre_score(plugin, case, state) == verdict(case.get("pre_score"))
    if "pre_score" not in case.fields:
        assert scores(plugin, case, state) == case["scores"]


@pytest.mark.parametrize("case", cases("node_affinity", "hints"))
def test_the_hint_of_an_event_is_upstreams(case: Case) -> None:
    assert hint(plugin_of(NodeAffinity, case), case, EventResource.NODE) == case["hint"]
