"""The report of a comparison: one table of all scenarios, the first divergence, the quality."""

from __future__ import annotations

import collections
import math
from typing import TYPE_CHECKING, Final

import msgspec
from rich.table import Table

from .comparison import Verdict
from .quality import MEASURES, mean_quality

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ..api import Json
    from .comparison import Comparison, Difference
    from .run import Compared

_ROWS_MAX: Final = 50
_STORY_LINES_MAX: Final = 12


def print_report(compared: Sequence[Compared], labels: tuple[str, str], console: Console) -> None:
    """Print the tables, and the first divergence with both explanations."""
    console.print(_scenario_table(compared, labels))
    divergent = next((result.comparison for result in compared if result.comparison.problem), None)
    for result in compared:
        first = result.comparison.first_divergence
        if first is not None:
            _print_difference(result.comparison, first, labels, console)
            break
    else:
        if divergent is not None:
            _print(console, f"{divergent.case.id}: {divergent.problem}")
    console.print(_quality_table(compared, labels))
    for problem in dict.fromkeys(result.referee_problem for result in compared):
        if problem:
            _print(console, f"kubesched-explain gives no answer to some questions: {problem}")
    _print(console, summary(compared))


def summary(compared: Sequence[Compared]) -> str:
    """Return the number of scenarios by verdict as one line."""
    counts = collections.Counter(result.comparison.verdict for result in compared)
    listed = [f"{counts[verdict]} {_WORDS[verdict]}" for verdict in Verdict if counts[verdict]]
    return f"{len(compared)} scenarios: {', '.join(listed)}"


_WORDS: Final = {
    Verdict.SAME: "the same",
    Verdict.CHANCE: "the same but for chance between equally good nodes",
    Verdict.TIMING: "the same at another time",
    Verdict.SKIPPED: "skipped",
    Verdict.PERHAPS: "different, perhaps by chance",
    Verdict.DIFFERS: "different",
}


def to_json(compared: Sequence[Compared], labels: tuple[str, str]) -> Json:
    """Return the whole report for machines."""
    verdicts = collections.Counter(result.comparison.verdict.value for result in compared)
    return {
        "a": labels[0],
        "b": labels[1],
        "verdicts": dict(verdicts),
        "scenarios": [_scenario_json(result) for result in compared],
        "quality": {
            "a": msgspec.to_builtins(mean_quality([result.a for result in compared])),
            "b": msgspec.to_builtins(mean_quality([result.b for result in compared])),
        },
    }


def _scenario_json(result: Compared) -> Json:
    comparison = result.comparison
    scenario: Json = {
        "scenario": comparison.case.id,
        "verdict": comparison.verdict.value,
        "differences": [_difference_json(one) for one in comparison.differences],
        "quality": {"a": msgspec.to_builtins(result.a), "b": msgspec.to_builtins(result.b)},
    }
    reason = comparison.skipped or comparison.problem
    return {**scenario, "reason": reason} if reason else scenario


def _difference_json(one: Difference) -> Json:
    return {
        "pod": one.pod,
        "aspect": one.aspect,
        "step": one.step,
        "verdict": one.verdict.value,
        "a": str(one.a),
        "b": str(one.b),
        "seconds": {"a": one.a.seconds, "b": one.b.seconds},
        "explanation": one.lines,
        "stories": {"a": one.story_a, "b": one.story_b},
    }


def _scenario_table(compared: Sequence[Compared], labels: tuple[str, str]) -> Table:
    shown = [result for result in compared if result.comparison.verdict is not Verdict.SAME]
    shown.sort(key=lambda result: not result.comparison.verdict.is_divergence)
    more = f", the first {_ROWS_MAX} of {len(shown)}" if len(shown) > _ROWS_MAX else ""
    table = Table(title=f"Scenarios that are not the same{more}")
    for heading in ("scenario", "verdict", "pod"):
        table.add_column(heading, overflow="fold")
    for letter, label in zip("AB", labels, strict=True):
        table.add_column(f"{letter}: {label}", overflow="fold")
    for result in shown[:_ROWS_MAX]:
        comparison = result.comparison
        first = comparison.first_divergence or next(iter(comparison.differences), None)
        reason = comparison.skipped or comparison.problem
        cells = ("", reason, "") if first is None else (first.pod, str(first.a), str(first.b))
        table.add_row(comparison.case.id, comparison.verdict.value, *cells)
    return table


def _quality_table(compared: Sequence[Compared], labels: tuple[str, str]) -> Table:
    ran = [result for result in compared if not result.comparison.skipped]
    a, b = mean_quality([result.a for result in ran]), mean_quality([result.b for result in ran])
    table = Table(title=f"Quality of the placements, {len(ran)} scenarios")
    table.add_column("measure")
    for letter, label in zip("AB", labels, strict=True):
        table.add_column(f"{letter}: {label}", justify="right", overflow="fold")
    table.add_column("B - A", justify="right")
    for name, (text, _) in MEASURES.items():
        left, right = float(getattr(a, name)), float(getattr(b, name))
        table.add_row(text, _number(left), _number(right), _number(right - left, signed=True))
    return table


def _print_difference(
    comparison: Comparison, first: Difference, labels: tuple[str, str], console: Console
) -> None:
    """Print the first divergence, with each side's explanation."""
    place = f", {first.step}" if first.step else ""
    what = f"{comparison.case.id}, pod {first.pod}, {first.aspect}{place}"
    _print(console, f"\nFirst divergence: {what}")
    sides = (("A", labels[0], first.a, first.story_a), ("B", labels[1], first.b, first.story_b))
    for letter, label, decision, story in sides:
        _print(console, f"{letter} ({label}): {decision}")
        for line in story[-_STORY_LINES_MAX:]:
            _print(console, f"    {line}")
    if first.lines:
        _print(console, "As kubesched-explain decides it:")
    for line in first.lines:
        _print(console, f"    {line}")


def _print(console: Console, line: str) -> None:
    console.print(line, markup=False, soft_wrap=True)


def _number(value: float, *, signed: bool = False) -> str:
    if math.isnan(value):
        return "not seen"
    rounded = round(value, 1) + 0.0
    return f"{rounded:+g}" if signed and rounded else f"{rounded:g}"
