"""Clocks of the suite: the machine's clock, and a virtual clock that the suite advances.

A `VirtualClock` is shared by everything in one process: the fake API server (timestamps, watch
deadlines, bookmarks), the scheduler (backoff, flushes, rate limits) and the runner. It stands still
until it is advanced, and then moves from one wake-up to the next; between two wake-ups the tasks
that were woken run to completion. So an hour takes only as long as the work in it, and no wake-up
is late.

This is the only module of the package that reads the machine's clock.
"""

from __future__ import annotations

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


class VirtualClock(fakeapi.ManualClock):
    """A clock that stands still until it is advanced. Several parties may share it."""

    def __init__(self, start_seconds: float = START_SECONDS) -> None:
        super().__init__(start_seconds)
        self._start = start_seconds

    def monotonic(self) -> float:
        """Seconds since this clock was created."""
        return self.now() - self._start

    async def run_for(self, seconds: float, settle: Callable[[], Awaitable[None]]) -> None:
        """Let time pass. `settle` is awaited at the start, at each wake-up and at the end."""
        end = self.now() + seconds
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
