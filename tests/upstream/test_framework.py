"""Events and verdicts, against upstream's own cases."""

import pytest

from scheduler.api.core import Node, Pod
from scheduler.framework import (
    ClusterEvent,
    Code,
    NodeToStatus,
    PreFilterResult,
    Status,
    unresolvable,
)
from scheduler.framework.events import as_kind, match_cluster_events, pod_events
from scheduler.framework.types import Diagnosis, FitError
from scheduler.queue.property_changes import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod
from tests.upstream.loading import Case, Fields, cases, feature_gates, node, pod, version_of
from tests.upstream.running import actions

TOPIC = "framework"


def _event(value: Fields) -> ClusterEvent:
    return ClusterEvent(value["resource"], actions(value["actions"]))


def _status(value: Fields | str) -> Status:
    fields: Fields = {"code": value} if isinstance(value, str) else value
    code = next(code for code in Code if str(code) == fields["code"])
    return Status(code, *fields.get("reasons", ()))


@pytest.mark.parametrize("case", cases(TOPIC, "node_changes"))
def test_node_changes(case: Case) -> None:
    events = node_scheduling_properties_change(node(case["new"]), node(case["old"]))
    assert events == [ClusterEvent("Node", actions(name)) for name in case["events"]]


@pytest.mark.parametrize("case", cases(TOPIC, "pod_changes"))
def test_pod_changes(case: Case) -> None:
    events = pod_scheduling_properties_change(
        pod(case["new"]), pod(case["old"]), pod_events(feature_gates(case), version_of(case))
    )
    assert events == [ClusterEvent(case["resource"], actions(name)) for name in case["events"]]


@pytest.mark.parametrize("case", cases(TOPIC, "event_matches"))
def test_event_matches(case: Case) -> None:
    found = match_cluster_events(_event(case["registered"]), _event(case["incoming"]))
    assert found == case["matches"]


@pytest.mark.parametrize("case", cases("scheduler_util", "as_kind"))
def test_as_kind(case: Case) -> None:
    made = {"Pod": make_pod("foo"), "Node": make_node("foo")}
    kinds: dict[str, type[Pod] | type[Node]] = {"Pod": Pod, "Node": Node}
    old, new = (made[case[n]["kind"]] if n in case.fields else None for n in ("old", "new"))
    if case["raises"]:
        with pytest.raises(TypeError):
            as_kind(kinds[case["kind"]], old, new)
    else:
        assert as_kind(kinds[case["kind"]], old, new) == (old, new)


@pytest.mark.parametrize("case", cases(TOPIC, "nodes_for_status_code"))
def test_nodes_for_status_code(case: Case) -> None:
    names = [f"node{number}" for number in range(1, 5)]
    statuses = NodeToStatus(names, {name: row for row, name in enumerate(names)})
    if case.get("absent"):
        statuses.absent_nodes_status = _status(case["absent"])
    for name, code in case["statuses"].items():
        statuses.set(name, _status(code))
    wanted = next(code for code in Code if str(code) == case["code"])
    assert [names[row] for row in statuses.rows_with(wanted)] == case["nodes"]


@pytest.mark.parametrize("case", cases(TOPIC, "fit_error"))
def test_fit_error(case: Case) -> None:
    names = list(case["statuses"])
    statuses = NodeToStatus(names, {name: row for row, name in enumerate(names)})
    for name, value in case["statuses"].items():
        statuses.set(name, _status(value))
    diagnosis = Diagnosis(statuses)
    if case.get("pre_filter"):
        diagnosis.pre_filter_status = unresolvable(case["pre_filter"])
    diagnosis.post_filter_message = case.get("post_filter", "")
    assert str(FitError(PodInfo(make_pod()), case["nodes"], diagnosis)) == case["message"]


@pytest.mark.parametrize("case", cases(TOPIC, "status"))
def test_a_status_reads_as_upstreams(case: Case) -> None:
    status = _status({"code": case["code"], "reasons": case["reasons"]})
    assert (status.is_success, status.is_wait, status.is_skip, status.message) == (
        case["is_success"],
        case["is_wait"],
        case["is_skip"],
        case["message"],
    )


@pytest.mark.parametrize("case", cases(TOPIC, "status_equal"))
def test_status_equal(case: Case) -> None:
    assert (_status(case["first"]) == _status(case["second"])) == case["equal"]


@pytest.mark.parametrize("case", cases(TOPIC, "pre_filter_result_merge"))
def test_pre_filter_result_merge(case: Case) -> None:
    first, second, merged = (
        PreFilterResult(frozenset(case[name]) if name in case.fields else None)
        for name in ("first", "second", "merged")
    )
    assert first.merge(second) == merged
