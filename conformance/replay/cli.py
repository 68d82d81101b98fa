"""The command `kubesched-conformance replay`.

Exit status: 0 if every pod was bound or reported unschedulable and every rule held; 1 if not, or if
the run broke off; 2 for input that cannot be used, with one line that says where.
"""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console

from fakeapi import SystemClock

from .driver import Settings
from .driver import replay as run_replay
from .errors import ReplayError
from .plot import write_plot
from .progress import progress_bar
from .report import Report, render, summarise, to_json
from .trace import TraceError, read_trace

if TYPE_CHECKING:
    from .driver import Run
    from .trace import Trace

__all__ = ["replay"]

_PLOT_NAME = "openb-allocation.svg"
_FILE = click.Path(path_type=Path)


class _BadInput(click.ClickException):
    """Input that cannot be used; one line."""

    exit_code = 2


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--openb-nodes",
    metavar="CSV",
    required=True,
    type=_FILE,
    help="The trace's nodes: sn, cpu_milli, memory_mib, gpu, model.",
)
@click.option(
    "--openb-pods",
    metavar="CSV",
    required=True,
    type=_FILE,
    help="The trace's pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, qos.",
)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Only the first N pods.")
@click.option(
    "--percentage-of-nodes-to-score",
    metavar="N",
    type=click.IntRange(0, 100),
    help="Of the scheduler's configuration; by default left to the scheduler.",
)
@click.option(
    "--target-command",
    metavar="COMMAND",
    default="",
    help="The scheduler to start instead of kubesched. {kubeconfig} and {config} in it stand for "
    "files; without them --kubeconfig FILE --config FILE is added.",
)
@click.option(
    "--out",
    metavar="DIR",
    default=".",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the plot goes, by default here. Made if it is not there.",
)
@click.option(
    "--plot",
    metavar="FILE",
    type=_FILE,
    help=f"The plot, an SVG.  [default: {_PLOT_NAME} in --out]",
)
@click.option("--json", "json_file", metavar="FILE", type=_FILE, help="Write all numbers here.")
@click.option(
    "--timeout",
    "timeout_seconds",
    metavar="SECONDS",
    default=600.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Give up after that long, and say which pods are missing.",
)
@click.option(
    "--settle",
    "settle_seconds",
    metavar="SECONDS",
    default=2.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Done when every pod is decided on and none has changed for that long.",
)
@click.option(
    "--concurrency",
    metavar="N",
    default=16,
    show_default=True,
    type=click.IntRange(min=1),
    help="Creates under way at once.",
)
def replay(
    openb_nodes: Path,
    openb_pods: Path,
    limit: int | None,
    percentage_of_nodes_to_score: int | None,
    target_command: str,
    out: Path,
    plot: Path | None,
    json_file: Path | None,
    timeout_seconds: float,
    settle_seconds: float,
    concurrency: int,
) -> None:
    """Replay the openb trace: create it, let a scheduler place it, and verify every placement."""
    trace = _read(openb_nodes, openb_pods, limit)
    settings = Settings(
        target_command=_words(target_command),
        percentage_of_nodes_to_score=percentage_of_nodes_to_score,
        concurrency=concurrency,
        timeout_seconds=timeout_seconds,
        settle_seconds=settle_seconds,
    )
    try:
        report = summarise(_run(trace, settings))
    except ReplayError as error:
        raise click.ClickException(str(error)) from error
    render(report, Console())
    title = f"Allocation of {openb_pods.stem} on {report.nodes} nodes"
    _write(report, plot or out / _PLOT_NAME, json_file, title)
    if not report.passed:
        click.get_current_context().exit(1)


def _run(trace: Trace, settings: Settings) -> Run:
    """The run, with a progress bar on standard error."""
    with progress_bar(Console(stderr=True), len(trace.pods)) as show:
        return asyncio.run(run_replay(trace, settings, clock=SystemClock(), show=show))


def _read(nodes: Path, pods: Path, limit: int | None) -> Trace:
    try:
        return read_trace(nodes, pods, limit=limit)
    except TraceError as error:
        raise _BadInput(str(error)) from error


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise _BadInput(f"--target-command: {error}") from error


def _write(report: Report, plot: Path, json_file: Path | None, title: str) -> None:
    """The files, each named on standard output."""
    try:
        plot.parent.mkdir(parents=True, exist_ok=True)
        write_plot(plot, report.curve, title=title)
        click.echo(f"Plot: {plot}")
        if json_file is not None:
            encoded = msgspec.json.format(msgspec.json.encode(to_json(report)), indent=2)
            json_file.write_bytes(encoded + b"\n")
            click.echo(f"Numbers: {json_file}")
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
