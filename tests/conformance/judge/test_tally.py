"""The aspects of expectations, and the verdicts on the aspects of a case."""

from pathlib import Path

import msgspec
import pytest

from conformance.format.case import Case
from conformance.format.expectation import Expectation
from conformance.judge.expect import _FIELDS, Unmet, aspects_of
from conformance.judge.tally import Tally
from conformance.outcome import ALL_ASPECTS, Aspect, Verdict

from ..cases import write_cases

SUBJECTS = {"pod", "pods", "pod_group", "node", "fault", "extender", "object", "metric", "labels"}


@pytest.mark.parametrize(
    ("fields", "aspects"),
    [
        ({"bound_to": "a"}, "placement"),
        ({"not_bound": True, "attempts": 1}, "placement events"),
        ({"unschedulable": {}}, "placement status"),
        ({"unschedulable": {"message_prefix": "0/1"}}, "placement status messages"),
        ({"gated": True}, "placement status events"),
        ({"condition": {"type": "T", "message": "m"}}, "status messages"),
        ({"event": {"reason": "R"}}, "events"),
        ({"event": {"reason": "R", "note_contains": "n"}}, "events messages"),
        ({"requeued_by": "NodeAdd", "bound_to": "a"}, "requeue placement"),
    ],
    ids=str,
)
def test_fields_of_an_expectation_belong_to_aspects(
    fields: dict[str, object], aspects: str
) -> None:
    expected = msgspec.convert({"pod": "p", **fields}, Expectation)
    assert {aspect.value for aspect in aspects_of(expected)} == {*aspects.split()}


def test_every_field_belongs_to_an_aspect() -> None:
    assert {*_FIELDS} == {*Expectation.__struct_fields__} - SUBJECTS


@pytest.fixture
def case(tmp_path: Path) -> Case:
    (found,) = write_cases(
        tmp_path,
        """
        area: tiny
        cases:
        - name: c
          source: nowhere
          steps:
          - expect: {pod: p, not_bound: true, unschedulable: {}}
          - expect: {pod: p, attempts: 1}
          - expect: {pod: p, bound_to: a}
        """,
    )
    return found


def _unmet(aspect: Aspect, problem: str) -> Unmet:
    return Unmet("pod p", problem, ("pod p is Pending",), aspect, is_final=False)


def test_an_aspect_passes_if_all_its_expectations_hold(case: Case) -> None:
    tally = Tally(case, ALL_ASPECTS)
    tally.record("steps[0]", [_unmet(Aspect.STATUS, "no condition")])
    tally.record("steps[1]", [])
    tally.record("steps[2]", [])
    assert tally.verdicts() == {
        Aspect.PLACEMENT: Verdict.PASSED,
        Aspect.STATUS: Verdict.FAILED,
        Aspect.EVENTS: Verdict.PASSED,
    }


def test_an_aspect_that_was_not_checked_to_the_end_is_skipped(case: Case) -> None:
    tally = Tally(case, ALL_ASPECTS)
    tally.record("steps[0]", [])
    assert tally.verdicts() == {
        Aspect.PLACEMENT: Verdict.SKIPPED,
        Aspect.STATUS: Verdict.PASSED,
        Aspect.EVENTS: Verdict.SKIPPED,
    }


def test_the_reason_is_the_failed_placement_and_the_number_of_other_failures(case: Case) -> None:
    tally = Tally(case, ALL_ASPECTS)
    tally.record("steps[0]", [_unmet(Aspect.STATUS, "no condition")])
    assert tally.reason == "steps[0]: pod p: no condition"
    assert tally.lines() == ["pod p is Pending"]
    tally.record("steps[2]", [_unmet(Aspect.PLACEMENT, "expected on a")])
    assert tally.reason == "steps[2]: pod p: expected on a (and 1 more)"
    assert tally.lines() == [
        "status: steps[0]: pod p: no condition",
        "pod p is Pending",
        "placement: steps[2]: pod p: expected on a",
    ]


def test_only_the_chosen_aspects_count(case: Case) -> None:
    tally = Tally(case, frozenset({Aspect.PLACEMENT, Aspect.METRICS}))
    wrong = [_unmet(Aspect.PLACEMENT, "on a"), _unmet(Aspect.STATUS, "no condition")]
    assert tally.judged(wrong) == wrong[:1]
    for where in ("steps[0]", "steps[1]", "steps[2]"):
        tally.record(where, [])
    assert tally.verdicts() == {Aspect.PLACEMENT: Verdict.PASSED}
    assert not tally.is_empty
    assert Tally(case, frozenset({Aspect.METRICS})).is_empty
