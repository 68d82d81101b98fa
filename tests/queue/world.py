"""A queue with a clock that stands still, and plugins that say what they are told to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.api.core import Pod
from scheduler.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
from scheduler.framework.status import unresolvable
from scheduler.queue import PriorityQueue, QueueingHintFunction
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.framework.events import QueueingHintFn
    from scheduler.framework.status import Status
    from scheduler.queue import PodMove, PodsStay

PROFILE: Final = "default-scheduler"
START: Final = 1_767_225_600.0

LOW, MID, HIGH = 0, 500, 1000

NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_LABEL: Final = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
PV_ADD: Final = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.ADD)
PV_UPDATE: Final = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.UPDATE)
PVC_ADD: Final = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD)
CSI_NODE_UPDATE: Final = ClusterEvent(EventResource.CSI_NODE, ActionType.UPDATE)

#: What the informers say of any pod where a test does not care.
_SOME_POD: Final = Pod()

#: Hints by the event they are registered for; each is a plugin's name and its hint.
Hints = dict[ClusterEvent, list[tuple[str, "QueueingHintFn"]]]


def queue(pod: PodInfo, old: object, new: object) -> QueueingHint:
    return QueueingHint.QUEUE


def skip(pod: PodInfo, old: object, new: object) -> QueueingHint:
    return QueueingHint.QUEUE_SKIP


def fail(pod: PodInfo, old: object, new: object) -> QueueingHint:
    raise RuntimeError("unexpected error")


def never(pod: PodInfo, old: object, new: object) -> QueueingHint:
    raise AssertionError("this hint must not be asked")


def less(first: QueuedPodInfo, second: QueuedPodInfo) -> bool:
    """PrioritySort's order."""
    p1, p2 = first.pod_info.priority, second.pod_info.priority
    return p1 > p2 or (p1 == p2 and first.timestamp < second.timestamp)


def sort_key(pod: QueuedPodInfo) -> tuple[int, float]:
    """The same order as a tuple."""
    return (-pod.pod_info.priority, pod.timestamp)


class LabelGate:
    """Lets only pods pass that have one of these labels, as upstream's test plugin does."""

    def __init__(self, *allowed: str, name: str = "preEnqueuePlugin") -> None:
        self.name = name
        self.allowed: Sequence[str] = allowed
        self.asked: list[str] = []

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        self.asked.append(pod.name)
        if any(label in self.allowed for label in pod.labels):
            return None
        return unresolvable("pod name not in allowlists")


class SchedulingGates:
    """The in-tree plugin's rule."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        return unresolvable(f"waiting for scheduling gates: {gates}") if gates else None


def hint_map(hints: Hints) -> dict[ClusterEvent, list[QueueingHintFunction]]:
    return {
        event: [QueueingHintFunction(plugin, hint) for plugin, hint in functions]
        for event, functions in hints.items()
    }


def waiting(
    pod: Pod,
    *rejectors: str,
    pending: Iterable[str] = (),
    timestamp: float = START,
    unschedulable_count: int = 0,
) -> QueuedPodInfo:
    """A pod as it comes back from an attempt, or waits after one."""
    info = QueuedPodInfo(PodInfo(pod), timestamp=timestamp)
    info.unschedulable_plugins = set(rejectors)
    info.pending_plugins = set(pending)
    info.unschedulable_count = unschedulable_count
    return info


class World:
    """A queue, the time, and what the queue has said so far. Checks the queue when asked to."""

    def __init__(
        self,
        hints: Hints | None = None,
        *,
        gates: Sequence[object] = (),
        profiles: Sequence[str] = (PROFILE,),
        by_less_only: bool = False,
        listed: Iterable[Pod] | None = None,
        namespace_labels: Mapping[str, Mapping[str, str]] | None = None,
        watched: bool = False,
        initial_backoff_seconds: float = 1.0,
        max_backoff_seconds: float = 10.0,
        max_in_unschedulable_pods_seconds: float = 300.0,
    ) -> None:
        self.now = START
        self.ready = 0
        self.deadlines = 0
        self.moves: list[PodMove] = []
        #: What the informers know; None if they know every pod that is asked about.
        self.listed = None if listed is None else {pod.key: pod for pod in listed}
        labels = namespace_labels or {}
        self.queue: Final = PriorityQueue(
            less,
            sort_key=None if by_less_only else sort_key,
            pre_enqueue_plugins=dict.fromkeys(profiles, tuple(gates)),  # type: ignore[arg-type]
            queueing_hint_map=dict.fromkeys(profiles, hint_map(hints or {})),
            pod_lister=self._list,
            namespace_labels=lambda namespace: labels.get(namespace, {}),
            on_ready=self._on_ready,
            on_deadline=self._on_deadline,
            observer=self if watched else None,
            initial_backoff_seconds=initial_backoff_seconds,
            max_backoff_seconds=max_backoff_seconds,
            max_in_unschedulable_pods_seconds=max_in_unschedulable_pods_seconds,
        )

    def pod_moved(self, move: PodMove) -> None:
        self.moves.append(move)

    def pods_stay(self, stay: PodsStay) -> None:
        self.moves.extend(stay.moves())

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.queue.add(PodInfo(pod), self.now)

    def update(self, old: Pod, new: Pod) -> None:
        self.queue.update(old, PodInfo(new), self.now)

    def pop(self) -> QueuedPodInfo:
        info = self.queue.pop_nowait(self.now)
        assert info is not None, "nothing to pop"
        return info

    def pop_names(self) -> list[str]:
        """Pop all there is."""
        names = []
        while (info := self.queue.pop_nowait(self.now)) is not None:
            names.append(info.pod_info.name)
        return names

    def give_back(
        self, info: QueuedPodInfo, *rejectors: str, pending: Iterable[str] = ()
    ) -> QueuedPodInfo:
        """The attempt has failed: because of these plugins, or with an error if there are none."""
        info.clear_rejector_plugins()
        info.unschedulable_plugins = set(rejectors)
        info.pending_plugins = set(pending)
        self.queue.add_unschedulable_if_not_present(info, self.now)
        return info

    def try_in_vain(self, pod: Pod, *rejectors: str, pending: Iterable[str] = ()) -> QueuedPodInfo:
        """Add a pod, pop it and give it back; it must be the first to be popped."""
        self.add(pod)
        info = self.pop()
        assert info.uid == pod.metadata.uid
        return self.give_back(info, *rejectors, pending=pending)

    def event(self, event: ClusterEvent, old: object = None, new: object = None) -> None:
        self.queue.move_all_to_active_or_backoff_queue(event, old, new, self.now)

    @property
    def places(self) -> dict[str, list[str]]:
        """The names of all pods, by where they are."""
        queue = self.queue
        named = {
            "active": queue.pods_in_active_q(),
            "backoff": queue.pods_in_backoff_q(),
            "unschedulable": queue.pods_in_unschedulable_pods(),
            "in flight": queue.in_flight_pods(),
        }
        return {place: [p.metadata.name for p in pods] for place, pods in named.items() if pods}

    def place_of(self, pod: Pod) -> str:
        return str(self.queue.pools.place_of(pod.key))

    def _list(self, namespace: str, name: str) -> Pod | None:
        if self.listed is None:
            return _SOME_POD
        return self.listed.get(f"{namespace}/{name}")

    def _on_ready(self) -> None:
        self.ready += 1

    def _on_deadline(self) -> None:
        self.deadlines += 1
