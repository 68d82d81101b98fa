"""The commands `kubesched-simulate import` and `record`: they write histories."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Final

import click

from scheduler.client import ClientError, RestClient, connect
from scheduler.clock import SystemClock
from scheduler.simulate.history.errors import InputFileError
from scheduler.simulate.history.format import HistoryWriter
from scheduler.simulate.history.importing import import_csv, import_openb, import_philly
from scheduler.simulate.history.recorder import Recorder

_FORMATS: Final = {"openb": import_openb, "philly": import_philly, "csv": import_csv}
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("import")
@click.argument("trace", type=click.Choice([*_FORMATS]))
@click.option("--nodes", required=True, metavar="FILE", type=_FILE, help="The table of nodes.")
@click.option(
    "--pods", required=True, metavar="FILE", type=_FILE, help="The table of pods, or the job log."
)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The history to write.",
)
def import_trace(*, trace: str, nodes: Path, pods: Path, output: Path) -> None:
    """Make a history of a published trace (openb, philly), or of two tables (csv)."""
    try:
        with output.open("wb") as file:
            lines = _FORMATS[trace](HistoryWriter(file), nodes, pods)
    except InputFileError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{lines} changes in {output}")


@click.command()
@click.option("--kubeconfig", default="", metavar="FILE", help="The cluster to record.")
@click.option("--master", default="", metavar="URL", help="The address of the API server.")
@click.option(
    "--for", "duration_seconds", type=float, metavar="SECONDS", help="By default until Ctrl-C."
)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The history to write.",
)
def record(*, kubeconfig: str, master: str, duration_seconds: float | None, output: Path) -> None:
    """Record a cluster: its objects, then each change, until Ctrl-C.

    Broken watches are opened again; what could not be seen is listed at the end.
    """
    try:
        with output.open("wb") as file:
            asyncio.run(_record(kubeconfig, master, duration_seconds, HistoryWriter(file)))
    except ClientError as error:
        raise click.ClickException(str(error)) from error


async def _record(
    kubeconfig: str, master: str, duration_seconds: float | None, writer: HistoryWriter
) -> None:
    clock, stopped = SystemClock(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    if duration_seconds is not None:
        loop.call_later(duration_seconds, stopped.set)
    connection = connect(kubeconfig=kubeconfig, master=master, clock=clock)
    async with RestClient(connection, clock=clock, user_agent="kubesched-simulate") as client:
        recorder = Recorder(client, writer, clock=clock)

        def started() -> None:
            click.echo(f"recording, {recorder.changes} objects", err=True)

        waits = asyncio.ensure_future(recorder.run(_wait_for(stopped), on_start=started))
        stops = asyncio.ensure_future(stopped.wait())
        await asyncio.wait((waits, stops), return_when=asyncio.FIRST_COMPLETED)
        if stops.done() and not recorder.has_started:
            waits.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waits
    click.echo(f"{recorder.changes} changes; not seen: {', '.join(recorder.unseen) or 'nothing'}")


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()
