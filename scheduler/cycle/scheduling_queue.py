"""The scheduling queue as the scheduler uses it: the pure `PriorityQueue`, run by a clock.

Each call passes the time to the queue and hands the moves that it returns to the pods' stories. If
a pod can be popped now, it wakes `pop`; if a deadline comes closer, it wakes `run`.
Source: the interface `SchedulingQueue` in `pkg/scheduler/backend/queue/scheduling_queue.go`, with
`Pop` and `Run`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING, Final, NoReturn

from scheduler.clock import wait_for
from scheduler.collector import paused_collection
from scheduler.queue.queued_pod_info import NO_MOVES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.api.core import Pod
    from scheduler.clock import Clock
    from scheduler.framework.events import ClusterEvent
    from scheduler.queue import Moves, Nominator, PriorityQueue, QueuedPodInfo
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.stories import PodStories


class SchedulingQueue:
    """Runs a `PriorityQueue`, which describes the methods."""

    def __init__(self, queue: PriorityQueue, *, clock: Clock, stories: PodStories) -> None:
        self._queue: Final = queue
        self._clock: Final = clock
        self._stories: Final = stories
        self._poppable: Final = asyncio.Event()
        self._earlier_deadline: Final = asyncio.Event()
        self._deadline = math.inf

    @property
    def nominator(self) -> Nominator:
        return self._queue.nominator

    @property
    def is_idle(self) -> bool:
        """True if no pod can be popped; may be False until the next `pop`."""
        return not self._poppable.is_set()

    async def pop(self) -> QueuedPodInfo:
        """Wait for a pod that can be popped, and pop it."""
        while True:
            await self._poppable.wait()
            while self._queue.requeues_left:
                with paused_collection():
                    self._record(self._queue.requeue_some())
                await asyncio.sleep(0)
            if (queued := self.pop_nowait()) is not None:
                return queued
            self._poppable.clear()

    def active_pods(self, count: int) -> list[PodInfo]:
        return self._queue.active_pods(count)

    def pop_nowait(self) -> QueuedPodInfo | None:
        queued, moves = self._queue.pop_nowait(self._clock.now())
        self._record(moves)
        return queued

    def pop_specific_pod(self, key: str) -> QueuedPodInfo | None:
        queued, moves = self._queue.pop_specific_pod(key, self._clock.now())
        self._record(moves)
        return queued

    async def run(self) -> NoReturn:
        """Run the queue's flushes when they are due; sleep in between."""
        while True:
            self.flush_due()
            self._earlier_deadline.clear()
            deadline = self._queue.next_deadline()
            self._deadline = math.inf if deadline is None else deadline
            if deadline is None:
                await self._earlier_deadline.wait()
            else:
                seconds = deadline - self._clock.now()
                with contextlib.suppress(TimeoutError):
                    await wait_for(self._earlier_deadline.wait(), seconds, self._clock)

    def flush_due(self) -> None:
        with paused_collection():
            self._record(self._queue.flush_due(self._clock.now()))

    def add(self, pod: PodInfo) -> None:
        self._record(self._queue.add(pod, self._clock.now()))

    def update(self, old: Pod, new: PodInfo) -> None:
        self._record(self._queue.update(old, new, self._clock.now()))

    def delete(self, pod: Pod) -> None:
        self._record(self._queue.delete(pod, self._clock.now()))

    def add_unschedulable_if_not_present(self, queued: QueuedPodInfo) -> None:
        self._record(self._queue.add_unschedulable_if_not_present(queued, self._clock.now()))

    def done(self, uid: str) -> None:
        self._record(self._queue.done(uid, self._clock.now()))

    def activate(self, pods: Mapping[str, PodInfo]) -> None:
        self._record(self._queue.activate(pods, self._clock.now()))

    def move_all_to_active_or_backoff_queue(
        self,
        event: ClusterEvent,
        old_obj: object,
        new_obj: object,
        *,
        pre_check: Callable[[QueuedPodInfo], bool] | None = None,
    ) -> None:
        with paused_collection():
            self._record(
                self._queue.move_all_to_active_or_backoff_queue(
                    event, old_obj, new_obj, self._clock.now(), pre_check=pre_check
                )
            )

    def _record(self, moves: Moves) -> None:
        if moves is NO_MOVES:
            return
        self._stories.record(moves)
        if moves.poppable or self._queue.requeues_left:
            self._poppable.set()
        if moves.timed:
            deadline = self._queue.next_deadline()
            if deadline is not None and deadline < self._deadline:
                self._deadline = deadline
                self._earlier_deadline.set()
