"""Clocks: the only module that reads the machine's time.

Every other module gets a `Clock`, so that a test or the conformance runner can use a virtual clock,
on which hours pass in milliseconds.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

R = TypeVar("R")


class Clock(Protocol):
    """A source of time, in seconds."""

    def now(self) -> float:
        """Return the seconds since the epoch, for timestamps."""

    def monotonic(self) -> float:
        """Return the seconds since some start, which never decrease, for durations."""

    async def sleep(self, seconds: float) -> None:
        """Return once `seconds` have passed on this clock."""


async def wait_for(work: Coroutine[None, None, R], seconds: float, clock: Clock) -> R:
    """Return the result of `work`.

    Raises TimeoutError, and cancels `work`, once `seconds` have passed on `clock`.
    """
    task = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()
        alarm.cancel()
        await asyncio.gather(task, alarm, return_exceptions=True)


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.time()

    #: Not wrapped in a method, because it is called dozens of times for each pod.
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


#: The longest that a loop over much may run before other tasks get a turn.
TURN_SECONDS: Final = 0.05


class Turns:
    """Gives the other tasks of an event loop their turns, between two units of a long work.

    Whatever is half done then must bear that events change the cache and the queue. On a virtual
    clock no time passes while work is done, so that it is never interrupted there.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._since = clock.monotonic()

    async def let_others_run(self) -> None:
        """Return after a turn of the event loop, or at once if the last one is not long ago."""
        if self._clock.monotonic() - self._since >= TURN_SECONDS:
            await asyncio.sleep(0)
            self._since = self._clock.monotonic()


async def run_on() -> None:
    """Return at once: for work that nothing else waits for."""


def rfc3339(seconds: float) -> str:
    """Format a `metav1.Time`: whole seconds in UTC, as in `2026-11-21T08:00:00Z`."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """Format a `metav1.MicroTime`: microseconds, as in `2026-11-21T08:00:00.000000Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
