"""The cluster that a command reads: from manifests, or from an API server."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from scheduler.api.selectors import SelectorError
from scheduler.assembly.profiles import untyped_kinds_of
from scheduler.client import ClientError
from scheduler.client.kinds import GroupVersionResource
from scheduler.clock import SystemClock
from scheduler.config import (
    ConfigError,
    SchedulerVersion,
    default_config,
    load_config,
)
from scheduler.explain.cluster import ClusterError, read_api_server
from scheduler.explain.manifests import read_manifests
from scheduler.explain.references import MissingKinds
from scheduler.plugins import SCHEME
from scheduler.runtime import FrameworkError, PluginSetupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from scheduler.assembly.watched_kinds import WatchedKind
    from scheduler.client import Forbidden
    from scheduler.config import FeatureGates, KubeSchedulerConfiguration
    from scheduler.explain.cluster import Cluster

_FAILURES: Final[tuple[type[Exception], ...]] = (
    ClientError,
    ClusterError,
    ConfigError,
    FrameworkError,
    SelectorError,
)


@dataclass(frozen=True, slots=True)
class Source:
    """The files or the API server that have the cluster. `program` is the name in messages.

    `plugins` are the user's own, which may read further kinds. Raises `UsageError` for a command
    line with neither files nor a server, or with both.
    """

    program: str
    manifests: tuple[Path, ...]
    kubeconfig: str
    master: str
    plugins: tuple[str, ...]

    def __post_init__(self) -> None:
        if bool(self.manifests) == bool(self.kubeconfig or self.master):
            raise click.UsageError("give one of --manifests and --kubeconfig (or --master)")

    async def read(
        self, kinds: Iterable[WatchedKind], *, keeps_json: bool = False
    ) -> tuple[Cluster, MissingKinds]:
        """Read the cluster with the objects of `kinds`, and find the kinds that are missing."""
        if self.manifests:
            cluster = self._read_files(kinds, keeps_json=keeps_json)
            return cluster, MissingKinds(cluster)
        refused: list[str] = []
        cluster = await read_api_server(
            self.kubeconfig,
            self.master,
            SystemClock(),
            kinds,
            user_agent=self.program,
            keeps_json=keeps_json,
            on_refused=functools.partial(self._name_refused, refused),
        )
        return cluster, MissingKinds(cluster, unread=refused)

    def _read_files(self, watched: Iterable[WatchedKind], *, keeps_json: bool) -> Cluster:
        """Return the cluster of manifests; name the objects that nothing depends on."""
        resources = (kind.resource for kind in watched)
        untyped = frozenset(r for r in resources if isinstance(r, GroupVersionResource))
        kinds = untyped_kinds_of(self.plugins) | untyped
        cluster, ignored = read_manifests(self.manifests, kinds, keeps_json=keeps_json)
        for path, numbers in ignored.items():
            counts = ", ".join(f"{number} {kind}" for kind, number in sorted(numbers.items()))
            self.warn(f"{path}: no decision depends on {counts}")
        return cluster

    def _name_refused(self, refused: list[str], kind: WatchedKind, refusal: Forbidden) -> None:
        refused.append(kind.resource.key)
        self.warn(f"what {', '.join(kind.plugins)} decides is unsure: {refusal}")

    def warn(self, text: str) -> None:
        """Print a line on the standard error output."""
        click.echo(f"{self.program}: {text}", err=True)


def settings(
    config: Path | None, *, version: SchedulerVersion, gates: FeatureGates
) -> KubeSchedulerConfiguration:
    """Return the configuration of a file, or the default one; `gates` are the enabled gates."""
    scheme = SCHEME._replace(gates=gates, version=version)
    return load_config(config, scheme) if config else default_config(scheme)


@contextmanager
def one_line_errors(
    program: str, config: Path | None = None, failures: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Print a failure as one line and exit with 1; an error of a profile names `config`.

    `failures` are further errors whose text is enough for users.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:  # the standard output is closed or full
            raise
        click.echo(f"{program}: {error.filename}: {error.strerror}", err=True)
        raise SystemExit(1) from error
    except _FAILURES + failures as error:
        # Profiles come from the file; plugins of the command line are refused before.
        is_of_file = isinstance(error, PluginSetupError) and str(error).startswith("initializing")
        file = f"{config}: " if is_of_file and config is not None else ""
        click.echo(f"{program}: {file}{error}", err=True)
        raise SystemExit(1) from error
