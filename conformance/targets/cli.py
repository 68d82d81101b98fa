"""The command `kubesched-conformance clean`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from ..connection import Connection
from ..errors import ConformanceError, InputError
from .cluster import clean_cluster


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
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
    except ConformanceError as error:
        click.echo(f"kubesched-conformance: {error}", err=True)
        raise SystemExit(2 if isinstance(error, InputError) else 1) from error
