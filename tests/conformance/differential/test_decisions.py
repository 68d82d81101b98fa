"""Two schedulers whose pods end on the same nodes, and that decide differently on the way."""

import asyncio
import dataclasses
from pathlib import Path

import pytest

from conformance.differential.comparison import (
    Comparison,
    Difference,
    Verdict,
    judge,
    questions_of,
)
from conformance.differential.decisions import Run
from conformance.differential.run import Compared, compare_all
from conformance.differential.sides import Side, side_of
from conformance.judge.referee import Answer, answers_to
from conformance.run.observation import observe
from conformance.targets.target import TargetOptions
from tests.conformance import schedulers, wrong_schedulers

from ..cases import write_cases

GPU = """
area: naive
cases:
- name: second-pod-for-one-gpu
  source: nowhere
  cluster: [node: {name: a, resources: {nvidia.com/gpu: 1}}]
  steps:
  - create: [pod: {name: g, count: 2, resources: {nvidia.com/gpu: 1}}]
  - delete: {pod: g-0}
  - advance: 15s
  - expect: {pod: g-1, bound_to: a}
"""
TAINT = """
area: naive
cases:
- name: toleration-comes
  source: nowhere
  cluster: [node: {name: a, taints: ["dedicated=db:NoSchedule"]}]
  steps:
  - create: [pod: {name: p}]
  - patch:
      pod: p
      type: strategic
      patch: {spec: {tolerations: [{key: dedicated, operator: Exists}]}}
  - advance: 15s
  - expect: {pod: p, bound_to: a}
"""
PREEMPTION = """
area: naive
cases:
- name: room-comes-later
  source: nowhere
  cluster:
  - node: {name: a, cpu: 1}
  - pod: {name: low, node: a, cpu: 1, priority: 1}
  steps:
  - create: [pod: {name: high, cpu: 1, priority: 10}]
  - advance: 40s
  - delete: {pod: low}
  - advance: 15s
  - expect: {pod: high, bound_to: a}
"""
PLAIN = """
area: naive
cases:
- name: one-node
  source: nowhere
  cluster: [node: {name: a, cpu: 4}]
  steps:
  - create: [pod: {name: p}]
  - expect: {pod: p, bound_to: a}
"""


def _compared(tmp_path: Path, text: str, b: str, a: str = "ours") -> Compared:
    sides = [_side(side) for side in (a, b)]
    (case,) = write_cases(tmp_path, text)
    (compared,) = compare_all([case], *sides, seed=0, timeout_seconds=60.0)
    return compared


def _side(text: str) -> Side:
    return side_of(text, option="--a", base=TargetOptions())


def _reference(function: object) -> str:
    return f"{function.__module__}:{function.__name__}"  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "scheduler", "step", "pod", "aspect"),
    [
        (GPU, schedulers.binds_all_to_a, "steps[0]", "default/g-1", "placement"),
        (TAINT, schedulers.binds_all_to_a, "steps[0]", "default/p", "placement"),
        (PREEMPTION, wrong_schedulers.never_preempts, "steps[0]", "default/high", "preemption"),
        (PLAIN, wrong_schedulers.asks_twice, "", "default/p", "requests"),
    ],
    ids=["a GPU that is taken", "a taint", "a preemption", "a second request"],
)
def test_pods_that_end_alike_may_have_been_decided_differently(
    tmp_path: Path, text: str, scheduler: object, step: str, pod: str, aspect: str
) -> None:
    comparison = _compared(tmp_path, text, _reference(scheduler)).comparison
    first = comparison.first_divergence
    assert first is not None, comparison.differences
    assert (first.pod, first.aspect, first.step) == (pod, aspect, step)
    assert comparison.verdict is Verdict.DIFFERS
    ends = [
        {record.key: record.node for record in seen.pods} for seen in (comparison.a, comparison.b)
    ]
    assert ends[0] == ends[1]


def test_a_scenario_that_breaks_off_on_both_sides_is_not_the_same(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "  - expect", "  - patch: {pod: p, patch: {spec: {nodeName: b}}}\n  - expect"
    )
    comparison = _compared(tmp_path, text, "ours").comparison
    assert comparison.verdict is Verdict.SKIPPED
    assert comparison.skipped.startswith("both: steps[1]: PATCH ")


SCHEDULED = Answer(result="scheduled", best=("a",), total={"a": 1}, scores={"a": {}})
FULL = Answer(result="unschedulable", message="0/1 nodes are available: 1 Insufficient cpu.")


@pytest.mark.parametrize(
    ("waits", "binds", "in_real_time", "delay_seconds", "verdict"),
    [
        (SCHEDULED, SCHEDULED, False, None, Verdict.DIFFERS),
        (SCHEDULED, SCHEDULED, True, 11.0, Verdict.TIMING),
        (SCHEDULED, SCHEDULED, True, 300.0, Verdict.DIFFERS),
        (FULL, SCHEDULED, True, None, Verdict.TIMING),
        (FULL, SCHEDULED, False, None, Verdict.PERHAPS),
        (FULL, FULL, True, None, Verdict.DIFFERS),
    ],
    ids=[
        "it is left waiting",
        "it is bound after a backoff",
        "it is bound too late",
        "the clusters differ, in real time",
        "the clusters differ",
        "the other side binds it wrongly",
    ],
)
def test_a_pod_that_waits_on_one_side_is_decided_at_the_end_of_the_step(
    tmp_path: Path,
    waits: Answer,
    binds: Answer,
    in_real_time: bool,
    delay_seconds: float | None,
    verdict: Verdict,
) -> None:
    (case,) = write_cases(tmp_path, PLAIN)
    side = _side("ours")
    seen = observe(case, side.kind)
    run = Run(seen, case, is_exact=True)
    life = run.lives["default/p"]
    assert life.bound is not None
    waiting = dataclasses.replace(life.bound, node="", is_waiting=True)
    difference = Difference(
        pod="default/p",
        aspect="placement",
        a=life.bound,
        b=waiting,
        delay_seconds=delay_seconds,
    )
    other = dataclasses.replace(seen, in_real_time=in_real_time, end_seconds=60.0)
    comparison = Comparison(case=case, a=seen, b=other, differences=[difference])
    questions = questions_of(comparison, side, side)
    judge(comparison, questions, [binds, binds, waits, waits])
    assert comparison.verdict is verdict


def test_more_victims_than_needed_are_no_chance(tmp_path: Path) -> None:
    (case,) = write_cases(tmp_path, PREEMPTION)
    side = _side("ours")
    seen = observe(case, side.kind)
    (nomination,) = Run(seen, case, is_exact=True).lives["default/high"].nominations
    assert nomination.victims == ("default/low",)
    eager = dataclasses.replace(nomination, victims=("default/low", "default/other"))
    difference = Difference(pod="default/high", aspect="preemption", a=nomination, b=eager)
    comparison = Comparison(case=case, a=seen, b=seen, differences=[difference])
    questions = questions_of(comparison, side, side)
    answers = asyncio.run(answers_to(questions))
    judge(comparison, questions, answers.answers)
    assert comparison.verdict is Verdict.DIFFERS
    comparison.differences[0] = dataclasses.replace(difference, b=nomination)
    judge(comparison, questions, answers.answers)
    assert comparison.verdict is not Verdict.DIFFERS
