"""Functions that run work on a virtual clock."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from scheduler.virtual_clock import let_tasks_run

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from scheduler.virtual_clock import VirtualClock

R = TypeVar("R")


def run_on_clock(work: Awaitable[R], clock: VirtualClock) -> R:
    """Return the result of `work`, advancing the clock whenever all wait for it.

    The work runs in a thread with an event loop of its own, so this can be called anywhere.
    Raises TimeoutError if the work waits for anything else than the clock.
    """
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, _advancing(work, clock)).result()


async def _advancing(work: Awaitable[R], clock: VirtualClock) -> R:
    task = asyncio.ensure_future(work)
    while True:
        await let_tasks_run()
        if task.done():
            return task.result()
        if clock.next_wake_up is None:
            task.cancel()
            raise TimeoutError("the work waits for more than the clock")
        clock.advance_nowait(clock.next_wake_up - clock.now())
