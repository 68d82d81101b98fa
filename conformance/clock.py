"""Clocks of the suite: the machine's clock, and a virtual clock that the suite advances.

A `VirtualClock` is shared by everything in one process: the fake API server (timestamps, watch
deadlines, bookmarks), the scheduler (backoff, flushes, rate limits) and the runner. It stands still
until it is advanced, and then moves from one wake-up to the next; between two wake-ups the tasks
that were woken run to completion. So an hour takes only as long as the work in it, and no wake-up
is late.

This is the only module of the package that reads the machine's clock.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import re
import time
from typing import TYPE_CHECKING, Final, Protocol

import fakeapi

from .errors import InputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: 2026-01-01T00:00:00Z, where virtual time starts. A whole second, as backoff counts in those.
START_SECONDS: Final = 1_767_225_600.0

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Clock(fakeapi.Clock, Protocol):
    """The clock interface of server and scheduler; seconds as floats."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start, never decreasing."""
        ...


class RealClock(fakeapi.SystemClock):
    """The machine's clock: the time of day at the start plus the elapsed monotonic time."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()


class _VirtualTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """A clock that stands still until it is advanced. Several parties may share it."""

    def __init__(self, start_seconds: float = START_SECONDS) -> None:
        self._start = start_seconds
        self._now = start_seconds
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _VirtualTimer]] = []

    def now(self) -> float:
        """Seconds since 1970 (UTC) on this clock."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since this clock was created."""
        return self._now - self._start

    async def sleep(self, seconds: float) -> None:
        """Return when the clock has been advanced by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> fakeapi.Timer:
        """Call back when the clock has been advanced by `seconds`."""
        timer = _VirtualTimer(callback)
        heapq.heappush(self._timers, (self._now + max(0.0, seconds), next(self._order), timer))
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

    async def advance(self, seconds: float, settle: Callable[[], Awaitable[None]]) -> None:
        """Let time pass. `settle` is awaited at the start, at each wake-up and at the end."""
        end = self._now + seconds
        await settle()
        while (due := self.next_wake_up) is not None and due < end:
            self.move_to(due)
            await settle()
        self.move_to(end)
        await settle()


def parse_duration(text: str) -> float:
    """Parse a duration such as `90s`, `5m`, `1h30m` or `1.5s` into seconds. Raises InputError."""
    seconds, position = 0.0, 0
    for part in _DURATION.finditer(text):
        if part.start() != position:
            break
        seconds += float(part[1]) * _UNITS[part[2]]
        position = part.end()
    if not text or position != len(text):
        raise InputError(f"expected a duration such as 90s, 5m or 1h30m, got {text!r}")
    return seconds
