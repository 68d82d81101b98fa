"""The scheduler's loop: take the next pod, schedule it, look after the queue's deadlines.

Source: `pkg/scheduler/scheduler.go` (`Run`), `schedule_one.go` (`ScheduleOne`).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, NoReturn

from scheduler.clock import wait_for

if TYPE_CHECKING:
    from scheduler.api_calls.dispatcher import ApiDispatcher
    from scheduler.clock import Clock
    from scheduler.cycle.schedule_one import ScheduleOne
    from scheduler.queue import PriorityQueue


class Scheduler:
    """Runs scheduling cycles for as long as it is let."""

    def __init__(
        self,
        *,
        queue: PriorityQueue,
        ready: asyncio.Event,
        deadline_moved: asyncio.Event,
        schedule_one: ScheduleOne,
        dispatcher: ApiDispatcher,
        clock: Clock,
    ) -> None:
        self._queue: Final = queue
        self._ready: Final = ready
        self._deadline_moved: Final = deadline_moved
        self._schedule_one: Final = schedule_one
        self._dispatcher: Final = dispatcher
        self._clock: Final = clock
        self._in_cycle = False

    @property
    def is_idle(self) -> bool:
        """Whether no pod is being scheduled and none could be at this moment."""
        return not self._in_cycle and not self._ready.is_set()

    async def run(self) -> NoReturn:
        """Schedule pods for ever; raises what a cycle could not handle."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._flush(), name="flush")
            group.create_task(self._schedule(), name="schedule")
        raise AssertionError("the scheduling loop never ends by itself")

    async def _schedule(self) -> NoReturn:
        while True:
            await self._ready.wait()
            queued = self._queue.pop_nowait(self._clock.now())
            if queued is None:
                self._ready.clear()
                continue
            self._in_cycle = True
            try:
                await self._schedule_one.schedule_one(queued)
            finally:
                self._in_cycle = False
            # Requests, answers and watch events get their turn between two cycles.
            await asyncio.sleep(0)
            await self._dispatcher.wait_for_room()

    async def _flush(self) -> NoReturn:
        """Run the queue's flushes when they are due, and sleep for as long as none is."""
        while True:
            self._queue.flush_due(self._clock.now())
            self._deadline_moved.clear()
            deadline = self._queue.next_deadline()
            if deadline is None:
                await self._deadline_moved.wait()
            else:
                seconds = deadline - self._clock.now()
                # An earlier deadline ends the wait.
                with contextlib.suppress(TimeoutError):
                    await wait_for(self._deadline_moved.wait(), seconds, self._clock)
