"""NodeName against upstream's own cases."""

import pytest

from scheduler.framework import CycleState
from scheduler.plugins.node_name import NodeName
from tests.upstream.loading import Case, cases, verdicts
from tests.upstream.running import filter_statuses, plugin_of


@pytest.mark.parametrize("case", cases("node_name", "filter"))
def test_the_same_nodes_are_rejected_for_the_same_reasons(case: Case) -> None:
    assert filter_statuses(plugin_of(NodeName, case), case, CycleState()) == verdicts(
        case["statuses"]
    )
