"""Run a whole scheduler inside the test's process: real HTTP, and a clock under the test's control.

The scheduler is a task of the running event loop. A test can read whether it is idle, which a
process cannot show across a socket.
"""

from __future__ import annotations

import asyncio
import contextlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.assembly.app import AppStatistics, SchedulerApp
from scheduler.assembly.core import SchedulerOptions
from scheduler.assembly.profiles import plugin_registry
from scheduler.client import connect
from scheduler.config import (
    DEFAULT_SCHEDULER_VERSION,
    ConfigError,
    EffectiveVersion,
    SchedulerVersion,
    default_config,
    enabled_gates,
    load_config,
    validate_config,
)
from scheduler.metrics.exposition import MetricsOptions
from scheduler.plugins import SCHEME

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from pathlib import Path

    from scheduler.clock import Clock
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.framework.interface import Plugin

_NO_SETTINGS: Final[Mapping[str, bool]] = MappingProxyType({})


class RunningScheduler:
    """A running scheduler, as the test sees it."""

    def __init__(self, app: SchedulerApp, task: asyncio.Task[None], *, url: str = "") -> None:
        self._app: Final = app
        self._task: Final = task
        #: The URL of the scheduler's own port; empty without `serve`.
        self.url: Final = url

    @property
    def is_idle(self) -> bool:
        """True if nothing will happen until an object changes or time passes.

        Raises the scheduler's own exception if it has failed.
        """
        if self._task.done():
            self._task.result()
        return self._app.is_idle

    @property
    def resource_versions(self) -> Mapping[str, str]:
        """The last resource version that the scheduler has seen, by kind."""
        return self._app.last_resource_versions

    def statistics(self) -> AppStatistics:
        """Return counts of decisions and of pods in the queue."""
        return self._app.statistics()

    def check(self) -> None:
        """Check the invariants of cache and queue. Raises AssertionError."""
        self._app.check()


@contextlib.asynccontextmanager
async def run_in_process(
    *,
    kubeconfig: Path,
    clock: Clock,
    config: Path | None = None,
    plugins: Iterable[type[Plugin] | str] = (),
    seed: int = 0,
    serve: bool = False,
    identity: str = "in-process",
    feature_gates: Mapping[str, bool] = _NO_SETTINGS,
    scheduler_version: str = DEFAULT_SCHEDULER_VERSION.label,
) -> AsyncIterator[RunningScheduler]:
    """Run a scheduler until the `async with` block ends.

    `config` is a KubeSchedulerConfiguration file. Without it the scheduler has upstream's defaults,
    but no leader election. A file enables leader election unless it sets
    `leaderElection: {leaderElect: false}`; two schedulers with one lease need different
    identities. With `serve`, health, metrics and stories are served at `url`, over plain HTTP and
    without authentication. `feature_gates` are settings by name, as in `kubesched --feature-gates`,
    `scheduler_version` is the version of kube-scheduler to decide as, such as 1.35. Raises
    ConfigError for an invalid configuration and for gates that cannot be set, ValueError for
    another version.
    """
    version = SchedulerVersion.parse(scheduler_version)
    effective_version = EffectiveVersion.of(version)
    gates = enabled_gates(feature_gates, effective_version)
    scheme = SCHEME._replace(gates=gates, version=version)
    settings = load_config(config, scheme) if config else _without_election(default_config(scheme))
    if errors := validate_config(settings, scheme):
        text = "; ".join(str(error) for error in errors)
        raise ConfigError(f"{config}: {text}" if config else text)
    connection = connect(kubeconfig=str(kubeconfig), clock=clock)
    options = SchedulerOptions(
        plugins=tuple(plugins),
        seed=seed,
        identity=identity,
        feature_gates=gates,
        effective_version=effective_version,
        metrics_options=MetricsOptions(version=version),
    )
    app = SchedulerApp(settings, connection, clock=clock, options=options)
    async with contextlib.AsyncExitStack() as stack:
        url = await _serve(stack, settings, app, clock) if serve else ""
        task: asyncio.Task[None] = asyncio.ensure_future(app.run())
        try:
            yield RunningScheduler(app, task, url=url)
        finally:
            task.cancel()
            await asyncio.wait((task,))
            if not task.cancelled():
                task.result()  # raises the scheduler's failure


def check_plugins(plugins: Iterable[type[Plugin] | str]) -> None:
    """Raise `PluginSetupError` unless each of these is a plugin, or the reference of one."""
    plugin_registry(plugins)


def check_version(text: str) -> None:
    """Raise ValueError, with the list, unless this is a version to decide as."""
    SchedulerVersion.parse(text)


def _without_election(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    election = msgspec.structs.replace(config.leader_election, leader_elect=False)
    return msgspec.structs.replace(config, leader_election=election)


async def _serve(
    stack: contextlib.AsyncExitStack,
    config: KubeSchedulerConfiguration,
    app: SchedulerApp,
    clock: Clock,
) -> str:
    # Imported here: a scheduler that serves nothing does not load the modules of `serving`.
    from scheduler.serving.serve import serve_for_tests

    return (await stack.enter_async_context(serve_for_tests(config, app, clock=clock))).url
