"""Pods that wait some seconds before their next attempt, longer after each failure.

From its return on, a pod backs off for `initial * 2^(n-1)` seconds, at most `max`:

    n is the number of errors in a row, if the last attempt ended with an error,
         else the number of attempts that found the pod unschedulable
    n = 0, or max = 0:  no backoff at all

The end is rounded down to a whole second, and pods are released in whole seconds. Within such a
window of one second they are ordered as in active_q, because the first of them is popped early
when active_q is empty. Pods whose attempt ended with an error are in a heap of their own, from
which no pod is popped early: this backoff protects the API server.
Source: `backend/queue/backoff_queue.go`, KEP-5142.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Final

from scheduler.queue.heap import Heap
from scheduler.queue.queued_pod_info import POPPABLE, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scheduler.queue.heap import SortKey
    from scheduler.queue.queued_pod_info import QueuedPodInfo

#: The end of backoff of a pod that does not back off.
NO_BACKOFF: Final = -math.inf

#: The windows in which pods are ordered and released.
ORDERING_WINDOW_SECONDS: Final = 1.0


class BackoffQueue:
    """Two heaps by the end of the backoff: for rejected pods, and for pods after an error.

    With `pops_early` (the gate SchedulerPopFromBackoffQ) pods may leave before the end, and those
    that end in one window are in the order of the active queue.
    """

    def __init__(
        self,
        *,
        initial_backoff_seconds: float,
        max_backoff_seconds: float,
        sort_key: Callable[[QueuedPodInfo], SortKey],
        pops_early: bool = True,
    ) -> None:
        self.pops_early: Final = pops_early
        #: The places from which a pod may be popped: it reaches them through PreEnqueue.
        self.poppable: Final = POPPABLE if pops_early else (Place.ACTIVE,)
        self._aligned: Final = _align_to_window if pops_early else _unaligned
        self._initial_seconds: Final = initial_backoff_seconds
        self._max_seconds: Final = max_backoff_seconds
        self.pod_backoff_q: Final[Heap[QueuedPodInfo]] = Heap(
            (lambda pod: (self.backoff_time(pod), *sort_key(pod)))
            if pops_early
            else (lambda pod: (self.backoff_time(pod),))
        )
        self.pod_error_backoff_q: Final[Heap[QueuedPodInfo]] = Heap(
            lambda pod: (self.backoff_time(pod),)
        )
        self._heaps: Final = (self.pod_backoff_q, self.pod_error_backoff_q)
        #: The pods of `pod_backoff_q` that are in no pod group, once more and in the same order.
        self._single_pods: Final[Heap[QueuedPodInfo]] = Heap(self.pod_backoff_q.sort_key)

    def __len__(self) -> int:
        return len(self.pod_backoff_q) + len(self.pod_error_backoff_q)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return itertools.chain(*self._heaps)

    def in_order(self) -> list[QueuedPodInfo]:
        """Return the rejected pods in the order of their release, then the pods after an error."""
        return self.pod_backoff_q.in_order() + self.pod_error_backoff_q.in_order()

    def calculate_backoff_duration(self, count: int) -> float:
        """Return the backoff in seconds of a pod that has failed `count` times."""
        if count == 0:
            return 0.0
        # Compared this way round because the power may be beyond any float.
        if self._initial_seconds > math.ldexp(self._max_seconds, 1 - count):
            return self._max_seconds
        return math.ldexp(self._initial_seconds, count - 1)

    def backoff_time(self, pod: QueuedPodInfo) -> float:
        """Return when a pod's backoff ends, in epoch seconds; `NO_BACKOFF` if it has none.

        Cached in `pod.backoff_expiration` until the pod is given back from its next attempt.
        """
        count = pod.consecutive_errors_count or pod.unschedulable_count
        if count == 0 or self._max_seconds == 0:
            return NO_BACKOFF
        if pod.backoff_expiration == 0:
            duration = self.calculate_backoff_duration(count)
            pod.backoff_expiration = self._aligned(pod.timestamp + duration)
        return pod.backoff_expiration

    def is_pod_backing_off(self, pod: QueuedPodInfo, now: float) -> bool:
        """Return True until the window in which the pod's backoff ends is over."""
        window = self._aligned(now)
        # No backoff is longer: most pods have waited so long when an event comes.
        if pod.timestamp + self._max_seconds < window:
            return False
        return self.backoff_time(pod) >= window

    def add(self, pod: QueuedPodInfo) -> bool:
        """Add a pod, or order it anew after a change. Always counts as an arrival."""
        pod.place = Place.BACKOFF
        key = pod.key
        if not pod.unschedulable_plugins and not pod.pending_plugins:
            self.pod_error_backoff_q.add_or_update(key, pod)
            return True
        sort_key = self.pod_backoff_q.sort_key(pod)
        self.pod_backoff_q.add_with_sort_key(key, pod, sort_key)
        if pod.pod_info.spec.scheduling_group is None:
            self._single_pods.add_with_sort_key(key, pod, sort_key)
        return True

    def delete(self, key: str) -> QueuedPodInfo | None:
        """Remove a pod; None if it is not in this queue."""
        self._single_pods.delete(key)
        pod = self.pod_backoff_q.delete(key)
        return pod if pod is not None else self.pod_error_backoff_q.delete(key)

    def get(self, key: str) -> QueuedPodInfo | None:
        pod = self.pod_backoff_q.get(key)
        return pod if pod is not None else self.pod_error_backoff_q.get(key)

    def pop(self, *, leaves_members: bool = False) -> QueuedPodInfo | None:
        """Remove the rejected pod whose backoff ends first, over or not; None if there is none.

        With `leaves_members`, the pods of pod groups stay.
        """
        heap = self._single_pods if leaves_members else self.pod_backoff_q
        pod = heap.peek()
        return None if pod is None else self.delete(pod.key)

    def pop_backoff_completed(self, now: float, *, pods_max: int) -> list[QueuedPodInfo]:
        """Remove at most `pods_max` pods whose backoff is over."""
        completed: list[QueuedPodInfo] = []
        for heap in self._heaps:
            while (pod := heap.peek()) is not None and not self.is_pod_backing_off(pod, now):
                if len(completed) == pods_max:
                    return completed
                self.delete(pod.key)
                completed.append(pod)
        return completed

    def release_time(self, pod: QueuedPodInfo) -> float:
        """Return the moment at which a pod that no longer backs off is released."""
        end = self.backoff_time(pod)
        return end if end == NO_BACKOFF else _align_to_window(end) + ORDERING_WINDOW_SECONDS

    def next_deadline(self) -> float | None:
        """Return when the next pod is completed; None if there are no pods."""
        heads = [pod for heap in self._heaps if (pod := heap.peek()) is not None]
        return min(map(self.release_time, heads), default=None)

    def complaints(self) -> Iterator[str]:
        """Yield a line for each broken invariant."""
        for heap in self._heaps:
            yield from heap.complaints()
        for pod in self.pod_backoff_q:
            if self.pod_error_backoff_q.get(pod.key) is not None:
                yield f"{pod.key} is in both backoff queues"
            if not pod.rejector_plugins:
                yield f"{pod.key} backs off as rejected, but no plugin rejected it"
        for pod in self.pod_error_backoff_q:
            if pod.rejector_plugins:
                yield f"{pod.key} backs off after an error, but plugins have rejected it"
        singles = [
            pod
            for pod in self.pod_backoff_q.in_order()
            if pod.pod_info.spec.scheduling_group is None
        ]
        if self._single_pods.in_order() != singles:
            yield "the pods without a pod group are not those of the backoff queue"
        ends = [self.backoff_time(pod) for pod in self.pod_backoff_q.in_order()]
        if ends != sorted(ends):
            yield f"the ends of backoff are out of order: {ends}"


def _align_to_window(seconds: float) -> float:
    return float(math.floor(seconds))


def _unaligned(seconds: float) -> float:
    return seconds
