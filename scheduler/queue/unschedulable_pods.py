"""Pods that wait for a reason to be tried again, gated ones among them.

There may be tens of thousands of them, and events come by the hundred each second. So pods for
which every event means the same (`Requeueing.likeness`) form a group, and each group is filed under
its rejector plugins: an event looks only at the groups of plugins that have registered for it, and
asks about one pod of each; most events look at none. A second order, by how long they have waited,
finds those that have waited too long.
Source: `backend/queue/unschedulable_pods.go`; the filing is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from scheduler.queue.heap import Heap

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterator

    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.queue.requeueing import Interest
    from scheduler.snapshot.pod_info import PodInfo

#: A profile and a plugin of it that has turned pods down.
_Rejector = tuple[str, str]

#: Where pods are filed that any event moves: nobody rejected them, or nobody knows their profile.
_ANY_EVENT: Final[_Rejector] = ("", "")


class PodGroup(Mapping[str, "QueuedPodInfo"]):
    """Waiting pods by key for which every event means the same, unless it is about one of them."""

    __slots__ = ("_members", "likeness", "rejectors", "sample")

    def __init__(
        self, likeness: Hashable, rejectors: frozenset[_Rejector], sample: PodInfo
    ) -> None:
        self.likeness: Final = likeness
        self.rejectors: Final = rejectors
        #: Whose parts the likeness may be the identities of: they must not get others' places.
        self.sample: Final = sample
        self._members: Final[dict[str, _Waiting]] = {}

    def __getitem__(self, key: str) -> QueuedPodInfo:
        return self._members[key].pod

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, key: object) -> bool:
        return key in self._members

    def add(self, key: str, waiting: _Waiting) -> None:
        """Take a pod in."""
        self._members[key] = waiting

    def remove(self, key: str) -> None:
        """Let a pod go that is here."""
        del self._members[key]


class _Waiting:
    """A pod as it was filed; so it can be found again though the pod itself has changed since."""

    __slots__ = ("group", "is_gated", "pod", "turn")

    def __init__(self, pod: QueuedPodInfo, turn: int, group: PodGroup) -> None:
        self.pod: Final = pod
        self.turn: Final = turn
        self.group: Final = group
        self.is_gated: Final = pod.is_gated


def _by_uid(pod: QueuedPodInfo) -> Hashable:
    return pod.uid


class UnschedulablePods:
    """Waiting pods by key. `known_profiles` are those that have a queueing hint map.

    `likeness` is equal for pods that any event means the same for; by default none is like another.
    """

    def __init__(
        self,
        known_profiles: Container[str],
        likeness: Callable[[QueuedPodInfo], Hashable] = _by_uid,
    ) -> None:
        self._known_profiles: Final = known_profiles
        self._likeness: Final = likeness
        self._waiting: Final[dict[str, _Waiting]] = {}
        self._groups: Final[dict[Hashable, PodGroup]] = {}
        self._by_rejector: Final[dict[_Rejector, dict[Hashable, PodGroup]]] = {}
        #: The longest waiting first.
        self._by_age: Final[Heap[QueuedPodInfo]] = Heap(lambda pod: (pod.timestamp,))
        self._turn = 0
        self._gated_total = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: str) -> bool:
        return key in self._waiting

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """The waiting pods in the order in which they came."""
        return (waiting.pod for waiting in self._waiting.values())

    @property
    def gated_total(self) -> int:
        """How many of them are gated."""
        return self._gated_total

    @property
    def unschedulable_total(self) -> int:
        """How many of them are not gated, but were tried in vain."""
        return len(self._waiting) - self._gated_total

    def get(self, key: str) -> QueuedPodInfo | None:
        """A waiting pod; None if there is none under this key."""
        waiting = self._waiting.get(key)
        return None if waiting is None else waiting.pod

    def add_or_update(self, key: str, pod: QueuedPodInfo) -> bool:
        """File a pod, or file it anew after its verdicts have changed; whether it is new here."""
        known = self._waiting.get(key)
        if known is None:
            self._turn += 1
            turn = self._turn
        else:
            turn = known.turn
            self._unfile(key, known)
        group = self._group_of(pod)
        waiting = self._waiting[key] = _Waiting(pod, turn, group)
        group.add(key, waiting)
        self._gated_total += waiting.is_gated
        self._by_age.add_or_update(key, pod)
        return known is None

    def delete(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out; None if it is not here."""
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return None
        self._unfile(key, waiting)
        return waiting.pod

    def concerned_by(self, interest: Interest) -> list[PodGroup]:
        """The groups of pods that an event may move.

        Those left out have no rejector plugin that has registered for the event. Those returned
        may yet be left where they are, by their gate or by the hints.
        """
        if interest.is_wildcard:
            return list(self._groups.values())
        return list(
            {
                likeness: group
                for rejector in (_ANY_EVENT, *interest.rejectors)
                for likeness, group in self._by_rejector.get(rejector, {}).items()
            }.values()
        )

    def turn_of(self, pod: QueuedPodInfo) -> int:
        """A number that is smaller for pods that came earlier; the pod must be here."""
        return self._waiting[pod.key].turn

    def overdue(self, now: float, wait_seconds_max: float) -> list[QueuedPodInfo]:
        """The pods that have waited longer than that, gated ones too, the longest waiting first."""
        oldest = self._by_age.peek()
        if oldest is None or now - oldest.timestamp <= wait_seconds_max:
            return []
        pods = [pod for pod in self if now - pod.timestamp > wait_seconds_max]
        return sorted(pods, key=lambda pod: pod.timestamp)

    def oldest(self) -> QueuedPodInfo | None:
        """The pod that has waited longest; None if there is none."""
        return self._by_age.peek()

    def complaints(self) -> Iterator[str]:
        """What is wrong, one line each: nothing, unless there is a bug."""
        yield from self._by_age.complaints()
        filed = {
            (rejector, key)
            for rejector, file in self._by_rejector.items()
            for group in file.values()
            for key in group
        }
        expected = {
            (rejector, key)
            for key, waiting in self._waiting.items()
            for rejector in self._rejectors_of(waiting.pod)
        }
        for rejector, key in sorted(filed ^ expected):
            wrong = "wrongly filed" if (rejector, key) in filed else "not filed"
            yield f"{key} is {wrong} under plugin {rejector[1]} of profile {rejector[0]}"
        if not all(self._groups.values()):
            yield "there is a group of no pods"
        for key, waiting in self._waiting.items():
            pod = waiting.pod
            if waiting.group.likeness != self._likeness(pod):
                yield f"{key} is no longer like the pods that it is filed with"
            if key != pod.key:
                yield f"{pod.key} waits under the key {key}"
            if waiting.is_gated != pod.is_gated:
                yield f"{key} is counted as gated: {waiting.is_gated}, but is: {pod.is_gated}"
            if pod.is_gated and pod.gating_plugin not in pod.unschedulable_plugins:
                yield f"{key} is gated by {pod.gating_plugin}, which is none of its rejectors"
            if self._by_age.get(key) is not pod:
                yield f"{key} will never be flushed"
        if self._gated_total != sum(pod.is_gated for pod in self):
            yield f"{self._gated_total} pods are counted as gated"

    def _rejectors_of(self, pod: QueuedPodInfo) -> frozenset[_Rejector]:
        profile = pod.pod_info.spec.scheduler_name
        plugins = pod.unschedulable_plugins | pod.pending_plugins
        if not plugins or profile not in self._known_profiles:
            return frozenset((_ANY_EVENT,))
        return frozenset((profile, plugin) for plugin in plugins)

    def _group_of(self, pod: QueuedPodInfo) -> PodGroup:
        """The group that a pod belongs to, which may be a new one."""
        likeness = self._likeness(pod)
        group = self._groups.get(likeness)
        if group is None:
            group = PodGroup(likeness, self._rejectors_of(pod), pod.pod_info)
            self._groups[likeness] = group
            for rejector in group.rejectors:
                self._by_rejector.setdefault(rejector, {})[likeness] = group
        return group

    def _unfile(self, key: str, waiting: _Waiting) -> None:
        self._gated_total -= waiting.is_gated
        group = waiting.group
        group.remove(key)
        if not group:
            del self._groups[group.likeness]
            for rejector in group.rejectors:
                file = self._by_rejector[rejector]
                del file[group.likeness]
                if not file:
                    del self._by_rejector[rejector]
        self._by_age.delete(key)
