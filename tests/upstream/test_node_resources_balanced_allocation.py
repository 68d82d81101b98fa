"""NodeResourcesBalancedAllocation against upstream's own cases."""

import pytest

from scheduler.framework import CycleState
from scheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from tests.upstream.loading import Case, cases, verdict
from tests.upstream.running import plugin_of, pre_score, scores


@pytest.mark.parametrize("case", cases("node_resources_balanced_allocation", "score"))
def test_nodes_get_upstreams_scores(case: Case) -> None:
    plugin, state = plugin_of(NodeResourcesBalancedAllocation, case), CycleState()
    if not case.get("without_pre_score"):
        assert pre_score(plugin, case, state) == verdict(case.get("pre_score"))
    if "pre_score" not in case.fields:
        assert scores(plugin, case, state) == case["scores"]
