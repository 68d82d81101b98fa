"""Time as a dependency: what the server needs of a clock, the machine's, and one moved by hand.

Nothing else in this package reads the time of day or sleeps. A test that hands the server a
`ManualClock` moves grace periods, bookmarks and watch deadlines by calling `advance`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer(Protocol):
    """Something that will happen later, unless it is cancelled before."""

    def cancel(self) -> None:
        """Forget it; harmless if it has happened already."""


class Clock(Protocol):
    """What the server asks of time. All times are seconds since 1970 (UTC)."""

    def now(self) -> float:
        """The current time in epoch seconds; it never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Wait that long on this clock."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back once after that long, from the event loop's thread."""


class SystemClock:
    """The machine's clock, made monotonic: the time of day at the start plus the time gone by."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """The current time in epoch seconds."""
        return self._offset + time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back once after that long."""
        return asyncio.get_running_loop().call_later(seconds, callback)


class _ManualTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """A clock that stands still until `advance` moves it; for tests."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._timers: list[tuple[float, int, _ManualTimer]] = []
        self._order = itertools.count()

    def now(self) -> float:
        """The time it stands at, in epoch seconds."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been advanced that far."""
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back when the clock has been advanced that far."""
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (self._now + seconds, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Move the clock and call back whatever falls due, in order of time."""
        until = self._now + seconds
        while self._timers and self._timers[0][0] <= until:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            if timer.callback is not None:
                timer.callback()
        self._now = until
