"""Time as a dependency: the protocol of a clock, the machine's clock, and a manual clock.

Nothing else in this package reads the time or sleeps. A test that passes a `ManualClock` moves
grace periods, bookmarks and watch deadlines by calling `advance`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


def processor_seconds() -> float:
    """Return the processor time that this thread has taken, for limits of work."""
    return time.thread_time()


class Timer(Protocol):
    """A callback that is due later, unless it is cancelled."""

    def cancel(self) -> object:
        """Drop the callback; a no-op after it has run. The result has no meaning."""


class Clock(Protocol):
    """The source of time of a server. Times are seconds since 1970 (UTC)."""

    def now(self) -> float:
        """Return the time, which never decreases."""

    async def sleep(self, seconds: float) -> None:
        """Wait until the time has increased by `seconds`."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back once after `seconds`, from the event loop's thread."""


class SystemClock:
    """The machine's clock, made monotonic: the time at the start plus the elapsed time."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


class _ManualTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """A clock for tests, which `advance` moves."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._timers: list[tuple[float, int, _ManualTimer]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = _ManualTimer(callback)
        due = self._now + max(0.0, seconds)
        heapq.heappush(self._timers, (due, next(self._order), timer))
        return timer

    @property
    def next_wake_up(self) -> float | None:
        """The time of the next timer in seconds since 1970; None without timers."""
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def move_to(self, when: float) -> None:
        """Set the time and run the callbacks that are due, in order of time. Never moves back."""
        while (due := self.next_wake_up) is not None and due <= when:
            _, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
        self._now = max(self._now, when)

    def advance(self, seconds: float) -> None:
        """Move the clock, and run the callbacks that become due, in order of time."""
        self.move_to(self._now + seconds)
