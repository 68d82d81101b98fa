"""NodeName against upstream's own cases."""

from __future__ import annotations

import pytest

from scheduler.framework import CycleState
from scheduler.plugins.node_name import NodeName
from tests.plugins.running import build
from tests.upstream.loading import Case, cases, verdicts
from tests.upstream.running import filter_statuses


@pytest.mark.parametrize("case", cases("node_name", "filter"))
def test_filter(case: Case) -> None:
    assert filter_statuses(build(NodeName), case, CycleState()) == verdicts(case["statuses"])
