"""The commands `kubesched-simulate import` and `record`: they write histories."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Final

import click

from scheduler.client import RestClient, connect
from scheduler.clock import SystemClock
from scheduler.explain.source import one_line_errors
from scheduler.simulate.history.format import HistoryWriter
from scheduler.simulate.history.openb import import_openb
from scheduler.simulate.history.recorder import Recorder
from scheduler.simulate.history.traces import import_csv, import_philly

_PROGRAM: Final = "kubesched-simulate"
_FORMATS: Final = {"openb": import_openb, "philly": import_philly, "csv": import_csv}
_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_output: Final = click.option(
    "-o", "--output", required=True, metavar="FILE", type=_FILE, help="The history to write."
)


@click.command("import")
@click.argument("trace", type=click.Choice([*_FORMATS]))
@click.option("--nodes", required=True, metavar="FILE", type=_FILE, help="The table of nodes.")
@click.option(
    "--pods", required=True, metavar="FILE", type=_FILE, help="The table of pods, or the job log."
)
@_output
def import_trace(*, trace: str, nodes: Path, pods: Path, output: Path) -> None:
    """Make a history of a trace (openb, philly) or of tables (csv)."""
    with one_line_errors(_PROGRAM), output.open("wb") as file:
        lines = _FORMATS[trace](HistoryWriter(file), nodes, pods)
    click.echo(f"{lines} changes in {output}")


@click.command()
@click.option("--kubeconfig", default="", metavar="FILE", help="The cluster to record.")
@click.option("--master", default="", metavar="URL", help="The address of the API server.")
@_output
def record(*, kubeconfig: str, master: str, output: Path) -> None:
    """Record a cluster: its objects, then each change, until Ctrl-C.

    Broken watches are opened again; what could not be seen is listed at the end.
    """
    with one_line_errors(_PROGRAM), output.open("wb") as file:
        asyncio.run(_record(kubeconfig, master, HistoryWriter(file)))


async def _record(kubeconfig: str, master: str, writer: HistoryWriter) -> None:
    clock, stop = SystemClock(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    connection = connect(kubeconfig=kubeconfig, master=master, clock=clock)
    async with RestClient(connection, clock=clock, user_agent=_PROGRAM) as client:
        recorder = Recorder(client, writer, clock=clock)

        def started() -> None:
            click.echo(f"recording, {recorder.changes} objects", err=True)

        await recorder.run(stop, on_start=started)
    click.echo(f"{recorder.changes} changes; not seen: {', '.join(recorder.unseen) or 'nothing'}")
