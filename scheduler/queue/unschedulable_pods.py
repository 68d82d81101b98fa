"""Pods that wait for an event, gated pods included.

There may be tens of thousands of such pods and hundreds of events each second. So pods that get the
same answers from all queueing hints (`QueueingHints.hint_group_key`) form a group, and each group
is indexed by its rejector plugins: an event looks up the groups of the plugins that have registered
for it, and calls the hints for one pod of each group; most events find no group. A heap by the time
of waiting finds the pods that have waited too long.
Source: `backend/queue/unschedulable_pods.go`; the groups and the index are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from scheduler.queue.heap import Heap
from scheduler.queue.queued_pod_info import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from scheduler.queue.hints import RegisteredHints
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.snapshot.pod_info import PodInfo

#: A profile and a plugin of it that has rejected pods.
Rejector = tuple[str, str]

#: The number of a pod's arrival among the unschedulable pods, and the pod's key.
Arrival = tuple[int, str]

#: Looked up once: each look-up of a member costs as much as the call of a function.
_GATED: Final = Place.GATED

#: The index entry of pods that any event moves.
_ANY_EVENT: Final[Rejector] = ("", "")


class AlikePods(Mapping[str, "QueuedPodInfo"]):
    """Waiting pods by key that get equal answers from all hints, in the order of arrival."""

    __slots__ = ("_members", "hint_group_key", "rejectors", "sample")

    def __init__(
        self, hint_group_key: Hashable, rejectors: frozenset[Rejector], sample: PodInfo
    ) -> None:
        self.hint_group_key: Final = hint_group_key
        self.rejectors: Final = rejectors
        #: Keeps a pod alive: the key may hold the `id()` of its parts, which must not be reused.
        self.sample: Final = sample
        self._members: Final[dict[str, _Entry]] = {}

    def __getitem__(self, key: str) -> QueuedPodInfo:
        return self._members[key].pod

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, key: object) -> bool:
        return key in self._members

    def add(self, key: str, entry: _Entry) -> None:
        self._members[key] = entry

    def remove(self, key: str) -> None:
        del self._members[key]


class _Entry:
    """A pod with the group it was added to, which stays valid when the pod itself changes."""

    __slots__ = ("arrival", "group", "pod")

    def __init__(self, pod: QueuedPodInfo, arrival: int, group: AlikePods) -> None:
        self.pod: Final = pod
        self.arrival: Final = arrival
        self.group: Final = group


class UnschedulablePods:
    """Waiting pods by key.

    `rejectors_of` returns the plugins whose events move a pod; without a plugin any event moves
    the pod. Pods with the same `hint_group_key` form a group. With `waits_anew` a gated pod that a
    flush has found waits for the whole time again, as since 1.37; otherwise each flush finds it.
    """

    def __init__(
        self,
        rejectors_of: Callable[[QueuedPodInfo], frozenset[Rejector]],
        hint_group_key: Callable[[QueuedPodInfo], Hashable],
        *,
        waits_anew: bool = False,
    ) -> None:
        self._waits_anew: Final = waits_anew
        self._rejectors_of: Final = rejectors_of
        self._hint_group_key: Final = hint_group_key
        self._entries: Final[dict[str, _Entry]] = {}
        self._groups: Final[dict[Hashable, AlikePods]] = {}
        self._by_rejector: Final[dict[Rejector, dict[Hashable, AlikePods]]] = {}
        #: The longest waiting first.
        self._by_age: Final[Heap[QueuedPodInfo]] = Heap(lambda pod: (pod.waits_since,))
        self._arrivals = 0
        self.gated_total = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Iterate over the pods in the order of arrival."""
        return (entry.pod for entry in self._entries.values())

    @property
    def unschedulable_total(self) -> int:
        """The number of pods that are not gated."""
        return len(self._entries) - self.gated_total

    def in_order(self) -> list[QueuedPodInfo]:
        return list(self)

    def get(self, key: str) -> QueuedPodInfo | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.pod

    def add(self, pod: QueuedPodInfo) -> bool:
        """Add a pod, or index it anew after a change. Return True if its key is new here."""
        key = pod.key
        old = self._entries.get(key)
        if old is None:
            self._arrivals += 1
            arrival = self._arrivals
        else:
            arrival = old.arrival
            self._remove_from_group(key, old)
            self._by_age.delete(key)
        pod.place = Place.GATED if pod.is_gated else Place.UNSCHEDULABLE
        group = self._group_of(pod)
        entry = self._entries[key] = _Entry(pod, arrival, group)
        group.add(key, entry)
        self.gated_total += pod.place == Place.GATED
        self._by_age.add_or_update(key, pod)
        return old is None

    def delete(self, key: str) -> QueuedPodInfo | None:
        """Remove a pod; None if it is not unschedulable."""
        entry = self._entries.get(key)
        return None if entry is None else self.take(((entry.arrival, key),))[0]

    def arrivals(self, keys: Iterable[str]) -> list[Arrival]:
        """Return the arrivals of these pods in order; all must be unschedulable."""
        entries = self._entries
        return sorted((entries[key].arrival, key) for key in keys)

    def take(self, arrivals: Iterable[Arrival]) -> list[QueuedPodInfo]:
        """Remove and return the pods with these arrivals that have not left since."""
        pods, keys = [], []
        for arrival, key in arrivals:
            entry = self._entries.get(key)
            if entry is not None and entry.arrival == arrival:
                del self._entries[key]
                self._remove_from_group(key, entry)
                pods.append(entry.pod)
                keys.append(key)
        self._by_age.delete_all(keys)
        return pods

    def groups_for(self, registered: RegisteredHints) -> list[AlikePods]:
        """Return the groups of pods that an event may move.

        Groups are left out if none of their rejectors has registered for the event. The returned
        groups may still stay, because of their gate or of the hints.
        """
        if registered.is_wildcard:
            return list(self._groups.values())
        return list(
            {
                key: group
                for rejector in (_ANY_EVENT, *registered.rejectors)
                for key, group in self._by_rejector.get(rejector, {}).items()
            }.values()
        )

    def overdue(self, now: float, max_wait_seconds: float) -> list[QueuedPodInfo]:
        """Return the pods that have waited for longer, the longest waiting first."""
        oldest = self._by_age.peek()
        if oldest is None or now - oldest.waits_since <= max_wait_seconds:
            return []
        pods = [pod for pod in self if now - pod.waits_since > max_wait_seconds]
        return sorted(pods, key=lambda pod: pod.waits_since)

    def begin_flush(self, pods: Iterable[QueuedPodInfo], now: float) -> None:
        """Note that a flush has found these pods."""
        for pod in pods:
            pod.was_flushed_from_unschedulable = True
            if self._waits_anew:
                pod.flushed_at = now
                self._by_age.add_or_update(pod.key, pod)

    def end_flush(self, pods: Iterable[QueuedPodInfo]) -> None:
        """Since 1.37: whatever brings back a pod that is still gated, it is not this flush."""
        for pod in pods:
            pod.was_flushed_from_unschedulable = not (self._waits_anew and pod.is_gated)

    def in_groups(self, pods: Iterable[QueuedPodInfo]) -> Iterator[Mapping[str, QueuedPodInfo]]:
        """Yield these pods by key: a group of which all pods are given as it is, others alone.

        A part of a group would have to be kept as long as the stories of its pods.
        """
        given: dict[int, list[_Entry]] = {}
        for pod in pods:
            entry = self._entries[pod.key]
            given.setdefault(id(entry.group), []).append(entry)
        for entries in given.values():
            if len(entries) == len(entries[0].group):
                yield entries[0].group
            else:
                yield from ({entry.pod.key: entry.pod} for entry in entries)

    @property
    def oldest_timestamp(self) -> float | None:
        """The time since which the longest waiting pod waits; None if no pod waits."""
        oldest = self._by_age.peek()
        return None if oldest is None else oldest.waits_since

    def complaints(self) -> Iterator[str]:
        """Yield a line for each broken invariant."""
        yield from self._by_age.complaints()
        yield from self._index_complaints()
        if not all(self._groups.values()):
            yield "there is a group of no pods"
        for key, entry in self._entries.items():
            pod = entry.pod
            if entry.group.hint_group_key != self._hint_group_key(pod):
                yield f"{key} is in a group whose key differs from its own"
            if key != pod.key:
                yield f"{pod.key} waits under the key {key}"
            if (is_counted := pod.place == Place.GATED) != pod.is_gated:
                yield f"{key} is counted as gated: {is_counted}, but is: {pod.is_gated}"
            if pod.is_gated and pod.gating_plugin not in pod.unschedulable_plugins:
                yield f"{key} is gated by {pod.gating_plugin}, which is none of its rejectors"
            if self._by_age.get(key) is not pod:
                yield f"{key} will never be flushed"
        if self.gated_total != sum(pod.is_gated for pod in self):
            yield f"{self.gated_total} pods are counted as gated"

    def _index_complaints(self) -> Iterator[str]:
        indexed = {
            (rejector, key)
            for rejector, groups in self._by_rejector.items()
            for group in groups.values()
            for key in group
        }
        expected = {
            (rejector, key)
            for key, entry in self._entries.items()
            for rejector in self._rejectors_of(entry.pod) or (_ANY_EVENT,)
        }
        for rejector, key in sorted(indexed ^ expected):
            wrong = "wrongly filed" if (rejector, key) in indexed else "not filed"
            yield f"{key} is {wrong} under plugin {rejector[1]} of profile {rejector[0]}"

    def _group_of(self, pod: QueuedPodInfo) -> AlikePods:
        """Return the group of a pod; make it if it does not exist yet."""
        key = self._hint_group_key(pod)
        group = self._groups.get(key)
        if group is None:
            rejectors = self._rejectors_of(pod) or frozenset((_ANY_EVENT,))
            group = self._groups[key] = AlikePods(key, rejectors, pod.pod_info)
            for rejector in rejectors:
                self._by_rejector.setdefault(rejector, {})[key] = group
        return group

    def _remove_from_group(self, key: str, entry: _Entry) -> None:
        self.gated_total -= entry.pod.place == _GATED
        group = entry.group
        group.remove(key)
        if not group:
            del self._groups[group.hint_group_key]
            for rejector in group.rejectors:
                groups = self._by_rejector[rejector]
                del groups[group.hint_group_key]
                if not groups:
                    del self._by_rejector[rejector]
