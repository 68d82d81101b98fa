"""Watches the event loop: how long it was held, and by what.

A task wakes at intervals; it notes how late it is. A thread sees if the task has not woken for a
second, and logs the stack of the loop's thread as it is at that moment: what holds the loop is on
top. Code in C that keeps Python's lock holds the thread back as well; the stack is then that of
what comes next. The time is the machine's, whatever clock the scheduler has.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Final

from scheduler.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduler.metrics import SchedulerMetrics

_log: Final = logging.getLogger(__name__)

#: The time between two wake-ups: a stretch is measured up to so much too short.
_INTERVAL_SECONDS: Final = 0.05
#: A stretch of this length is logged.
_LOGGED_SECONDS: Final = 1.0
#: The longest stretch is that of this period and of the one before it.
_PERIOD_SECONDS: Final = 60.0


class LoopMonitor:
    """Measures the stretches for which an event loop is held."""

    def __init__(self, *, logged_seconds: float = _LOGGED_SECONDS) -> None:
        self._logged_seconds: Final = logged_seconds
        self._clock: Final = SystemClock()
        self._woken = self._clock.monotonic()
        self._period_started = self._woken
        self._longest = self._longest_before = 0.0
        self._stopped: Final = threading.Event()

    @property
    def longest_seconds(self) -> float:
        """The longest stretch of the last one to two minutes."""
        return max(self._longest, self._longest_before)

    @contextlib.asynccontextmanager
    async def watching(self, metrics: SchedulerMetrics) -> AsyncIterator[None]:
        """Watch the running loop for the length of a `with` block."""
        metrics.event_loop_lag.read = lambda: [((), self.longest_seconds)]
        loop_thread = threading.get_ident()
        self._woken = self._clock.monotonic()
        thread = threading.Thread(
            target=self._log_stacks, args=(loop_thread,), name="loop monitor", daemon=True
        )
        thread.start()
        task = asyncio.create_task(self._measure(), name="loop monitor")
        try:
            yield
        finally:
            self._stopped.set()
            task.cancel()

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            now = self._clock.monotonic()
            held = now - self._woken - _INTERVAL_SECONDS
            if now - self._period_started >= _PERIOD_SECONDS:
                self._period_started = now
                self._longest_before, self._longest = self._longest, 0.0
            self._longest = max(self._longest, held)
            self._woken = now
            if held >= self._logged_seconds:
                _log.warning("The event loop was held", {"seconds": round(held, 3)})

    def _log_stacks(self, loop_thread: int) -> None:
        logged = 0.0
        while not self._stopped.wait(_INTERVAL_SECONDS):
            woken = self._woken
            held = self._clock.monotonic() - woken - _INTERVAL_SECONDS
            if held < self._logged_seconds or woken == logged:
                continue
            logged = woken
            frame = sys._current_frames().get(loop_thread)
            stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
            _log.warning(
                "The event loop is held: no lease is renewed, and no request is answered",
                {"seconds": round(held, 3), "stack": stack},
            )
