"""NodeUnschedulable against upstream's own cases."""

from __future__ import annotations

import pytest

from scheduler.framework import CycleState, EventResource
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from tests.plugins.running import build
from tests.upstream.loading import Case, cases, verdicts
from tests.upstream.running import filter_statuses, hint


@pytest.mark.parametrize("case", cases("node_unschedulable", "filter"))
def test_filter(case: Case) -> None:
    found = filter_statuses(build(NodeUnschedulable), case, CycleState())
    assert found == verdicts(case["statuses"])


@pytest.mark.parametrize("case", cases("node_unschedulable", "node_hints"))
def test_hint_for_nodes(case: Case) -> None:
    assert hint(build(NodeUnschedulable), case, EventResource.NODE) == case["hint"]


@pytest.mark.parametrize("case", cases("node_unschedulable", "pod_hints"))
def test_hint_for_pods(case: Case) -> None:
    assert hint(build(NodeUnschedulable), case, EventResource.POD) == case["hint"]
