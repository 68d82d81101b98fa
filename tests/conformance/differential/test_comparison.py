"""Two histories of one scenario, written by hand: their differences, and the verdicts on them."""

from typing import Any

import pytest

from conformance.api import Json
from conformance.differential.comparison import (
    Comparison,
    Difference,
    Verdict,
    compare,
    judge,
    questions_of,
)
from conformance.differential.decisions import Decision
from conformance.differential.sides import side_of
from conformance.format.case import Case, case_of
from conformance.judge.referee import Answer, Question
from conformance.outcome import Verdict as Ending
from conformance.run.observation import Observation, PodRecord, Rejection
from conformance.targets.target import TargetOptions
from fakeapi import ObjectChange

CASE = case_of(
    {"name": "c", "source": "nowhere", "steps": [{"advance": "1s"}, {"advance": "1s"}]},
    area="tests",
    origin="here",
)


def pod(name: str = "p", **fields: Any) -> PodRecord:
    return PodRecord(key=f"default/{name}", uid=name, created_seconds=0.0, **fields)


def rejection(message: str, *, version: int = 1, node: str = "", seconds: float = 0.0) -> Rejection:
    return Rejection(
        seconds=seconds,
        version=version,
        reason="Unschedulable",
        message=message,
        nominated_node=node,
    )


def history(*pods: PodRecord, case: Case = CASE, **fields: Any) -> Observation:
    """A run of two steps, each with two changes: versions 1 and 2, then 3 and 4."""
    changes = tuple(
        ObjectChange(
            seconds=float(version),
            resource_version=version,
            type="ADDED",
            group="",
            resource="pods",
            namespace="default",
            name="p",
            object={
                "kind": "Pod",
                "metadata": {"uid": "p"},
                "spec": {"schedulingGroup": {"podGroupName": "g"}},
            },
        )
        for version in (1, 2, 3, 4)
    )
    seen = Observation(
        outcome=case.outcome(Ending.PASSED),
        changes=changes,
        writes=None,
        bound_by_suite=frozenset(),
        steps=(("steps[0]", 0), ("steps[1]", 2)),
        stories={},
        kinds={},
        started_seconds=0.0,
        end_seconds=60.0,
        **fields,
    )
    # The pods are given, not found in the changes.
    seen.__dict__.update(pods=pods, preemptors={})
    return seen


LEFT = rejection("0/1 nodes: cpu. No victims")


@pytest.mark.parametrize(
    ("a", "b", "shares_nodes", "differences"),
    [
        (pod(rejections=[LEFT]), pod(rejections=[rejection("0/1 nodes: cpu. None")]), False, []),
        (
            pod(rejections=[LEFT]),
            pod(rejections=[rejection("0/1 nodes: ports")]),
            False,
            [("message", "")],
        ),
        # One side counts nodes that the other side does not have.
        (pod(rejections=[LEFT]), pod(rejections=[rejection("0/2 nodes: ports")]), True, []),
        (
            pod(rejections=[LEFT]),
            pod(rejections=[LEFT], deleted_seconds=1.0, deleted_version=2),
            False,
            [("placement", "")],
        ),
        # Bound in the same step, on one side after a report.
        (
            pod(node="a", bound_version=2),
            pod(node="a", bound_version=2, rejections=[LEFT]),
            False,
            [("placement", "steps[0]")],
        ),
        (
            pod(node="a", bound_version=4),
            pod(node="a", bound_version=4, rejections=[LEFT]),
            False,
            [],
        ),
        # Bound in the first step, or in the second, or deleted meanwhile.
        (
            pod(node="a", bound_version=2),
            pod(node="a", bound_version=4),
            False,
            [("placement", "steps[0]")],
        ),
        (
            pod(node="a", bound_version=4),
            pod(deleted_seconds=1.0, deleted_version=2),
            False,
            [("placement", "steps[1]")],
        ),
    ],
)
def test_sides_differ_in_facts_and_steps(
    a: PodRecord, b: PodRecord, shares_nodes: bool, differences: list[tuple[str, str]]
) -> None:
    comparison = compare(CASE, history(a), history(b, shares_nodes=shares_nodes))
    assert [(each.aspect, each.step) for each in comparison.differences] == differences


def test_a_pod_that_is_gone_by_the_step_of_the_other_sides_binding_is_deleted() -> None:
    gone = pod(deleted_seconds=1.0, deleted_version=2)
    (difference,) = compare(
        CASE, history(pod(node="a", bound_version=4)), history(gone)
    ).differences
    assert (difference.b.end, difference.b.is_waiting) == ("deleted", False)


@pytest.mark.parametrize(
    ("rejections", "victims", "differs"),
    [
        ([rejection("", node="a")], ("low",), False),
        # The same node again, a victim that was chosen at another time, and another node.
        ([rejection("", node="a"), rejection("", node="a", version=2)], ("low",), False),
        ([rejection("", node="a", seconds=9.0)], ("low",), True),
        ([rejection("", node="a"), rejection("", node="b", version=2)], ("low",), True),
        ([rejection("", node="a")], (), True),
    ],
)
def test_nominations_differ_in_nodes_and_victims(
    rejections: list[Rejection], victims: tuple[str, ...], differs: bool
) -> None:
    def side(rejections: list[Rejection], victims: tuple[str, ...]) -> Observation:
        gone = [pod(name, node="a", preempted_seconds=0.5, preempted_version=1) for name in victims]
        return history(pod("high", rejections=rejections), *gone)

    once = side([rejection("", node="a")], ("low",))
    found = compare(CASE, once, side(rejections, victims)).differences
    assert any(each.aspect == "preemption" for each in found) is differs


OURS = side_of("ours", option="--a", base=TargetOptions())
ON_A = Decision(uid="p", version=2, node="a")
WAITS = Decision(uid="p", version=3, is_waiting=True)
FITS = Answer(result="scheduled", best=("a",), total={"a": 1}, scores={"a": {}})
QUESTION = Question(objects=(), pod={}, config=None, gates={}, plugins=())


def judged(
    *differences: Difference, answer: Answer | None = FITS, **fields: Any
) -> list[tuple[str, Verdict]]:
    """Return the differences with their verdicts, if all decisions have the same answer."""
    seen = history(**fields)
    comparison = Comparison(case=CASE, a=seen, b=seen, differences=[*differences])
    number = 4 * len(differences)
    judge(comparison, [QUESTION] * number, [answer] * number)
    return [(each.pod, each.verdict) for each in comparison.differences]


def difference(name: str = "p", *, b: Decision = ON_A, **more: Any) -> Difference:
    return Difference(pod=name, aspect="placement", a=ON_A, b=b, **more)


@pytest.mark.parametrize(
    ("message", "verdict"),
    [
        ("0/1 nodes: cpu", Verdict.PERHAPS),
        ("0/1 nodes: ports", Verdict.DIFFERS),
    ],
)
def test_a_report_is_right_if_the_other_side_would_give_it(message: str, verdict: Verdict) -> None:
    answer = Answer(result="unschedulable", message="0/1 nodes: cpu. preemption: none")
    report = Decision(uid="p", version=2, message=message)
    found = judged(Difference(pod="p", aspect="placement", a=report, b=report), answer=answer)
    assert found == [("p", verdict)]


@pytest.mark.parametrize(
    ("answer", "first", "rest"),
    [
        (FITS, Verdict.CHANCE, Verdict.CHANCE),
        (None, Verdict.PERHAPS, Verdict.PERHAPS),
        (Answer(result="unschedulable"), Verdict.DIFFERS, Verdict.PERHAPS),
    ],
)
def test_the_first_differences_explain_the_rest(
    answer: Answer | None, first: Verdict, rest: Verdict
) -> None:
    found = judged(*(difference(f"p{number}") for number in range(22)), answer=answer)
    assert {verdict for _, verdict in found[:20]} == {first}
    assert found[20:] == [("p20", rest), ("p21", rest)]


def test_a_report_before_the_same_decision_counts_if_it_is_wrong() -> None:
    reported = Decision(uid="p", version=1, message="0/1 nodes: cpu")
    early = difference(b=reported, counts_if_wrong=True)
    assert judged(early, answer=FITS) == [("p", Verdict.DIFFERS)]
    assert judged(difference(counts_if_wrong=True), answer=FITS) == []


@pytest.mark.parametrize(
    ("decided_seconds", "verdict"),
    [(10.0, Verdict.DIFFERS), (47.9, Verdict.DIFFERS), (48.0, Verdict.PERHAPS)],
)
def test_in_real_time_a_pod_may_still_wait_at_the_end(
    decided_seconds: float, verdict: Verdict
) -> None:
    on_a = Decision(uid="p", version=2, node="a", seconds=decided_seconds)
    ends = Difference(pod="p", aspect="placement", a=on_a, b=WAITS)
    assert judged(ends, in_real_time=True) == [("p", verdict)]
    ends = Difference(pod="p", aspect="placement", a=WAITS, b=on_a)
    assert judged(ends, in_real_time=True) == [("p", verdict)]


def test_a_pod_of_a_group_is_not_decided_by_itself() -> None:
    seen = history()
    comparison = Comparison(
        case=CASE, a=seen, b=seen, differences=[Difference(pod="p", aspect="x", a=ON_A, b=ON_A)]
    )
    assert questions_of(comparison, OURS, OURS) == [None] * 4


def test_the_question_on_a_decision_has_the_objects_before_it() -> None:
    lone: Json = {"kind": "Pod", "metadata": {"uid": "p"}, "spec": {}}
    node: Json = {"kind": "Node", "metadata": {"uid": "n"}}
    event: Json = {"kind": "Event", "metadata": {"uid": "e"}}
    seen = history()
    seen.__dict__.update(objects_before=lambda version: [lone, node, event][: version + 1])
    comparison = Comparison(
        case=CASE, a=seen, b=seen, differences=[Difference(pod="p", aspect="x", a=ON_A, b=WAITS)]
    )
    decided = Decision(uid="p", version=0, end="deleted")
    comparison.differences.append(Difference(pod="p", aspect="x", a=decided, b=ON_A))
    questions = questions_of(comparison, OURS, OURS)
    assert [question is None for question in questions] == [False] * 4 + [True] * 2 + [False] * 2
    assert questions[0] is not None
    assert (questions[0].pod, questions[0].objects) == (lone, [node])
