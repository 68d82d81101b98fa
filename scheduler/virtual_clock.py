"""A clock that stands still until it is advanced, for simulations and tests."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: 2026-01-01T00:00:00Z, where virtual time starts.
_START_SECONDS: Final = 1767225600.0


class VirtualClock:
    """A clock that stands still until it is advanced; satisfies `scheduler.clock.Clock`."""

    def __init__(self, start_seconds: float = _START_SECONDS) -> None:
        self._now = start_seconds
        self._start = start_seconds
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        """Epoch seconds on this clock."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._now - self._start

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has been advanced by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        await future

    def call_later(self, seconds: float, callback: Callable[[], None]) -> asyncio.Future[None]:
        """Call back once the clock has been advanced by `seconds`; the result can be cancelled."""
        future = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: None if done.cancelled() else callback())
        heapq.heappush(self._sleepers, (self._now + max(0.0, seconds), next(self._order), future))
        return future

    @property
    def next_wake_up(self) -> float | None:
        """The time of the next wake-up; None without sleepers."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def advance_nowait(self, seconds: float) -> None:
        """Advance and wake the sleepers that are due; their tasks run in the loop's next turn."""
        self._now += seconds
        while (due := self.next_wake_up) is not None and due <= self._now:
            heapq.heappop(self._sleepers)[2].set_result(None)

    async def advance(self, seconds: float) -> None:
        """Move on from one wake-up to the next, letting tasks run in between."""
        end = self._now + seconds
        await let_tasks_run()
        while (due := self.next_wake_up) is not None and due <= end:
            self.advance_nowait(max(0.0, due - self._now))
            await let_tasks_run()
        self.advance_nowait(end - self._now)
        await let_tasks_run()


async def let_tasks_run() -> None:
    """A few turns of the event loop: enough for chains of tasks that wait for one another."""
    for _ in range(20):
        await asyncio.sleep(0)
