"""The scheduler's counters, read in windows: the time between two checks of an expectation.

A window begins with the first step after the expectations before it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..errors import NotObservable
from ..judge.metrics import MetricsReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..judge.metrics import QueueCounters
    from ..targets.target import Target


class Windows:
    """The windows of one case. Without `reads`, as most cases need no counters, it does nothing."""

    def __init__(self, target: Target, *, reads: bool) -> None:
        self._target = target
        self._reads = reads
        self._stack = contextlib.AsyncExitStack()
        self._metrics: MetricsReader | None = None
        self._before: QueueCounters | None = None
        self._counters: QueueCounters | None = None
        self._is_open = False

    async def begin(self) -> None:
        """Read the counters of a scheduler that has just started and is idle."""
        if not self._reads:
            return
        url = self._target.metrics_url
        if url is None:
            raise NotObservable("reads metrics, and the scheduler has no URL that serves any")
        self._metrics = await self._stack.enter_async_context(MetricsReader(url))
        self._counters = await self._metrics.wait_until_served()

    async def end(self) -> None:
        """Close the connection to the scheduler."""
        await self._stack.aclose()

    def start_at_zero(self) -> None:
        """Begin the open window anew: the counters of a new scheduler are zero."""
        self._before, self._counters = self._counters, None

    async def open(self) -> None:
        """Read the counters at the start of a window, unless a window is open."""
        if self._metrics is None or self._is_open:
            return
        if self._counters is None or not self._target.settles_exactly:
            await self._target.settle()
            self._counters = await self._metrics.read()
        # Otherwise the counters were read at rest, and nothing has changed since.
        self._before, self._counters = self._counters, None
        self._is_open = True

    def close(self) -> None:
        """End the window: the next step begins another one."""
        self._is_open = False

    async def moves(self) -> QueueCounters:
        """Return the counts of this window."""
        assert self._before is not None, "a case begins with a step that does something"
        self._counters = await self._reader.read()
        return self._counters.since(self._before)

    async def total(self, metric: str, labels: Mapping[str, str]) -> int:
        """Return the sum of a counter since the scheduler started."""
        return await self._reader.total(metric, labels)

    @property
    def _reader(self) -> MetricsReader:
        assert self._metrics is not None, "the case says that it reads them"
        return self._metrics
