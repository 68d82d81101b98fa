"""The pods to be tried next, and those that are being tried.

`active_q` proper is a heap in the order of the queue-sort plugin. A pod that is popped becomes *in
flight* until it is given back or done with. What happens in the meantime is kept in one list, in
which popped pods and events stand in the order of time:

    pop p1    event A    event B    pop p2    event C
      |          |          |         |          |
      v          v          v         v          v
    [ p1         A          B         p2         C ]
                 ^---- p1 missed A, B, C         ^---- p2 missed C

A pod that was turned down is shown the events after its own entry: any of them may have come too
late for its attempt, and would otherwise be lost. When a pod leaves the list, the events before the
first remaining pod leave with it; so the list never starts with an event.
Source: `backend/queue/active_queue.go`.
"""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.queue.heap import Heap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scheduler.framework.events import ClusterEvent
    from scheduler.queue.heap import SortKey
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.snapshot.pod_info import PodInfo


#: What a pod in flight is called among the events that are kept (`PodPoppedInFlightEvent`).
_POD_POPPED: Final = "PodPopped"


class InFlightEvent(NamedTuple):
    """An event that happened while pods were in flight, with the objects it is about."""

    event: ClusterEvent
    old_obj: object
    new_obj: object


class ActiveQueue:
    """The heap of active pods, and the list of pods and events in flight.

    `scheduling_cycle` counts the pods that were ever popped.
    """

    def __init__(self, sort_key: Callable[[QueuedPodInfo], SortKey]) -> None:
        self._heap: Final[Heap[QueuedPodInfo]] = Heap(sort_key)
        #: Pods and events in flight, by a number that only ever grows.
        self._in_flight: Final[OrderedDict[int, QueuedPodInfo | InFlightEvent]] = OrderedDict()
        #: Where each pod in flight stands, by uid.
        self._position_of: Final[dict[str, int]] = {}
        self._positions: Final = itertools.count()
        #: The kinds of events that were ever kept, and pods once there was one.
        self._labels: Final[dict[str, None]] = {}
        self.scheduling_cycle = 0

    # The heap.

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, key: str) -> bool:
        return key in self._heap

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """The active pods, in no particular order."""
        return iter(self._heap)

    def add(self, key: str, pod: QueuedPodInfo) -> None:
        """Make a pod active; it takes the place of one with the same key."""
        self._heap.add_or_update(key, pod)

    def update(self, key: str, pod_info: PodInfo) -> QueuedPodInfo | None:
        """Give an active pod its new object; None if it is not active."""
        pod = self._heap.get(key)
        if pod is not None:
            pod.pod_info = pod_info
            self._heap.add_or_update(key, pod)
        return pod

    def delete(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out; None if it is not active."""
        return self._heap.delete(key)

    def get(self, key: str) -> QueuedPodInfo | None:
        """An active pod; None if there is none under this key."""
        return self._heap.get(key)

    def pop(self) -> QueuedPodInfo | None:
        """Take out the pod to be tried next; None if none is active. It is not yet in flight."""
        return self._heap.pop()

    def in_order(self) -> list[QueuedPodInfo]:
        """The active pods in the order in which they would be popped."""
        return self._heap.in_order()

    # In flight.

    def move_pod_to_in_flight(self, pod: QueuedPodInfo) -> bool:
        """A popped pod is on its way; False if it is under way already, and must be dropped.

        That would be a bug elsewhere, but overwriting its entry would leak the list with it.
        """
        pod.attempts += 1
        uid = pod.uid
        if uid in self._position_of:
            return False
        self.scheduling_cycle += 1
        self._labels[_POD_POPPED] = None
        position = next(self._positions)
        self._in_flight[position] = pod
        self._position_of[uid] = position
        return True

    def is_in_flight(self, uid: str) -> bool:
        """Whether a pod was popped and is not done."""
        return uid in self._position_of

    def done(self, uid: str) -> QueuedPodInfo | None:
        """A pod's attempt is over, and so is the need of events that only it was waiting for.

        Returns None if it was done already.
        """
        position = self._position_of.pop(uid, None)
        if position is None:
            return None
        pod = self._in_flight.pop(position)
        while self._in_flight:
            first = next(iter(self._in_flight.values()))
            if not isinstance(first, InFlightEvent):
                break
            self._in_flight.popitem(last=False)
        return None if isinstance(pod, InFlightEvent) else pod

    def add_event_if_any_in_flight(
        self, event: ClusterEvent, old_obj: object, new_obj: object
    ) -> bool:
        """Keep an event for the pods in flight; False, and nothing kept, if there are none."""
        if not self._position_of:
            return False
        self._labels[event.label] = None
        self._in_flight[next(self._positions)] = InFlightEvent(event, old_obj, new_obj)
        return True

    def add_events_if_pod_in_flight(
        self, uid: str, old_obj: object, new_obj: object, events: Iterable[ClusterEvent]
    ) -> bool:
        """Keep events about a pod in flight; False, and nothing kept, if it is not in flight."""
        if uid not in self._position_of:
            return False
        for event in events:
            self._labels[event.label] = None
            self._in_flight[next(self._positions)] = InFlightEvent(event, old_obj, new_obj)
        return True

    def cluster_events_for_pod(self, uid: str) -> list[InFlightEvent] | None:
        """What happened since a pod was popped, in order; None if it is not in flight."""
        position = self._position_of.get(uid)
        if position is None:
            return None
        # From the end, because only there can an ordered dictionary be entered.
        missed = [
            entry
            for _, entry in itertools.takewhile(
                lambda item: item[0] > position, reversed(self._in_flight.items())
            )
            if isinstance(entry, InFlightEvent)
        ]
        missed.reverse()
        return missed

    def in_flight_pods(self) -> list[QueuedPodInfo]:
        """The pods in flight, the first popped first."""
        return [pod for pod in self._in_flight.values() if not isinstance(pod, InFlightEvent)]

    def in_flight_events(self) -> Sequence[QueuedPodInfo | InFlightEvent]:
        """The whole list of pods and events in flight."""
        return tuple(self._in_flight.values())

    @property
    def in_flight_pods_total(self) -> int:
        """How many pods are in flight."""
        return len(self._position_of)

    @property
    def in_flight_events_total(self) -> int:
        """How many events are kept for them."""
        return len(self._in_flight) - len(self._position_of)

    def in_flight_by_label(self) -> Counter[tuple[str, ...]]:
        """How many events of each kind are kept, and pods in flight, as metrics count them."""
        counts: Counter[tuple[str, ...]] = Counter({(label,): 0 for label in self._labels})
        for entry in self._in_flight.values():
            label = entry.event.label if isinstance(entry, InFlightEvent) else _POD_POPPED
            counts[(label,)] += 1
        return counts

    def close(self) -> None:
        """Forget all that is in flight; for the end."""
        self._position_of.clear()
        self._in_flight.clear()

    def complaints(self) -> Iterator[str]:
        """What is wrong, one line each: nothing, unless there is a bug."""
        yield from self._heap.complaints()
        entries = list(self._in_flight.items())
        if entries and isinstance(entries[0][1], InFlightEvent):
            yield f"event {entries[0][1].event.label} is kept for no pod in flight"
        if [position for position, _ in entries] != sorted(self._in_flight):
            yield "the list of pods and events in flight is out of order"
        positions = {p for p, entry in entries if not isinstance(entry, InFlightEvent)}
        if positions != set(self._position_of.values()):
            yield f"pods in flight stand at {positions}, not at {self._position_of}"


class _Turn:
    """A pod's place among others by a `less` function: what stands in for a sort key.

    It holds a copy of the pod: a place that is no longer valid may stay in a heap for a while, and
    must not move when the pod changes.
    """

    __slots__ = ("less", "number", "pod")

    def __init__(
        self, less: Callable[[QueuedPodInfo, QueuedPodInfo], bool], number: int, pod: QueuedPodInfo
    ) -> None:
        self.less: Final = less
        self.number: Final = number
        self.pod: Final = pod

    def __lt__(self, other: _Turn) -> bool:
        if self.less(self.pod, other.pod):
            return True
        return self.number < other.number and not self.less(other.pod, self.pod)


def sort_key_of_less(
    less: Callable[[QueuedPodInfo, QueuedPodInfo], bool],
) -> Callable[[QueuedPodInfo], SortKey]:
    """A sort key for queue-sort plugins that only have `less`; equals come in order of arrival.

    Several times slower than a sort key of numbers: each comparison calls the plugin.
    """
    numbers = itertools.count()
    return lambda pod: (_Turn(less, next(numbers), pod.clone()),)
