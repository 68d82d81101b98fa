"""The pods that an event moves out of the unschedulable ones, a part at a time.

An event may move tens of thousands of pods, which holds the event loop. The pods to move are chosen
at once. They leave in parts, in the order of arrival; the others wait where they are. All chosen
pods leave before the next pod is popped (`PriorityQueue.pop_nowait`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.queue.hints import Decision
    from scheduler.queue.pod_mover import PodMover
    from scheduler.queue.queued_pod_info import Move
    from scheduler.queue.unschedulable_pods import Arrival, UnschedulablePods


class _Part(NamedTuple):
    """Some of the pods that an event moves, and the time of the event in epoch seconds."""

    arrivals: Sequence[Arrival]
    decision_of: Mapping[str, Decision]
    event_label: str
    now: float


class Requeues:
    """The parts of at most `pods_max` pods that have not left yet, the oldest event first."""

    def __init__(
        self, unschedulable_pods: UnschedulablePods, mover: PodMover, pods_max: int
    ) -> None:
        self.pods_max: Final = pods_max
        self._unschedulable_pods: Final = unschedulable_pods
        self._mover: Final = mover
        self._parts: Final[deque[_Part]] = deque()

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, decision_of: Mapping[str, Decision], event_label: str, now: float) -> None:
        """Add pods that an event moves, with the decision for each key."""
        arrivals = self._unschedulable_pods.arrivals(decision_of)
        for start in range(0, len(arrivals), self.pods_max):
            part = arrivals[start : start + self.pods_max]
            self._parts.append(_Part(part, decision_of, event_label, now))

    def move_some(self) -> list[Move]:
        """Move the pods of the next part that have not left since the event."""
        if not self._parts:
            return []
        part = self._parts.popleft()
        taken = self._unschedulable_pods.take(part.arrivals)
        return self._mover.requeue_all(taken, part.decision_of, part.event_label, part.now)
