"""The scheduling loop: pop a pod, schedule it, run the queue's flushes at their deadlines.

Source: `pkg/scheduler/scheduler.go` (`Run`), `schedule_one.go` (`ScheduleOne`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NoReturn

from scheduler.cycle.schedule_one import schedule_one

if TYPE_CHECKING:
    from scheduler.api_calls.dispatcher import ApiDispatcher
    from scheduler.cycle.attempt import CycleParts


class SchedulingLoop:
    """Runs scheduling cycles one after another until it is cancelled."""

    def __init__(self, parts: CycleParts, *, dispatcher: ApiDispatcher) -> None:
        self._parts: Final = parts
        self._dispatcher: Final = dispatcher
        self._in_cycle = False

    @property
    def is_idle(self) -> bool:
        """True if no pod is being scheduled and none can be popped at this moment."""
        return not self._in_cycle and self._parts.queue.is_idle

    async def run(self) -> NoReturn:
        """Schedule pods for ever; raises what a cycle could not handle."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._parts.queue.run(), name="flush")
            group.create_task(self._schedule(), name="schedule")
        raise AssertionError("the scheduling loop never ends by itself")

    async def _schedule(self) -> NoReturn:
        while True:
            queued = await self._parts.queue.pop()
            self._in_cycle = True
            try:
                await schedule_one(self._parts, queued)
            finally:
                self._in_cycle = False
            # Requests, responses and watch events are handled between two cycles.
            await asyncio.sleep(0)
            await self._dispatcher.wait_for_room()
