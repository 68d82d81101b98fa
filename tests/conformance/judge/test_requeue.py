"""The event that brought a pod back: computed from counters, expected by cases."""

from pathlib import Path

import pytest

from conformance.errors import InputError, NotObservable
from conformance.format.expectation import Bounds, Expectation
from conformance.judge.expect import is_about_rest, unmet_by_moves
from conformance.judge.metrics import QueueCounters, parse_counters
from conformance.outcome import Verdict

from .. import schedulers
from ..cases import in_process, run_one, write_cases

#: A pod waits; labels of nodes bring it back if they are called `helps`.
WAITING = """
area: tiny
cases:
- name: c
  source: nowhere
  cluster: [node: {name: a}]
  steps:
"""


def _moves(
    requeued: dict[str, int] | None,
    handled: dict[str, int] | None = None,
    after_flush: int | None = None,
) -> QueueCounters:
    return QueueCounters(requeued, handled, after_flush)


def _problem(expected: Expectation, moves: QueueCounters) -> str | None:
    wrong = unmet_by_moves(expected, moves)
    return wrong[0].problem if wrong else None


def test_moves_are_the_counts_that_have_risen_between_two_reads() -> None:
    before = QueueCounters({"NodeAdd": 1, "Old": 4}, None, 1)
    after = QueueCounters({"NodeAdd": 3, "Old": 4, "New": 1}, {"NodeAdd": 2}, 3)
    assert after.since(before) == QueueCounters({"NodeAdd": 2, "New": 1}, {"NodeAdd": 2}, 2)


def test_a_new_family_counts_from_zero_and_a_missing_one_counts_nothing() -> None:
    nothing = QueueCounters(None, None, None)
    assert QueueCounters({"A": 1}, None, 1).since(nothing) == QueueCounters({"A": 1}, None, 1)
    assert nothing.since(nothing) == QueueCounters(None, None, None)


@pytest.mark.parametrize(
    ("requeued", "problem"),
    [
        ({"NodeAdd": 1}, None),
        ({"NodeAdd": 1, "PopFromBackoffQ": 1, "BackoffComplete": 2}, None),
        ({"NodeAdd": 1, "ScheduleAttemptFailure": 1, "UnschedulablePodAdd": 3}, None),
        ({}, "expected to be requeued by NodeAdd, NodeAdd requeued nothing"),
        (
            {"NodeUpdateNodeTaint": 1},
            "expected to be requeued by NodeAdd, NodeAdd requeued nothing",
        ),
        (
            {"NodeAdd": 1, "NodeUpdateNodeTaint": 1},
            "expected to be requeued by NodeAdd alone, found NodeUpdateNodeTaint 1",
        ),
        (
            {"NodeAdd": 1, "UnschedulableTimeout": 1, "ForceActivate": 2},
            "expected to be requeued by NodeAdd alone, "
            "found ForceActivate 2, UnschedulableTimeout 1",
        ),
        ({"NodeAdd": 2}, "expected to be requeued by NodeAdd 1 times in all, found 2"),
    ],
)
def test_a_pod_is_requeued_by_one_event_and_no_other(
    requeued: dict[str, int], problem: str | None
) -> None:
    expected = Expectation(pod="p", requeued_by="NodeAdd")
    assert _problem(expected, _moves(requeued)) == problem


def test_several_pods_are_requeued_as_often_as_there_are_pods() -> None:
    expected = Expectation(pods=["p", "q", "r"], requeued_by=["NodeAdd", "AssignedPodAdd"])
    assert _problem(expected, _moves({"NodeAdd": 2, "AssignedPodAdd": 1})) is None
    assert _problem(expected, _moves({"NodeAdd": 3})) == (
        "expected to be requeued by NodeAdd and AssignedPodAdd, AssignedPodAdd requeued nothing"
    )
    assert _problem(expected, _moves({"NodeAdd": 1, "AssignedPodAdd": 1})) == (
        "expected to be requeued by NodeAdd and AssignedPodAdd 3 times in all, found 2"
    )


def test_the_arrival_of_a_pod_counts_if_a_case_names_it() -> None:
    expected = Expectation(pod="p", requeued_by="UnschedulablePodAdd")
    assert _problem(expected, _moves({"UnschedulablePodAdd": 1})) is None


@pytest.mark.parametrize(
    ("requeued", "handled", "problem"),
    [
        ({}, None, None),
        ({}, {"NodeAdd": 1}, None),
        ({"NodeUpdateNodeTaint": 1}, {"NodeAdd": 1}, None),
        ({"NodeAdd": 1}, {"NodeAdd": 1}, "expected not to be requeued by NodeAdd 1"),
        (
            {},
            {"NodeUpdateNodeTaint": 1},
            "expected NodeAdd to happen and to requeue nothing, it has not come",
        ),
    ],
)
def test_an_event_that_requeues_nothing_must_have_come(
    requeued: dict[str, int], handled: dict[str, int] | None, problem: str | None
) -> None:
    expected = Expectation(pod="p", not_requeued_by="NodeAdd")
    assert _problem(expected, _moves(requeued, handled)) == problem


def test_a_flush_is_no_event_that_anybody_handles() -> None:
    expected = Expectation(pod="p", not_requeued_by=["UnschedulableTimeout", "ForceActivate"])
    assert _problem(expected, _moves({}, {})) is None
    assert _problem(expected, _moves({"UnschedulableTimeout": 1}, {})) == (
        "expected not to be requeued by UnschedulableTimeout 1"
    )


def test_pods_scheduled_after_a_flush_are_counted() -> None:
    one = Expectation(pod="p", scheduled_after_flush=1)
    assert _problem(one, _moves({}, None, 1)) is None
    assert _problem(one, _moves({}, None, 0)) == "expected 1 pods scheduled after a flush, found 0"
    some = Expectation(pod="p", scheduled_after_flush=Bounds(at_least=2))
    assert _problem(some, _moves({}, None, 1)) == (
        "expected at least 2 pods scheduled after a flush, found 1"
    )


@pytest.mark.parametrize(
    "expected",
    [
        Expectation(pod="p", requeued_by="NodeAdd"),
        Expectation(pod="p", not_requeued_by="NodeAdd"),
        Expectation(pod="p", scheduled_after_flush=0),
    ],
)
def test_a_metric_that_is_absent_is_no_answer(expected: Expectation) -> None:
    with pytest.raises(NotObservable, match="serves no scheduler_"):
        unmet_by_moves(expected, _moves(None))
    assert expected.reads_metrics
    assert is_about_rest(expected)


def test_a_mismatch_is_shown_with_all_moves() -> None:
    expected = Expectation(pods=["p", "team/q"], requeued_by="NodeAdd")
    (wrong,) = unmet_by_moves(expected, _moves({"B": 1, "C": 2}, {"D": 1}))
    assert wrong.subject == "pod p, pod team/q"
    assert wrong.lines == (
        "requeued since the last look: B 1, C 2",
        "events handled since then: D 1",
    )


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("expect: {pod: p, requeued_by: NodeAdd}", "expected a step before it that does something"),
        ("expect: {pod: p, requeued_by: []}", "expected an event such as NodeAdd"),
        ("expect: {pod: p, not_requeued_by: 3}", "expected an event such as NodeAdd"),
        ("expect: {node: a, requeued_by: NodeAdd}", "expected pod_count, and nothing else"),
    ],
)
def test_a_case_that_makes_no_sense_is_refused(tmp_path: Path, step: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        write_cases(tmp_path, f"{WAITING}  - {step}\n")


def test_only_cases_that_ask_read_metrics(tmp_path: Path) -> None:
    (plain,) = write_cases(tmp_path, f"{WAITING}  - touch: {{node: a}}\n")
    assert not plain.reads_metrics
    steps = """  - touch: {node: a}
  - repeat: {times: 2, steps: [expect: {pod: p, not_requeued_by: NodeAdd}]}
"""
    (asking,) = write_cases(tmp_path, f"{WAITING}{steps}")
    assert asking.reads_metrics


def test_windows_reach_from_look_to_look(tmp_path: Path) -> None:
    """Each look returns the counts since the one before, over any number of steps."""
    (case,) = write_cases(
        tmp_path,
        WAITING
        + """
  - create: [pod: {name: p}]
  - expect: {pod: p, not_bound: true}
  - patch: {node: a, patch: {metadata: {labels: {helps: "yes"}}}}
  - patch: {node: a, patch: {metadata: {labels: {color: red}}}}
  - expect: {pod: p, requeued_by: NodeUpdateNodeLabel}
  - expect: {pod: p, requeued_by: NodeUpdateNodeLabel, scheduled_after_flush: 0}
  - patch: {node: a, patch: {metadata: {labels: {color: blue}}}}
  - expect: {pod: p, not_requeued_by: NodeUpdateNodeLabel}
  - patch: {node: a, patch: {metadata: {labels: {helps: much}}}}
  - expect: {pod: p, not_bound: true}
  - patch: {node: a, patch: {metadata: {labels: {color: green}}}}
  - expect: {pod: p, not_requeued_by: NodeUpdateNodeLabel}
""",
    )
    outcome = run_one(case, in_process(schedulers.counts_label_updates))
    assert (outcome.verdict, outcome.reason) == (Verdict.PASSED, "")


def test_a_requeue_that_should_not_be_fails(tmp_path: Path) -> None:
    (case,) = write_cases(
        tmp_path,
        WAITING
        + """
  - create: [pod: {name: p}]
  - expect: {pod: p, not_bound: true}
  - patch: {node: a, patch: {metadata: {labels: {helps: "yes"}}}}
  - expect: {pod: p, not_requeued_by: NodeUpdateNodeLabel}
""",
    )
    outcome = run_one(case, in_process(schedulers.counts_label_updates))
    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason == (
        "steps[3]: pod p: expected not to be requeued by NodeUpdateNodeLabel 1"
    )
    assert outcome.details == (
        "requeued since the last look: NodeUpdateNodeLabel 1",
        "events handled since then: NodeUpdateNodeLabel 1",
    )


def test_an_event_that_never_came_fails(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, ASKS)
    outcome = run_one(case, in_process(schedulers.counts_label_updates))
    assert outcome.reason == (
        "steps[1]: pod p: expected NodeAdd to happen and to requeue nothing, it has not come"
    )


ASKS = (
    WAITING
    + """
  - create: [pod: {name: p}]
  - expect: {pod: p, not_requeued_by: NodeAdd}
"""
)


@pytest.mark.parametrize(
    ("scheduler", "reason"),
    [
        (schedulers.binds_nothing, "has no parameter serve"),
        (schedulers.serves_nowhere, "the scheduler has no URL that serves any"),
        (schedulers.serves_an_empty_page, "serves no scheduler_queue_incoming_pods_total"),
    ],
)
def test_a_scheduler_without_metrics_is_skipped(
    tmp_path: Path, scheduler: object, reason: str
) -> None:
    (case,) = write_cases(tmp_path, ASKS)
    assert callable(scheduler)
    outcome = run_one(case, in_process(scheduler))
    assert outcome.verdict is Verdict.SKIPPED
    assert reason in outcome.reason


def test_metrics_that_break_off_are_an_error(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, ASKS)
    outcome = run_one(case, in_process(schedulers.serves_nonsense_once_a_pod_is_there))
    assert outcome.verdict is Verdict.ERROR
    assert "not Prometheus' format" in outcome.reason


@pytest.mark.parametrize("name", ["gpupools.v1.example.com/Add", "gpupools.v1.example.comAdd"])
def test_an_event_of_a_kind_without_a_type_has_a_slash_in_its_name(name: str) -> None:
    label = "gpupools.v1.example.comAdd"
    page = f'scheduler_queue_incoming_pods_total{{event="{label}",queue="active"}} 1\n'
    moves = parse_counters(page).since(QueueCounters({}, None, None))
    assert _problem(Expectation(pod="p", requeued_by=name), moves) is None
    other = _problem(Expectation(pod="p", not_requeued_by=name), moves)
    assert other == "expected not to be requeued by gpupools.v1.example.com/Add 1"
