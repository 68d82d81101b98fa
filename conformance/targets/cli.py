"""The command `kubesched-conformance clean`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from ..connection import Connection
from ..errors import ConformanceError, InputError
from ..options import Failure, SuiteCommand
from .cluster import clean_cluster


@click.command(cls=SuiteCommand, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--kubeconfig", metavar="FILE", required=True, type=click.Path(path_type=Path))
@click.option("--context", default="", help="The kubeconfig's context; the current one by default.")
def clean(*, kubeconfig: Path, context: str) -> None:
    """Delete the objects that runs with --kubeconfig have left in a cluster, and print them.

    No run may be going on. Only objects with the label conformance.kubesched/run are deleted, and
    all objects in namespaces with that label.
    """
    try:
        connection = Connection.from_kubeconfig(kubeconfig, context)
        for name in asyncio.run(clean_cluster(connection)):
            click.echo(f"deleted {name}")
    except InputError:
        raise
    except ConformanceError as error:
        raise Failure(str(error)) from error
