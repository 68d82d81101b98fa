"""The command `kubesched-simulate study`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec
import numpy as np

from scheduler.simulate.history.errors import InputFileError
from scheduler.simulate.history.openb import read_nodes, read_pods
from scheduler.simulate.runs.campaign import Campaign, campaign_options, carry_out
from scheduler.simulate.study.fgd import POLICIES, Curves, Trace, run
from scheduler.simulate.study.results import Curve, can_plot, write_plots, write_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_NODES: Final = "openb_node_list_gpu_node.csv"
_PODS: Final = "openb_pod_list_"


class StudyTask(msgspec.Struct, frozen=True, kw_only=True):
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
@campaign_options(machines_need="--data", files="results.csv, runs.jsonl and the plots")
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
    numbers = range(1, seeds + 1) if seeds is not None else [1 if seed is None else seed]
    tasks = {
        f"{trace} {policy} seed {number}": msgspec.json.encode(
            StudyTask(directory=str(data.absolute()), trace=trace, policy=policy, seed=number)
        )
        for number in numbers
        for trace in traces or _all_traces(data)
        for policy in _policies(policies)
    }
    output = campaign.output
    output.mkdir(parents=True, exist_ok=True)
    try:
        for trace in dict.fromkeys(traces):
            _file_of(data, trace)
        results = carry_out(
            carry_out_run,
            tasks,
            campaign,
        )
    except InputFileError as error:
        raise click.ClickException(str(error)) from error
    curves = list(_curves(tasks, results))
    write_table(output / "results.csv", curves)
    if can_plot():
        write_plots(output, curves)
    else:
        click.echo("no plots: pip install 'kubesched[replay]'", err=True)
    click.echo(f"{len(results)} of {len(tasks)} runs in {output / 'results.csv'}")
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


def carry_out_run(task: bytes) -> bytes:
    """Carry out one run; task and result are JSON."""
    wanted = msgspec.json.decode(task, type=StudyTask)
    trace = _read_trace(wanted.directory, wanted.trace)
    curves = run(trace, wanted.policy, seed=wanted.seed)
    rounded = {name: np.round(values, 4).tolist() for name, values in curves._asdict().items()}
    return msgspec.json.encode(rounded)


def _curves(tasks: dict[str, bytes], results: dict[str, bytes]) -> Iterator[Curve]:
    """Return the curves of all runs, sorted by trace and policy."""
    decoded = {name: msgspec.json.decode(tasks[name], type=StudyTask) for name in results}
    for name in sorted(results, key=lambda each: (decoded[each].trace, decoded[each].policy)):
        values = msgspec.json.decode(results[name])
        for metric in Curves._fields:
            curve = np.array([np.nan if v is None else v for v in values[metric]])
            yield Curve(decoded[name].trace, decoded[name].policy, metric, curve)
