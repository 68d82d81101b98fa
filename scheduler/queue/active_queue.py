"""The pods that are scheduled next, and the pods that are being scheduled.

`ActiveQueue` is a heap in the order of the queue-sort plugin. A pod that is popped is *in flight*
until it is given back or done. `InFlight` keeps what happens meanwhile in one list, with popped
pods and events in the order of time:

    pop p1    event A    event B    pop p2    event C
      |          |          |         |          |
      v          v          v         v          v
    [ p1         A          B         p2         C ]
                 ^---- p1 missed A, B, C         ^---- p2 missed C

When a pod is given back, the events after its own entry decide where it goes: its attempt may not
have seen them. When a pod leaves the list, the events before the first remaining pod are removed;
so the list never starts with an event.
Source: `backend/queue/active_queue.go`.
"""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.queue.heap import Heap
from scheduler.queue.queued_pod_info import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set

    from scheduler.framework.events import ClusterEvent
    from scheduler.queue.heap import Entry, SortKey
    from scheduler.queue.queued_pod_info import QueuedPodInfo


#: Looked up once: each look-up of a member costs as much as the call of a function.
_ACTIVE: Final = Place.ACTIVE
#: The metrics label of a pod in flight (`PodPoppedInFlightEvent`).
_POD_POPPED: Final = "PodPopped"


class ActiveQueue(Heap["QueuedPodInfo"]):
    """The heap of active pods."""

    __slots__ = ()

    def add(self, pod: QueuedPodInfo) -> bool:
        """Add a pod, or replace the pod with its key. Always counts as an arrival."""
        pod.place = _ACTIVE
        self.add_or_update(pod.key, pod)
        return True


class ChangingActiveQueue(ActiveQueue):
    """The active pods in an order that changes while they wait: all are compared at each pop."""

    __slots__ = ()

    def peek(self) -> QueuedPodInfo | None:
        first = min(self._items.values(), key=self._key, default=None)
        return None if first is None else first[1]

    def pop(self) -> QueuedPodInfo | None:
        first = self.peek()
        return None if first is None else self.delete(first.key)

    def in_order(self) -> list[QueuedPodInfo]:
        return [pod for _, pod in sorted(self._items.values(), key=self._key)]

    def _key(self, item: tuple[Entry, QueuedPodInfo]) -> tuple[SortKey, int]:
        entry, pod = item
        return self.sort_key(pod), entry[1]


class InFlightEvent(NamedTuple):
    """An event that happened while pods were in flight, with the objects it is about."""

    event: ClusterEvent
    old_obj: object
    new_obj: object


class InFlight:
    """The list of pods and events in flight. Pods are known by uid."""

    def __init__(self) -> None:
        #: Pods and events by a number that only grows.
        self._entries: Final[OrderedDict[int, QueuedPodInfo | InFlightEvent]] = OrderedDict()
        #: The number of each pod, by uid.
        self._position_of: Final[dict[str, int]] = {}
        self._positions: Final = itertools.count()
        #: The labels of all entries there have ever been.
        self._labels: Final[dict[str, None]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._position_of

    def __len__(self) -> int:
        return len(self._position_of)

    @property
    def uids(self) -> Set[str]:
        """The uids of the pods. A view."""
        return self._position_of.keys()

    @property
    def uids_with_events(self) -> Collection[str]:
        """The uids of the pods for which events are kept. A view."""
        return self.uids

    def add(self, pod: QueuedPodInfo) -> bool:
        """Add a popped pod and count the attempt. Return False if its uid is in flight already.

        That would be a bug elsewhere; overwriting the entry would leak it and its events.
        """
        pod.attempts += 1
        uid = pod.uid
        if uid in self._position_of:
            return False
        pod.place = Place.IN_FLIGHT
        self._labels[_POD_POPPED] = None
        self._position_of[uid] = position = next(self._positions)
        self._entries[position] = pod
        return True

    def done(self, uid: str) -> QueuedPodInfo | None:
        """Remove a pod, and the events that no other pod has missed; None for unknown pods."""
        position = self._position_of.pop(uid, None)
        if position is None:
            return None
        pod = self._entries.pop(position)
        assert not isinstance(pod, InFlightEvent), "positions are those of pods"
        while self._entries:
            first = next(iter(self._entries.values()))
            if not isinstance(first, InFlightEvent):
                break
            self._entries.popitem(last=False)
        return pod

    def add_event(self, event: ClusterEvent, old_obj: object, new_obj: object) -> None:
        """Keep an event for the pods in flight; a no-op if there are none."""
        if self._position_of:
            self._labels[event.label] = None
            self._entries[next(self._positions)] = InFlightEvent(event, old_obj, new_obj)

    def add_events_for(
        self, uid: str, old_obj: object, new_obj: object, events: Iterable[ClusterEvent]
    ) -> bool:
        """Keep events about a pod in flight; keep nothing and return False for other pods."""
        if uid not in self._position_of:
            return False
        for event in events:
            self.add_event(event, old_obj, new_obj)
        return True

    def missed_by(self, uid: str) -> list[InFlightEvent] | None:
        """Return the events since a pod was popped, in order; None if it is not in flight."""
        position = self._position_of.get(uid)
        if position is None:
            return None
        # From the end: an ordered dictionary cannot be entered in the middle.
        missed = [
            entry
            for _, entry in itertools.takewhile(
                lambda item: item[0] > position, reversed(self._entries.items())
            )
            if isinstance(entry, InFlightEvent)
        ]
        missed.reverse()
        return missed

    def pods(self) -> list[QueuedPodInfo]:
        """Return the pods in flight, the first popped first."""
        return [pod for pod in self._entries.values() if not isinstance(pod, InFlightEvent)]

    def entries(self) -> Sequence[QueuedPodInfo | InFlightEvent]:
        """Return the whole list of pods and events in flight."""
        return tuple(self._entries.values())

    @property
    def events_total(self) -> int:
        return len(self._entries) - len(self._position_of)

    def by_label(self) -> Counter[tuple[str, ...]]:
        """Count the events by label, and the pods, as upstream's metric does."""
        counts: Counter[tuple[str, ...]] = Counter({(label,): 0 for label in self._labels})
        for entry in self._entries.values():
            label = entry.event.label if isinstance(entry, InFlightEvent) else _POD_POPPED
            counts[(label,)] += 1
        return counts

    def complaints(self) -> Iterator[str]:
        """Yield a line for each broken invariant."""
        entries = list(self._entries.items())
        if entries and isinstance(entries[0][1], InFlightEvent):
            yield f"event {entries[0][1].event.label} is kept for no pod in flight"
        if [position for position, _ in entries] != sorted(self._entries):
            yield "the list of pods and events in flight is out of order"
        positions = {p for p, entry in entries if not isinstance(entry, InFlightEvent)}
        if positions != set(self._position_of.values()):
            yield f"pods in flight stand at {positions}, not at {self._position_of}"


class UntrackedInFlight(InFlight):
    """Pods in flight without the events that they miss: SchedulerQueueingHints is off.

    All that is known is if an event came since the last pod was popped. A pod that changes while it
    is in flight enters the queue a second time, and may be popped again.
    """

    def __init__(self) -> None:
        super().__init__()
        #: Upstream compares the numbers of two cycles: `moveRequestCycle`, `schedCycle`.
        self.had_event = False

    @property
    def uids_with_events(self) -> Collection[str]:
        return ()

    def add(self, pod: QueuedPodInfo) -> bool:
        self.had_event = False
        self.done(pod.uid)
        return super().add(pod)

    def add_event(self, event: ClusterEvent, old_obj: object, new_obj: object) -> None:
        self.had_event = True

    def add_events_for(
        self, uid: str, old_obj: object, new_obj: object, events: Iterable[ClusterEvent]
    ) -> bool:
        return False


class _LessKey:
    """A sort key that compares pods with the `less` function of a queue-sort plugin.

    It holds a copy of the pod: an outdated entry may stay in a heap for a while, and its order must
    not change when the pod does.
    """

    __slots__ = ("less", "number", "pod")

    def __init__(
        self, less: Callable[[QueuedPodInfo, QueuedPodInfo], bool], number: int, pod: QueuedPodInfo
    ) -> None:
        self.less: Final = less
        self.number: Final = number
        self.pod: Final = pod

    def __lt__(self, other: _LessKey) -> bool:
        if self.less(self.pod, other.pod):
            return True
        return self.number < other.number and not self.less(other.pod, self.pod)


def sort_key_from_less(
    less: Callable[[QueuedPodInfo, QueuedPodInfo], bool],
) -> Callable[[QueuedPodInfo], SortKey]:
    """Return a sort key for a queue-sort plugin that only has `less`; equal pods are first come.

    Several times slower than a sort key of numbers: each comparison calls the plugin.
    """
    numbers = itertools.count()
    return lambda pod: (_LessKey(less, next(numbers), pod.clone()),)
