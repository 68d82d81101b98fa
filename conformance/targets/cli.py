"""The command `kubesched-conformance clean`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from ..errors import RequestFailed
from ..options import Failure, SuiteCommand
from .cluster import clean_cluster
from .options import connection_options

if TYPE_CHECKING:
    from ..connection import Connection


@click.command(cls=SuiteCommand)
@connection_options
def clean(*, connection: Connection) -> None:
    """Delete the objects that runs with --kubeconfig have left in a cluster, and print them.

    No run may be going on. Only objects with the label conformance.kubesched/run are deleted, and
    all objects in namespaces with that label.
    """
    try:
        for name in asyncio.run(clean_cluster(connection)):
            click.echo(f"deleted {name}")
    except RequestFailed as error:
        raise Failure(str(error)) from error
