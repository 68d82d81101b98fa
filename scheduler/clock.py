"""Time, as the scheduler knows it: the only module that reads the machine's clock.

Everything else is given a `Clock`, so that a test or the conformance runner can put a clock of its
own in its place and let hours pass in milliseconds.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

R = TypeVar("R")


class Clock(Protocol):
    """What the scheduler asks of time. Seconds everywhere, as floats."""

    def now(self) -> float:
        """Seconds since the epoch: for timestamps that others read."""
        ...

    def monotonic(self) -> float:
        """Seconds since some start, never going back: for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once `seconds` have passed on this clock."""
        ...


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
        """Seconds since the epoch."""
        return time.time()

    #: Seconds since the machine started, or thereabouts; bare, as it is asked dozens of times for
    #: each pod.
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Give way to other tasks for `seconds`."""
        await asyncio.sleep(seconds)


def rfc3339(seconds: float) -> str:
    """A `metav1.Time`: whole seconds in UTC, as in `2026-11-21T08:00:00Z`."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """A `metav1.MicroTime`: six digits of a second, as in `2026-11-21T08:00:00.000000Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
