"""The scheduling loop: pop a pod, schedule it, run the queue's flushes at their deadlines.

Source: `pkg/scheduler/scheduler.go` (`Run`), `schedule_one.go` (`ScheduleOne`).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, NoReturn

from scheduler.clock import wait_for
from scheduler.cycle.schedule_one import schedule_one

if TYPE_CHECKING:
    from scheduler.api_calls.dispatcher import ApiDispatcher
    from scheduler.cycle.attempt import CycleParts


class SchedulingLoop:
    """Runs scheduling cycles one after another until it is cancelled."""

    def __init__(
        self,
        parts: CycleParts,
        *,
        ready: asyncio.Event,
        deadline_moved: asyncio.Event,
        dispatcher: ApiDispatcher,
    ) -> None:
        self._parts: Final = parts
        self._ready: Final = ready
        self._deadline_moved: Final = deadline_moved
        self._dispatcher: Final = dispatcher
        self._in_cycle = False

    @property
    def is_idle(self) -> bool:
        """True if no pod is being scheduled and none can be popped at this moment."""
        return not self._in_cycle and not self._ready.is_set()

    async def run(self) -> NoReturn:
        """Schedule pods for ever; raises what a cycle could not handle."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._flush(), name="flush")
            group.create_task(self._schedule(), name="schedule")
        raise AssertionError("the scheduling loop never ends by itself")

    async def _schedule(self) -> NoReturn:
        queue, clock = self._parts.queue, self._parts.clock
        while True:
            await self._ready.wait()
            queued = queue.pop_nowait(clock.now())
            if queued is None:
                self._ready.clear()
                continue
            self._in_cycle = True
            try:
                await schedule_one(self._parts, queued)
            finally:
                self._in_cycle = False
            # Requests, responses and watch events are handled between two cycles.
            await asyncio.sleep(0)
            await self._dispatcher.wait_for_room()

    async def _flush(self) -> NoReturn:
        """Run the queue's flushes when they are due; sleep in between."""
        queue, clock = self._parts.queue, self._parts.clock
        while True:
            queue.flush_due(clock.now())
            self._deadline_moved.clear()
            deadline = queue.next_deadline()
            if deadline is None:
                await self._deadline_moved.wait()
            else:
                # An earlier deadline ends the wait.
                with contextlib.suppress(TimeoutError):
                    await wait_for(self._deadline_moved.wait(), deadline - clock.now(), clock)
