"""The moments at which the pods that have waited too long for an event are looked for."""

from __future__ import annotations

import math
from typing import Final

#: How often the pods that wait for an event are searched for those that have waited too long.
LEFTOVER_FLUSH_SECONDS: Final = 30.0


class LeftoverFlush:
    """The times of the flushes: at start, and then in steps counted from the first one."""

    def __init__(self, max_wait_seconds: float) -> None:
        self.max_wait_seconds: Final = max_wait_seconds
        self._first: float | None = None
        self._last = -math.inf

    def begin(self, now: float) -> None:
        """Note that the pods are looked for at this moment."""
        if self._first is None:
            self._first = now
        self._last = now

    def is_due(self, now: float, oldest: float | None) -> bool:
        """True at start, and when the pod that waits since `oldest` has waited too long."""
        deadline = self.deadline(oldest)
        return self._first is None or (deadline is not None and deadline <= now)

    def deadline(self, oldest: float | None) -> float | None:
        """Return the next flush at which the pod that waits since `oldest` is overdue."""
        if oldest is None:
            return None
        start = self._first or 0.0
        earliest = max(oldest + self.max_wait_seconds, self._last)
        ticks = math.floor((earliest - start) / LEFTOVER_FLUSH_SECONDS)
        tick = start + ticks * LEFTOVER_FLUSH_SECONDS
        # The same comparison as in the flush: rounded differently, the two might never agree.
        while tick - oldest <= self.max_wait_seconds or tick <= self._last:
            tick += LEFTOVER_FLUSH_SECONDS
        return tick
