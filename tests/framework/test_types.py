"""Types that queue, cycle and plugins exchange; above all the text of a fit error."""

import pytest

from scheduler.framework.status import NodeToStatus, Status, pending, unresolvable, unschedulable
from scheduler.framework.types import Diagnosis, FitError, PreFilterResult
from scheduler.snapshot import PodInfo
from scheduler.testing import make_pod

POD = PodInfo(make_pod())


def _error(
    total: int,
    *statuses: Status,
    absent: Status | None = None,
    pre_filter: str = "",
    post_filter: str = "",
) -> str:
    names = [f"node{number}" for number in range(1, total + 1)]
    node_to_status = NodeToStatus(names, {name: row for row, name in enumerate(names)})
    for name, status in zip(names, statuses, strict=False):
        node_to_status.set(name, status)
    if absent is not None:
        node_to_status.absent_nodes_status = absent
    diagnosis = Diagnosis(node_to_status)
    if pre_filter:
        diagnosis.pre_filter_status = unresolvable(pre_filter)
    diagnosis.post_filter_message = post_filter
    return str(FitError(POD, total, diagnosis))


ONE, TWO = unschedulable("failed Filter-1"), unschedulable("failed Filter-2")
NOT_NEEDED = "preemption: 0/3 nodes are available: 3 Preemption is not helpful."


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (_error(3, ONE, ONE, ONE), "0/3 nodes are available: 3 failed Filter-1."),
        (
            _error(3, ONE, ONE, TWO),
            "0/3 nodes are available: 1 failed Filter-2, 2 failed Filter-1.",
        ),
        (
            _error(3, ONE, TWO, TWO, post_filter=NOT_NEEDED),
            "0/3 nodes are available: 1 failed Filter-1, 2 failed Filter-2. "
            "preemption: 0/3 nodes are available: 3 Preemption is not helpful.",
        ),
        # All nodes have the PreFilter's status; counting it as well would repeat it.
        (_error(3, ONE, ONE, ONE, pre_filter="no claim"), "0/3 nodes are available: no claim."),
        (
            _error(3, pre_filter="no claim", post_filter="not found"),
            "0/3 nodes are available: no claim. not found",
        ),
        (
            _error(4, unschedulable("no cpu", "no memory"), unschedulable("no cpu")),
            "0/4 nodes are available: 1 no memory, 2 no cpu.",
        ),
        (
            _error(3, ONE, absent=unresolvable("didn't satisfy plugin(s) [A]")),
            "0/3 nodes are available: 1 failed Filter-1, 2 didn't satisfy plugin(s) [A].",
        ),
        # As texts: 10 comes before 2.
        (
            _error(12, *[ONE] * 10, TWO, TWO),
            "0/12 nodes are available: 10 failed Filter-1, 2 failed Filter-2.",
        ),
        (_error(3), "0/3 nodes are available:"),
        (_error(1, unschedulable("", "b")), "0/1 nodes are available: 1 , 1 b."),
    ],
)
def test_a_fit_error_reads_as_upstreams_does(error: str, text: str) -> None:
    assert error == text


def test_a_diagnosis_keeps_the_plugins_that_rejected_and_those_that_wait() -> None:
    diagnosis = Diagnosis(NodeToStatus((), {}))
    diagnosis.add_plugin_status(unschedulable("a").with_plugin("A"))
    diagnosis.add_plugin_status(unresolvable("b").with_plugin("B"))
    diagnosis.add_plugin_status(pending("c").with_plugin("C"))
    diagnosis.add_plugin_status(unschedulable("nobody's"))
    assert diagnosis.unschedulable_plugins == {"A", "B", "C"}
    assert diagnosis.pending_plugins == {"C"}


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        (None, None, None),
        (None, {"a"}, {"a"}),
        ({"a"}, None, {"a"}),
        ({"a", "b"}, {"b", "c"}, {"b"}),
        ({"a"}, {"b"}, set()),
        (None, set(), set()),
    ],
)
def test_two_prefilter_results_merge_to_the_nodes_that_both_allow(
    first: set[str] | None, second: set[str] | None, merged: set[str] | None
) -> None:
    def result(names: set[str] | None) -> PreFilterResult:
        return PreFilterResult(None if names is None else frozenset(names))

    assert result(first).merge(result(second)) == result(merged)
