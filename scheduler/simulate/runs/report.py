"""The results of runs over seeds: tables as CSV, curves, and a page with both."""

from __future__ import annotations

import csv
import html
import importlib.util
import statistics
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from scheduler.simulate.runs.one_run import RunResults

_STYLE: Final = (
    "body{font:14px system-ui;margin:2em auto;max-width:70em}td,th{padding:.2em .8em;"
    "text-align:right}th:first-child,td:first-child{text-align:left}svg{max-width:34em}"
)
#: The fields of samples that are drawn as curves.
_CURVES: Final = {
    "allocated_percent": "allocated, %",
    "fragmented_percent": "fragmented, %",
    "waiting": "waiting pods",
}
_UNSCHEDULABLE_SHOWN: Final = 20


class Statistic(NamedTuple):
    """Mean and standard deviation over the seeds."""

    mean: float
    sd: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Statistic:
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        return cls(statistics.fmean(values), deviation)


def statistics_of(
    runs: Mapping[str, Sequence[RunResults]],
) -> dict[str, dict[str, Statistic]]:
    """Return the numbers of each policy by metric."""
    table: dict[str, dict[str, Statistic]] = {}
    for policy, of_seeds in runs.items():
        numbers = [run.measures.numbers for run in of_seeds]
        names = dict.fromkeys(name for of_seed in numbers for name in of_seed)
        table[policy] = {n: Statistic.of([each.get(n, 0.0) for each in numbers]) for n in names}
    return table


def rows_of(
    table: Mapping[str, Mapping[str, Statistic]], text: str
) -> Iterable[tuple[str, list[str]]]:
    """Return the metrics with a cell for each policy; `text` is a format for a `Statistic`."""
    for metric in dict.fromkeys(name for numbers in table.values() for name in numbers):
        cells = (table[policy].get(metric) for policy in table)
        yield metric, ["" if c is None else text.format(c) for c in cells]


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def can_plot() -> bool:
    """Return True if the package for plots is installed (the extra `replay`)."""
    return importlib.util.find_spec("pygal") is not None


def chart(title: str, x_title: str, lines: Mapping[str, Iterable[tuple[float, float]]]) -> str:
    """Return a picture (SVG) with a line through the points of each name."""
    import pygal  # an extra

    found = pygal.XY(
        title=title, x_title=x_title, show_dots=False, js=(), disable_xml_declaration=True
    )
    for name, points in lines.items():
        found.add(name, [*points])
    picture: str = found.render(is_unicode=True)
    return picture


def write_page(path: Path, runs: Mapping[str, Sequence[RunResults]], *, title: str) -> None:
    """Write a page of HTML: all metrics, and curves and pods without a node of the first seed.

    There are no curves without the package for plots.
    """
    table = statistics_of(runs)
    first = {policy: found[0].measures for policy, found in runs.items()}
    rows = rows_of(table, "{0.mean:,.2f} ± {0.sd:,.2f}")
    body = f"<h1>{html.escape(title)}</h1>"
    body += _table(["", *table], ([metric, *cells] for metric, cells in rows))
    for field, name in _CURVES.items() if can_plot() else ():
        lines = {
            policy: [(s.arrived_percent, getattr(s, field)) for s in measures.samples]
            for policy, measures in first.items()
        }
        body += chart(name, "arrived load, %", lines)
    waiting = [
        (f"{policy}: {shape}", reason, str(number))
        for policy, measures in first.items()
        for shape, reason, number in measures.unschedulable[:_UNSCHEDULABLE_SHOWN]
    ]
    if waiting:
        body += f"<h2>Pods without a node, first seed</h2>{_table((), waiting)}"
    page = f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title>"
    path.write_text(f"{page}<style>{_STYLE}</style>{body}\n", encoding="utf-8")


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["".join(f"<th>{html.escape(text)}</th>" for text in header)]
    lines += ["".join(f"<td>{html.escape(text)}</td>" for text in row) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
