"""Print the progress while cases run, then a table, the failures with reasons, and a summary."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..outcome import Aspect, Level, Verdict, by_area, skip_reasons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..format.case import Case
    from ..outcome import Outcome

_STYLES: Final = {
    Verdict.PASSED: "green",
    Verdict.FAILED: "red",
    Verdict.ERROR: "red",
    Verdict.KNOWN: "yellow",
    Verdict.SKIPPED: "yellow",
}
_WORDS: Final = {Verdict.FAILED: "FAILED", Verdict.ERROR: "ERROR"}
_LOG_LINES_SHOWN: Final = 15
#: Failures that are shown with details, and failures that are listed, at most.
_DETAILED_MAX: Final = 5
_LISTED_MAX: Final = 40
#: Lines of progress where there is no terminal: one after each such part of the cases.
_PROGRESS_PARTS: Final = 10


def output_console() -> Console:
    """Return a console for standard output: as wide as the terminal, or 200 columns without one."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=200)


def print_case_list(cases: Sequence[Case], console: Console) -> None:
    """Print id, level and source of each case in a line, and the description below.

    The level of an extended case is its feature.
    """
    rows = [("CASE", "LEVEL", "SOURCE")]
    rows += [(case.id, case.feature or case.level.value, case.source) for case in cases]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for row, description in zip(rows, ["", *(case.description for case in cases)], strict=True):
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)]
        console.print(Text("  ".join([*cells, row[-1]])), soft_wrap=True)
        if description:
            console.print(Text(f"    {description}", style="dim"), soft_wrap=True)


def progress_bar(console: Console, *, refreshes_per_second: float = 10) -> Progress:
    """Return bars that are shown on a terminal only."""
    return Progress(
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        refresh_per_second=refreshes_per_second,
        transient=True,
        disable=not console.is_terminal,
    )


@contextlib.contextmanager
def progress(total: int, console: Console) -> Iterator[Callable[[Outcome], None]]:
    """Return a progress bar on a terminal; elsewhere lines, one after each tenth of the cases."""
    if not console.is_terminal:
        yield _progress_lines(total, console)
        return
    bad = 0
    with progress_bar(console) as bar:
        task = bar.add_task("running", total=total)

        def advance(outcome: Outcome) -> None:
            nonlocal bad
            bad += outcome.is_bad
            failed = f", [red]{bad} failed[/red]" if bad else ""
            bar.update(task, advance=1, description=f"{outcome.area}{failed}")

        yield advance


def _progress_lines(total: int, console: Console) -> Callable[[Outcome], None]:
    """Return a function that prints the first failures at once, and the numbers now and then."""
    done, bad, step = 0, 0, max(1, -(-total // _PROGRESS_PARTS))

    def advance(outcome: Outcome) -> None:
        nonlocal done, bad
        done, bad = done + 1, bad + outcome.is_bad
        if outcome.is_bad and bad <= _DETAILED_MAX:
            console.print(Text(_failure_line(outcome)), soft_wrap=True)
        if done % step == 0 or done == total:
            console.print(Text(f"{done} of {total} cases, {bad} failed"), soft_wrap=True)

    return advance


def print_report(
    outcomes: Sequence[Outcome], console: Console, *, seconds: float, slowest: int = 0
) -> None:
    """Print the first failures with details, the table, all failures in short, and the summary.

    `slowest` is the number of cases to list that took longest.
    """
    bad = [outcome for outcome in outcomes if outcome.is_bad]
    for outcome in bad[:_DETAILED_MAX]:
        _print_failure(outcome, console)
    console.print(_table(outcomes))
    _print_slowest(outcomes, slowest, console)
    _print_skipped(outcomes, console)
    for outcome in outcomes:
        if outcome.is_flaky and not outcome.is_bad:
            _print_lines([f"flaky {outcome.id}: {outcome.reason}"], "", console)
    _print_lines([_failure_line(outcome) for outcome in bad[:_LISTED_MAX]], "", console)
    if len(bad) > _LISTED_MAX:
        left = len(bad) - _LISTED_MAX
        _print_lines([f"and {left} more failures; a report (--junit) has all"], "", console)
    _print_summary(outcomes, console, seconds)


def _table(outcomes: Sequence[Outcome]) -> Table:
    """Return the numbers of cases by area and verdict, and of passed cases by aspect."""
    aspects = [
        aspect for aspect in Aspect if any(aspect in outcome.aspects for outcome in outcomes)
    ]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("area")
    for heading in ("passed", "failed", "skipped", *(each.value for each in aspects), "seconds"):
        table.add_column(heading, justify="right")
    for area, members in by_area(outcomes).items():
        table.add_row(area, *_cells(members, aspects))
    table.add_section()
    for level in Level:
        members = [outcome for outcome in outcomes if outcome.level is level]
        if 0 < len(members) < len(outcomes):
            table.add_row(level.value, *_cells(members, aspects))
    table.add_row("all", *_cells(outcomes, aspects))
    return table


def _cells(outcomes: Sequence[Outcome], aspects: Sequence[Aspect]) -> list[Text]:
    verdicts = [outcome.verdict for outcome in outcomes]
    counts = (
        (verdicts.count(Verdict.PASSED), "green"),
        (sum(1 for outcome in outcomes if outcome.is_bad), "bold red"),
        (verdicts.count(Verdict.SKIPPED) + verdicts.count(Verdict.KNOWN), "yellow"),
    )
    cells = [Text(str(count), style=style if count else "dim") for count, style in counts]
    cells += [_aspect_cell(outcomes, aspect) for aspect in aspects]
    return [*cells, Text(f"{sum(outcome.seconds for outcome in outcomes):.2f}")]


def _aspect_cell(outcomes: Sequence[Outcome], aspect: Aspect) -> Text:
    """Return `PASSED/JUDGED`; cases that ended before the aspect was judged have not passed."""
    verdicts = [outcome.aspects[aspect] for outcome in outcomes if aspect in outcome.aspects]
    passed = verdicts.count(Verdict.PASSED)
    if not verdicts:
        return Text("-", style="dim")
    return Text(f"{passed}/{len(verdicts)}", style="dim" if passed == len(verdicts) else "red")


def failure_lines(outcome: Outcome) -> list[str]:
    """Return a failure's reason, the actual state, and the scheduler's last lines."""
    lines = [f"  {outcome.reason}", *(f"    {line}" for line in outcome.details)]
    if outcome.log:
        lines.append("    the scheduler's last lines:")
        lines += [f"      {line}" for line in outcome.log[-_LOG_LINES_SHOWN:]]
    if outcome.description:
        lines.append(f"  description: {outcome.description}")
    lines += [f"  source: {outcome.source}", f"  case: {outcome.place}"]
    if outcome.step_place:
        lines.append(f"  step: {outcome.step_place}")
    return [*lines, ""]


def _failure_line(outcome: Outcome) -> str:
    return f"{_WORDS[outcome.verdict]} {outcome.id}: {outcome.reason}"


def _print_failure(outcome: Outcome, console: Console) -> None:
    word = _WORDS[outcome.verdict]
    console.print(Text.assemble((word, "bold red"), " ", (outcome.id, "bold")))
    _print_lines(failure_lines(outcome), "", console)


def _print_lines(lines: Sequence[str], indent: str, console: Console) -> None:
    for line in lines:
        console.print(Text(f"{indent}{line}" if line else ""), soft_wrap=True)


def _print_slowest(outcomes: Sequence[Outcome], count: int, console: Console) -> None:
    for outcome in sorted(outcomes, key=lambda each: -each.seconds)[:count]:
        _print_lines([f"{outcome.seconds:8.2f}s {outcome.id}"], "", console)


def _print_skipped(outcomes: Sequence[Outcome], console: Console) -> None:
    for reason, count in skip_reasons(outcomes).items():
        _print_lines([f"skipped {count}: {reason}"], "", console)


def _print_summary(outcomes: Sequence[Outcome], console: Console, seconds: float) -> None:
    verdicts = [outcome.verdict for outcome in outcomes]
    names = {verdict: verdict.value for verdict in Verdict} | {Verdict.KNOWN: "known to fail"}
    parts = [
        Text(f"{count} {names[verdict]}", style=_STYLES[verdict])
        for verdict in Verdict
        if (count := verdicts.count(verdict))
    ]
    flaky = sum(1 for outcome in outcomes if outcome.is_flaky)
    if flaky:
        parts.append(Text(f"{flaky} flaky", style="yellow"))
    line = Text(", ").join(parts) if parts else Text("no case was run", style="red")
    console.print(Text.assemble(line, f" in {seconds:.1f}s"))
