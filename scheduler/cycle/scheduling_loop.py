"""The scheduling loop: pop a pod, schedule it, run the queue's flushes at their deadlines.

Source: `pkg/scheduler/scheduler.go` (`Run`), `schedule_one.go` (`ScheduleOne`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NoReturn

from scheduler.config import GENERIC_WORKLOAD
from scheduler.cycle.schedule_one import schedule_one_pod
from scheduler.cycle.schedule_pod_group import schedule_one_pod_group

if TYPE_CHECKING:
    from scheduler.api_calls.dispatcher import ApiDispatcher
    from scheduler.cycle.attempt import CycleParts
    from scheduler.cycle.pod_group.results import PodGroupAttempt
    from scheduler.cycle.schedule_one import Found
    from scheduler.queue.queued_pod_info import QueuedPodInfo


async def schedule_one(parts: CycleParts, queued: QueuedPodInfo) -> Found | PodGroupAttempt | None:
    """Schedule a popped pod, or with GenericWorkload the whole group that it belongs to.

    Returns the result of the algorithm; None if nothing had to be scheduled.
    """
    is_member = queued.pod_info.spec.scheduling_group is not None
    if is_member and GENERIC_WORKLOAD in parts.feature_gates:
        return await schedule_one_pod_group(parts, queued)
    return await schedule_one_pod(parts, queued)


class SchedulingLoop:
    """Runs scheduling cycles one after another until it is cancelled."""

    def __init__(self, parts: CycleParts, *, dispatcher: ApiDispatcher) -> None:
        self._parts: Final = parts
        self._dispatcher: Final = dispatcher
        #: True while a cycle uses the snapshot.
        self.is_in_cycle = False

    @property
    def is_idle(self) -> bool:
        """True if no pod is being scheduled and none can be popped at this moment."""
        return not self.is_in_cycle and self._parts.queue.is_idle

    async def run(self) -> NoReturn:
        """Schedule pods for ever; raises the errors that a cycle could not handle."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._parts.queue.run(), name="flush")
            group.create_task(self._schedule(), name="schedule")
        raise AssertionError("the scheduling loop never ends by itself")

    async def _schedule(self) -> NoReturn:
        while True:
            queued = await self._parts.queue.pop()
            self.is_in_cycle = True
            try:
                await schedule_one(self._parts, queued)
            finally:
                self.is_in_cycle = False
            # Requests, responses and watch events are handled between two cycles.
            await asyncio.sleep(0)
            await self._dispatcher.wait_for_room()
