"""The commands `kubesched-simulate import` and `record`: they write histories."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from scheduler.simulate.history.errors import InputFileError
from scheduler.simulate.history.format import HistoryWriter
from scheduler.simulate.history.importing import import_csv, import_openb, import_philly

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
