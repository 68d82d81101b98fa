"""A whole scheduler inside the test's own process: real HTTP, and a clock that the test holds.

The scheduler runs as a task of the running event loop. Besides starting and stopping it, a test can
ask whether it has come to rest, which no process across a socket can tell.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.assembly.app import AppStatistics, SchedulerApp
from scheduler.client import connect
from scheduler.config import ConfigError, default_config, load_config, validate_config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from pathlib import Path

    from scheduler.clock import Clock
    from scheduler.config import KubeSchedulerConfiguration
    from scheduler.framework.interface import Plugin


class RunningScheduler:
    """A scheduler that is running."""

    def __init__(self, app: SchedulerApp, task: asyncio.Task[None], *, url: str = "") -> None:
        self._app: Final = app
        self._task: Final = task
        #: Where its endpoints are served; empty unless that was asked for.
        self.url: Final = url

    @property
    def is_idle(self) -> bool:
        """Whether nothing will happen until an object changes or time passes.

        Raises what the scheduler has failed with, if it has.
        """
        if self._task.done():
            self._task.result()
        return self._app.is_idle

    @property
    def resource_versions(self) -> Mapping[str, str]:
        """How far it has followed the API server, by kind."""
        return self._app.last_resource_versions

    def statistics(self) -> AppStatistics:
        """What it has done and has before it."""
        return self._app.statistics()

    def check(self) -> None:
        """Verify the invariants of its cache and queue; raises AssertionError."""
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
) -> AsyncIterator[RunningScheduler]:
    """Run a scheduler until the block is left; raises as `kubesched` would complain.

    `config` is a KubeSchedulerConfiguration file, by default upstream's defaults, but for leader
    election: a scheduler in a test is alone as a rule. A file that does not say no to it, as in
    `leaderElection: {leaderElect: false}`, gets it; two that stand for one lease need two
    identities. With `serve`, its health, numbers and stories are at `url`: plain HTTP, and open to
    all.
    """
    settings = load_config(config) if config else _without_election(default_config())
    if errors := validate_config(settings):
        raise ConfigError("; ".join(str(error) for error in errors))
    connection = connect(kubeconfig=str(kubeconfig), clock=clock)
    app = SchedulerApp(
        settings, connection, clock=clock, plugins=plugins, seed=seed, identity=identity
    )
    async with contextlib.AsyncExitStack() as stack:
        url = await _serve(stack, settings, app, clock) if serve else ""
        task: asyncio.Task[None] = asyncio.ensure_future(app.run())
        try:
            yield RunningScheduler(app, task, url=url)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _without_election(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    election = msgspec.structs.replace(config.leader_election, leader_elect=False)
    return msgspec.structs.replace(config, leader_election=election)


async def _serve(
    stack: contextlib.AsyncExitStack,
    config: KubeSchedulerConfiguration,
    app: SchedulerApp,
    clock: Clock,
) -> str:
    # Here, so that a scheduler that serves nothing does not load what it takes to serve.
    from scheduler.serving.composition import serve_app_for_tests

    return (await stack.enter_async_context(serve_app_for_tests(config, app, clock=clock))).url
