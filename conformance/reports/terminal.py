"""Print the progress while cases run, then a table, the failures with reasons, and a summary."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..outcome import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from ..format.case import Case
    from ..outcome import Outcome

__all__ = ["failure_lines", "print_case_list", "print_report", "progress"]

_STYLES: Final = {
    Verdict.PASSED: "green",
    Verdict.FAILED: "red",
    Verdict.ERROR: "red",
    Verdict.SKIPPED: "yellow",
}
_LOG_LINES_SHOWN: Final = 15


def print_case_list(cases: Sequence[Case], console: Console) -> None:
    """Print name, area and source of each case, one per line."""
    rows = [("NAME", "AREA", "SOURCE"), *((case.name, case.area, case.source) for case in cases)]
    name_width, area_width = (max(len(row[column]) for row in rows) for column in (0, 1))
    for name, area, source in rows:
        line = f"{name:{name_width}}  {area:{area_width}}  {source}"
        console.print(Text(line), soft_wrap=True)


@contextlib.contextmanager
def progress(total: int, console: Console) -> Iterator[Callable[[Outcome], None]]:
    """Return a progress bar on a terminal, and nothing elsewhere."""
    bar = Progress(
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    bad = 0
    with bar:
        task = bar.add_task("running", total=total)

        def advance(outcome: Outcome) -> None:
            nonlocal bad
            bad += outcome.is_bad
            failed = f", [red]{bad} failed[/red]" if bad else ""
            bar.update(task, advance=1, description=f"{outcome.area}{failed}")

        yield advance


def print_report(outcomes: Sequence[Outcome], console: Console, *, seconds: float) -> None:
    """Print the table, the reason of each failed and skipped case, and the summary."""
    console.print(_table(outcomes))
    for outcome in outcomes:
        if outcome.is_bad:
            _print_failure(outcome, console)
    _print_skipped(outcomes, console)
    _print_summary(outcomes, console, seconds)


def _table(outcomes: Sequence[Outcome]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("area")
    for heading in ("passed", "failed", "skipped", "seconds"):
        table.add_column(heading, justify="right")
    by_area: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_area.setdefault(outcome.area, []).append(outcome)
    for area, members in by_area.items():
        table.add_row(area, *_cells(members))
    table.add_section()
    table.add_row("all", *_cells(outcomes))
    return table


def _cells(outcomes: Sequence[Outcome]) -> list[Text]:
    verdicts = [outcome.verdict for outcome in outcomes]
    bad = sum(1 for outcome in outcomes if outcome.is_bad)
    counts = (
        (verdicts.count(Verdict.PASSED), "green"),
        (bad, "bold red"),
        (verdicts.count(Verdict.SKIPPED), "yellow"),
    )
    cells = [Text(str(count), style=style if count else "dim") for count, style in counts]
    return [*cells, Text(f"{sum(outcome.seconds for outcome in outcomes):.2f}")]


def failure_lines(outcome: Outcome) -> list[str]:
    """Return a failure's reason, the actual state, and the scheduler's last lines."""
    lines = [f"  {outcome.reason}", *(f"    {line}" for line in outcome.details)]
    if outcome.log:
        lines.append("    the scheduler's last lines:")
        lines += [f"      {line}" for line in outcome.log[-_LOG_LINES_SHOWN:]]
    return [*lines, f"  source: {outcome.source}", f"  case: {outcome.origin}", ""]


def _print_failure(outcome: Outcome, console: Console) -> None:
    word = "FAILED" if outcome.verdict is Verdict.FAILED else "ERROR"
    console.print(Text.assemble((word, "bold red"), " ", (outcome.id, "bold")))
    _print_lines(failure_lines(outcome), "", console)


def _print_lines(lines: Sequence[str], indent: str, console: Console) -> None:
    for line in lines:
        console.print(Text(f"{indent}{line}" if line else ""), soft_wrap=True)


def _print_skipped(outcomes: Sequence[Outcome], console: Console) -> None:
    reasons: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.verdict is Verdict.SKIPPED:
            reasons[outcome.reason] = reasons.get(outcome.reason, 0) + 1
    for reason, count in reasons.items():
        _print_lines([f"skipped {count}: {reason}"], "", console)


def _print_summary(outcomes: Sequence[Outcome], console: Console, seconds: float) -> None:
    verdicts = [outcome.verdict for outcome in outcomes]
    parts = [
        Text(f"{count} {verdict.value}", style=_STYLES[verdict])
        for verdict in Verdict
        if (count := verdicts.count(verdict))
    ]
    line = Text(", ").join(parts) if parts else Text("no case was run", style="red")
    console.print(Text.assemble(line, f" in {seconds:.1f}s"))
