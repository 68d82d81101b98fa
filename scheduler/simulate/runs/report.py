"""The results of runs: a table over policies and seeds as CSV, JSON and a page."""

from __future__ import annotations

import csv
import html
import statistics
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from scheduler.simulate.study.results import can_plot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from scheduler.simulate.runs.one_run import RunResults

_STYLE: Final = (
    "body{font:14px system-ui;margin:2em auto;max-width:70em}td,th{padding:.2em .8em;"
    "text-align:right}th:first-child,td:first-child{text-align:left}svg{max-width:34em}"
)


class Statistic(NamedTuple):
    """Mean and standard deviation over the seeds."""

    mean: float
    sd: float


def statistics_of(runs: Mapping[str, Sequence[RunResults]]) -> dict[str, dict[str, Statistic]]:
    """Return the numbers of each policy by metric."""
    table: dict[str, dict[str, Statistic]] = {}
    for policy, of_seeds in runs.items():
        names = dict.fromkeys(name for run in of_seeds for name in run.measures.numbers)
        table[policy] = {}
        for name in names:
            values = [run.measures.numbers.get(name, 0.0) for run in of_seeds]
            deviation = statistics.stdev(values) if len(values) > 1 else 0.0
            table[policy][name] = Statistic(statistics.fmean(values), deviation)
    return table


def write_csv(path: Path, runs: Mapping[str, Sequence[RunResults]]) -> None:
    """Write a row for each policy and metric."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("policy", "metric", "seeds", "mean", "sd"))
        for policy, numbers in statistics_of(runs).items():
            for name, (mean, sd) in numbers.items():
                writer.writerow((policy, name, len(runs[policy]), round(mean, 4), round(sd, 4)))


def write_json(path: Path, runs: Mapping[str, Sequence[RunResults]]) -> None:
    """Write everything: the numbers, samples, unschedulable pods and differences of all runs."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(runs), indent=1))


def write_page(path: Path, runs: Mapping[str, Sequence[RunResults]], *, title: str) -> None:
    """Write a page of HTML: a table of all metrics, and curves if they can be plotted."""
    table = statistics_of(runs)
    metrics = list(dict.fromkeys(name for numbers in table.values() for name in numbers))
    head = "".join(f"<th>{html.escape(policy)}</th>" for policy in table)
    rows = []
    for metric in metrics:
        cells = (table[policy].get(metric) for policy in table)
        texts = ("" if c is None else f"{c.mean:,.2f} ± {c.sd:,.2f}" for c in cells)
        cells_html = "".join(f"<td>{text}</td>" for text in texts)
        rows.append(f"<tr><td>{html.escape(metric)}</td>{cells_html}</tr>")
    body = f"<h1>{html.escape(title)}</h1><table><tr><th></th>{head}</tr>{''.join(rows)}</table>"
    if can_plot():
        body += _plots(runs)
    body += _unschedulable(runs)
    page = f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title>"
    path.write_text(f"{page}<style>{_STYLE}</style>{body}\n", encoding="utf-8")


def _unschedulable(runs: Mapping[str, Sequence[RunResults]]) -> str:
    rows = [
        f"<tr><td>{html.escape(f'{policy}: {shape}')}</td><td>{html.escape(reason)}</td>"
        f"<td>{number}</td></tr>"
        for policy, of_seeds in runs.items()
        for shape, reason, number in of_seeds[0].measures.unschedulable[:20]
    ]
    return f"<h2>Pods without a node, first seed</h2><table>{''.join(rows)}</table>" if rows else ""


def _plots(runs: Mapping[str, Sequence[RunResults]]) -> str:
    """Return curves over the arrived load, of the first seed."""
    import pygal  # an extra

    pictures = []
    for field, title in (
        ("allocated_percent", "allocated, %"),
        ("fragmented_percent", "fragmented, %"),
        ("waiting", "waiting pods"),
    ):
        chart = pygal.XY(
            title=title,
            x_title="arrived load, %",
            show_dots=False,
            js=(),
            disable_xml_declaration=True,
        )
        for policy, of_seeds in runs.items():
            samples = of_seeds[0].measures.samples
            chart.add(policy, [(s.arrived_percent, getattr(s, field)) for s in samples])
        pictures.append(chart.render(is_unicode=True))
    return "".join(pictures)
