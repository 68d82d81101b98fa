"""Pods that have to wait a while before their next attempt, longer after each failure.

Counted from when it came back, a pod backs off for `initial * 2^(n-1)` seconds, but at most `max`:

    n is the number of errors in a row, if the last attempt broke off with an error,
         else the number of attempts that found it unschedulable
    n = 0, or max = 0:  no backoff at all

Its end is cut down to a whole second, and pods are released in whole seconds: within such a window
of one second they are ordered as in active_q, for when active_q runs empty the first of them is
popped early. Pods whose attempt broke off with an error wait in a queue of their own, from which
nothing is popped early: their backoff protects the API server.
Source: `backend/queue/backoff_queue.go`, KEP-5142.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from scheduler.queue.heap import Heap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scheduler.queue.heap import SortKey
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.snapshot.pod_info import PodInfo

#: The end of a backoff that a pod does not have: always over.
NO_BACKOFF: Final = -math.inf

#: The windows in which pods are ordered and released.
ORDERING_WINDOW_SECONDS: Final = 1.0


class BackoffQueue:
    """Two heaps by the end of the backoff, one for rejected pods and one for errors."""

    def __init__(
        self,
        *,
        initial_backoff_seconds: float,
        max_backoff_seconds: float,
        sort_key: Callable[[QueuedPodInfo], SortKey],
    ) -> None:
        self._initial_seconds: Final = initial_backoff_seconds
        self._max_seconds: Final = max_backoff_seconds
        self.pod_backoff_q: Final[Heap[QueuedPodInfo]] = Heap(
            lambda pod: (self.backoff_time(pod), *sort_key(pod))
        )
        self.pod_error_backoff_q: Final[Heap[QueuedPodInfo]] = Heap(
            lambda pod: (self.backoff_time(pod),)
        )
        self._heaps: Final = (self.pod_backoff_q, self.pod_error_backoff_q)

    def __len__(self) -> int:
        return len(self.pod_backoff_q) + len(self.pod_error_backoff_q)

    def __contains__(self, key: str) -> bool:
        return key in self.pod_backoff_q or key in self.pod_error_backoff_q

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """The pods backing off, in no particular order."""
        yield from self.pod_backoff_q
        yield from self.pod_error_backoff_q

    def in_order(self) -> list[QueuedPodInfo]:
        """The rejected pods in the order in which they leave, then those that met an error."""
        return self.pod_backoff_q.in_order() + self.pod_error_backoff_q.in_order()

    def calculate_backoff_duration(self, count: int) -> float:
        """How many seconds a pod backs off that has failed so often."""
        if count == 0:
            return 0.0
        # Compared this way round because the power may be beyond any float.
        if self._initial_seconds > math.ldexp(self._max_seconds, 1 - count):
            return self._max_seconds
        return math.ldexp(self._initial_seconds, count - 1)

    def backoff_time(self, pod: QueuedPodInfo) -> float:
        """When a pod's backoff ends, in epoch seconds; `NO_BACKOFF` if it has none.

        Worked out once, and kept in the pod until it is given back from its next attempt.
        """
        count = pod.consecutive_errors_count or pod.unschedulable_count
        if count == 0 or self._max_seconds == 0:
            return NO_BACKOFF
        if pod.backoff_expiration == 0:
            duration = self.calculate_backoff_duration(count)
            pod.backoff_expiration = _align_to_window(pod.timestamp + duration)
        return pod.backoff_expiration

    def is_pod_backing_off(self, pod: QueuedPodInfo, now: float) -> bool:
        """Whether a pod still has to wait; it does until the window of its end is over."""
        return self.backoff_time(pod) >= _align_to_window(now)

    def add(self, key: str, pod: QueuedPodInfo) -> bool:
        """Let a pod back off; False if it had to be taken out of the other heap for that."""
        has_rejectors = bool(pod.unschedulable_plugins or pod.pending_plugins)
        here, other = self._heaps if has_rejectors else reversed(self._heaps)
        here.add_or_update(key, pod)
        return other.delete(key) is None

    def update(self, key: str, pod_info: PodInfo) -> QueuedPodInfo | None:
        """Give a pod that is backing off its new object; None if it is not here."""
        for heap in self._heaps:
            if (pod := heap.get(key)) is not None:
                pod.pod_info = pod_info
                heap.add_or_update(key, pod)
                return pod
        return None

    def delete(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out; None if it is not here."""
        pod = self.pod_backoff_q.delete(key)
        return pod if pod is not None else self.pod_error_backoff_q.delete(key)

    def get(self, key: str) -> QueuedPodInfo | None:
        """A pod that is backing off; None if there is none under this key."""
        pod = self.pod_backoff_q.get(key)
        return pod if pod is not None else self.pod_error_backoff_q.get(key)

    def pop_backoff(self) -> QueuedPodInfo | None:
        """Take out the rejected pod nearest to its end, over or not; None if there is none."""
        return self.pod_backoff_q.pop()

    def pop_all_backoff_completed(self, now: float) -> list[QueuedPodInfo]:
        """Take out all pods that need not wait any longer."""
        completed = []
        for heap in self._heaps:
            while (pod := heap.peek()) is not None and not self.is_pod_backing_off(pod, now):
                heap.pop()
                completed.append(pod)
        return completed

    def release_time(self, pod: QueuedPodInfo) -> float:
        """The first moment at which a pod no longer has to wait."""
        return self.backoff_time(pod) + ORDERING_WINDOW_SECONDS

    def next_deadline(self) -> float | None:
        """When the first pod can be taken out as completed; None if nobody is here."""
        heads = [pod for heap in self._heaps if (pod := heap.peek()) is not None]
        return min(map(self.release_time, heads), default=None)

    def complaints(self) -> Iterator[str]:
        """What is wrong, one line each: nothing, unless there is a bug."""
        for heap in self._heaps:
            yield from heap.complaints()
        for pod in self.pod_backoff_q:
            if pod.key in self.pod_error_backoff_q:
                yield f"{pod.key} is in both backoff queues"
            if not pod.unschedulable_plugins and not pod.pending_plugins:
                yield f"{pod.key} backs off as rejected, but nobody rejected it"
        for pod in self.pod_error_backoff_q:
            if pod.unschedulable_plugins or pod.pending_plugins:
                yield f"{pod.key} backs off after an error, but plugins have rejected it"


def _align_to_window(seconds: float) -> float:
    return float(math.floor(seconds))
