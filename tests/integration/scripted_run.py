"""A scheduler at work on a `ScriptedCluster`: in this process, in virtual time, behind a proxy."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from scheduler.testing import VirtualClock
from scheduler.testing.in_process import RunningScheduler, run_in_process
from tests.integration.scripted_cluster import ScriptedCluster
from tests.integration.write_proxy import Fate, Write, WriteProxy

Plan = Callable[[Write], Fate | None]


DEADLINE_SECONDS = 120.0
#: So many looks in a row, a millisecond apart, must find everybody at rest.
_LOOKS_AT_REST = 5
_LOOK_SECONDS = 0.001
#: How far time moves on between two looks.
_STEP_SECONDS = 0.1


def nothing_happens(write: Write) -> None:
    """Plan no fault."""


def kubeconfig_for(url: str, directory: Path) -> Path:
    """Write a kubeconfig for the server at this address."""
    path = directory / f"kubeconfig-{url.rpartition(':')[2]}"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: c,"
        f" clusters: [{{name: c, cluster: {{server: '{url}'}}}}],"
        " contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}]}",
        encoding="utf-8",
    )
    return path


async def run(
    cluster: ScriptedCluster, directory: Path, plan: Plan = nothing_happens
) -> WriteProxy:
    """Run a scheduler until it has nothing left to do or is killed.

    Killed, it is cancelled at once, and all it has to do with the world is cut off.
    """

    async def scheduler() -> None:
        kubeconfig, clock = kubeconfig_for(proxy.url, directory), VirtualClock()
        async with run_in_process(kubeconfig=kubeconfig, clock=clock) as scheduler:
            await _until_the_end(cluster, scheduler, clock)
            scheduler.check()

    def kill() -> None:
        running.cancel()

    async with WriteProxy(cluster.url, plan=plan, on_death=kill) as proxy:
        running = asyncio.ensure_future(scheduler())
        with contextlib.suppress(asyncio.CancelledError):
            await running
    return proxy


async def _until_the_end(
    cluster: ScriptedCluster, scheduler: RunningScheduler, clock: VirtualClock
) -> None:
    deadline, looks = time.monotonic() + DEADLINE_SECONDS, 0
    while looks < _LOOKS_AT_REST:
        assert time.monotonic() < deadline, cluster.unfinished()
        await asyncio.sleep(_LOOK_SECONDS)
        if scheduler.is_idle and cluster.is_quiet and cluster.has_ended:
            looks += 1
        else:
            looks = 0
            await clock.advance(_STEP_SECONDS)
