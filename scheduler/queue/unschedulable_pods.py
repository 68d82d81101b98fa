"""Pods that wait for a reason to be tried again, gated ones among them.

There may be tens of thousands of them, and events come by the hundred each second. So each pod is
filed under its rejector plugins, and an event looks only at the pods of plugins that have
registered for it; most events look at none. A second order, by how long they have waited, finds
those that have waited too long.
Source: `backend/queue/unschedulable_pods.go`; the filing is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.queue.heap import Heap

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from scheduler.framework.types import QueuedPodInfo
    from scheduler.queue.requeueing import Interest

__all__ = ["UnschedulablePods"]

#: A profile and a plugin of it that has turned pods down.
_Rejector = tuple[str, str]

#: Where pods are filed that any event moves: nobody rejected them, or nobody knows their profile.
_ANY_EVENT: Final[_Rejector] = ("", "")


class _Waiting:
    """A pod as it was filed; so it can be found again though the pod itself has changed since."""

    __slots__ = ("is_gated", "pod", "rejectors", "turn")

    def __init__(
        self, pod: QueuedPodInfo, turn: int, rejectors: frozenset[_Rejector], *, is_gated: bool
    ) -> None:
        self.pod: Final = pod
        self.turn: Final = turn
        self.rejectors: Final = rejectors
        self.is_gated: Final = is_gated


class UnschedulablePods:
    """Waiting pods by key. `known_profiles` are those that have a queueing hint map."""

    def __init__(self, known_profiles: Container[str]) -> None:
        self._known_profiles: Final = known_profiles
        self._waiting: Final[dict[str, _Waiting]] = {}
        self._by_rejector: Final[dict[_Rejector, dict[str, _Waiting]]] = {}
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
        waiting = _Waiting(pod, turn, self._rejectors_of(pod), is_gated=pod.is_gated)
        self._waiting[key] = waiting
        self._gated_total += waiting.is_gated
        for rejector in waiting.rejectors:
            self._by_rejector.setdefault(rejector, {})[key] = waiting
        self._by_age.add_or_update(key, pod)
        return known is None

    def delete(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out; None if it is not here."""
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return None
        self._unfile(key, waiting)
        return waiting.pod

    def concerned_by(self, interest: Interest) -> list[QueuedPodInfo]:
        """The pods that an event may move, in the order in which they came.

        Those left out have no rejector plugin that has registered for the event. Those returned
        may yet be left where they are, by their gate or by the hints.
        """
        if interest.is_wildcard:
            return list(self)
        files = [
            file
            for rejector in (_ANY_EVENT, *interest.rejectors)
            if (file := self._by_rejector.get(rejector))
        ]
        if not files:
            return []
        merged = files[0] if len(files) == 1 else {k: w for file in files for k, w in file.items()}
        return [waiting.pod for waiting in sorted(merged.values(), key=lambda w: w.turn)]

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
        filed = {(rejector, key) for rejector, file in self._by_rejector.items() for key in file}
        expected = {
            (rejector, key)
            for key, waiting in self._waiting.items()
            for rejector in self._rejectors_of(waiting.pod)
        }
        for rejector, key in sorted(filed ^ expected):
            wrong = "wrongly filed" if (rejector, key) in filed else "not filed"
            yield f"{key} is {wrong} under plugin {rejector[1]} of profile {rejector[0]}"
        for key, waiting in self._waiting.items():
            pod = waiting.pod
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

    def _unfile(self, key: str, waiting: _Waiting) -> None:
        self._gated_total -= waiting.is_gated
        for rejector in waiting.rejectors:
            file = self._by_rejector[rejector]
            del file[key]
            if not file:
                del self._by_rejector[rejector]
        self._by_age.delete(key)
