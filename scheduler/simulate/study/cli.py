"""The command `kubesched-simulate study`."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import click
import msgspec
import numpy as np

from scheduler.explain.source import one_line_errors
from scheduler.simulate.history.openb import read_nodes, read_pods
from scheduler.simulate.runs.campaign import Campaign, campaign_options, carry_out
from scheduler.simulate.runs.report import Statistic, can_plot, chart, write_csv
from scheduler.simulate.study.fgd import LOAD_PERCENT_MAX, POLICIES, Trace, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_NODES: Final = "openb_node_list_gpu_node.csv"
_PODS: Final = "openb_pod_list_"
_COLUMNS: Final = ("trace", "policy", "metric", "arrived_gpu_load_percent", "seeds", "mean", "sd")
#: The metrics, all in percent.
_TITLES: Final = {
    "allo": "allocated GPUs, % of all",
    "frag": "fragmented idle GPUs, % of all",
    "frag_ratio": "fragmented GPUs, % of the idle ones",
}
#: By trace, policy and metric, a curve for each seed: the values by load in whole percent.
_Curves: TypeAlias = dict[tuple[str, str, str], list[list[float | None]]]


class StudyTask(msgspec.Struct, frozen=True):
    """One run: a policy on a trace of a directory."""

    directory: str
    trace: str
    policy: str
    seed: int


@click.group()
def study() -> None:
    """Repeat published studies."""


@study.command()
@click.option(
    "--data",
    required=True,
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help=f"The directory of the traces: {_NODES} and {_PODS}NAME.csv, also as .csv.gz.",
)
@click.option("--trace", "traces", multiple=True, metavar="NAME", help="By default all.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help=f"By default all: {', '.join(POLICIES)}. The number may be left out.",
)
@click.option("--seed", metavar="N", type=int, help="The only seed, by default 1.")
@click.option("--seeds", metavar="N", type=click.IntRange(min=1), help="The seeds 1 to N.")
@campaign_options
def fgd(
    *,
    data: Path,
    traces: Sequence[str],
    policies: Sequence[str],
    seed: int | None,
    seeds: int | None,
    campaign: Campaign,
) -> None:
    """Compare policies for shared GPUs by fragmentation (USENIX ATC 2023).

    Ctrl-C keeps the runs that have ended; results.csv is then that of these runs.
    """
    if seed is not None and seeds is not None:
        raise click.UsageError("--seed and --seeds: expected one of them")
    for trace in traces:
        _file_of(data, trace)
    numbers = range(1, seeds + 1) if seeds is not None else [1 if seed is None else seed]
    tasks = {
        f"{trace} {policy} seed {number}": StudyTask(str(data.absolute()), trace, policy, number)
        for number in numbers
        for trace in traces or _all_traces(data)
        for policy in _policies(policies)
    }
    with one_line_errors("kubesched-simulate"):
        results = carry_out(carry_out_run, tasks, campaign, dict[str, list[float | None]])
    curves: _Curves = {}
    for name in sorted(results, key=lambda each: (tasks[each].trace, tasks[each].policy)):
        for metric, values in results[name].items():
            key = (tasks[name].trace, tasks[name].policy, metric)
            curves.setdefault(key, []).append(values)
    write_csv(campaign.output / "results.csv", _COLUMNS, _rows(curves))
    if can_plot():
        _write_plots(campaign.output, curves)
    else:
        click.echo("no plots: pip install 'kubesched[replay]'", err=True)
    click.echo(f"{len(results)} of {len(tasks)} runs in {campaign.output / 'results.csv'}")
    if len(results) < len(tasks):
        raise SystemExit(130)


def _all_traces(data: Path) -> list[str]:
    names = {path.name.split(".")[0].removeprefix(_PODS) for path in data.glob(f"{_PODS}*.csv*")}
    if not names:
        raise click.UsageError(f"--data: {data} has no {_PODS}NAME.csv")
    return sorted(names)


def _policies(names: Iterable[str]) -> list[str]:
    """Return policies by their names, with or without the number."""
    found = []
    for name in names or POLICIES:
        known = next((p for p in POLICIES if name in (p, p.partition("-")[2])), None)
        if known is None:
            raise click.UsageError(f"--policy: expected one of {', '.join(POLICIES)}, got {name!r}")
        found.append(known)
    return found


def _file_of(data: Path, trace: str) -> Path:
    for suffix in (".csv", ".csv.gz"):
        if (path := data / f"{_PODS}{trace}{suffix}").exists():
            return path
    raise click.UsageError(f"--trace: {data} has no {_PODS}{trace}.csv")


@functools.lru_cache(maxsize=4)
def _read_trace(directory: str, name: str) -> Trace:
    data = Path(directory)
    return Trace(name, read_nodes(data / _NODES), read_pods(_file_of(data, name)))


def carry_out_run(task: bytes, on_progress: Callable[[float], None] = lambda _: None) -> bytes:
    """Carry out one run; task and result are JSON."""
    wanted = msgspec.json.decode(task, type=StudyTask)
    trace = _read_trace(wanted.directory, wanted.trace)
    work = run(trace, wanted.policy, seed=wanted.seed, on_progress=on_progress)
    curves = asyncio.run(work)
    rounded = {name: np.round(values, 4).tolist() for name, values in curves._asdict().items()}
    return msgspec.json.encode(rounded)


def _at(curves: Iterable[Sequence[float | None]], load: int) -> Statistic | None:
    """Return mean and deviation over the seeds that have a value at a load."""
    values = [value for curve in curves if (value := curve[load]) is not None]
    return Statistic.of(values) if values else None


def _rows(curves: _Curves) -> Iterator[tuple[object, ...]]:
    """Yield mean and standard deviation over the seeds, at every tenth percent of load."""
    for key, of_seeds in curves.items():
        for load in range(0, LOAD_PERCENT_MAX + 1, 10):
            if (found := _at(of_seeds, load)) is not None:
                seeds = sum(curve[load] is not None for curve in of_seeds)
                yield (*key, load, seeds, round(found.mean, 3), round(found.sd, 3))


def _write_plots(directory: Path, curves: _Curves) -> None:
    """Write an SVG for each trace and metric: a line for each policy, the mean over the seeds."""
    charts: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for (trace, policy, metric), of_seeds in curves.items():
        means = ((load, _at(of_seeds, load)) for load in range(LOAD_PERCENT_MAX + 1))
        points = [(float(load), round(found.mean, 3)) for load, found in means if found]
        charts.setdefault((trace, metric), {})[policy] = points
    for (trace, metric), lines in charts.items():
        picture = chart(f"{trace}: {_TITLES[metric]}", "arrived GPU load, %", lines)
        (directory / f"{trace}-{metric}.svg").write_text(picture, encoding="utf-8")
