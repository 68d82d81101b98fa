"""Run scenarios through both sides, and judge the differences."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..judge.referee import answers_to
from ..outcome import Verdict as Ending
from ..run.observation import observe
from .comparison import Comparison, compare, judge, questions_of
from .quality import Quality, quality_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..format.case import Case
    from .sides import Side


@dataclass(slots=True, kw_only=True)
class Compared:
    """One scenario: the comparison, and the quality of both runs."""

    comparison: Comparison
    a: Quality
    b: Quality
    #: Why the referee gave no answer, if it gave none to some question.
    referee_problem: str = ""


def compare_all(
    cases: Iterable[Case],
    a: Side,
    b: Side,
    *,
    seed: int,
    timeout_seconds: float,
) -> Iterator[Compared]:
    """Compare both sides in all scenarios, one after another. `timeout_seconds` is real time."""
    for case in cases:
        yield _compared(case, a, b, seed, timeout_seconds)


def _compared(case: Case, a: Side, b: Side, seed: int, timeout_seconds: float) -> Compared:
    runs = []
    for side in (a, b):
        adapted = side.adapted(case)
        seen = observe(
            adapted, side.kind, seed=seed, timeout_seconds=timeout_seconds, explains=True
        )
        runs.append(seen)
        if seen.outcome.verdict is Ending.SKIPPED:
            return Compared(comparison=compare(case, seen, seen), a=Quality(), b=Quality())
    comparison = compare(case, *runs)
    problem = ""
    if comparison.differences:
        questions = questions_of(comparison, a, b)
        answers = asyncio.run(answers_to(questions))
        judge(comparison, questions, answers.answers)
        problem = answers.problem
    return Compared(
        comparison=comparison, a=quality_of(runs[0]), b=quality_of(runs[1]), referee_problem=problem
    )
