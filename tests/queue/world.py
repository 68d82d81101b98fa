"""A queue with a clock that stands still, and plugins whose answers the tests choose."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from scheduler.api.core import Pod
from scheduler.framework.events import (
    EVENT_FORCE_ACTIVATE,
    EVENT_UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
    QueueingHintFn,
)
from scheduler.framework.status import Status, unresolvable
from scheduler.framework.types import NominatingInfo
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import (
    Move,
    Moves,
    Nominator,
    Place,
    PriorityQueue,
    QueuedPodInfo,
    QueueingHintFunction,
)
from scheduler.queue.active_queue import InFlightEvent
from scheduler.queue.queued_pod_info import COUNTED_IN_1_36, CountedReasons
from scheduler.snapshot.pod_info import PodInfo
from tests.queue.pools import pods_of

PROFILE: Final = "default-scheduler"
START: Final = 1_767_225_600.0

LOW, MID, HIGH = 0, 500, 1000

NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_LABEL: Final = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
PV_ADD: Final = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.ADD)

_ALL: Final = (*ActionType, ActionType.UPDATE, ActionType.ALL)
_ACTIONS: Final = {str(action): action for action in _ALL}
_EVENTS: Final = {
    event.label: event
    for event in (
        *(ClusterEvent(resource, action) for resource in EventResource for action in _ALL),
        EVENT_UNSCHEDULABLE_TIMEOUT,
        EVENT_FORCE_ACTIVATE,
    )
}

#: The listed pod of any name where a test does not need a certain one.
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
    raise AssertionError("this hint must not run")


def less(first: QueuedPodInfo, second: QueuedPodInfo) -> bool:
    """PrioritySort's order."""
    p1, p2 = first.pod_info.priority, second.pod_info.priority
    return p1 > p2 or (p1 == p2 and first.timestamp < second.timestamp)


def sort_key(pod: QueuedPodInfo) -> tuple[int, float]:
    """The same order as a tuple."""
    return (-pod.pod_info.priority, pod.timestamp)


class LabelGate:
    """Allows only pods that have one of these labels, as upstream's test plugin."""

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


def event_of(text: str) -> ClusterEvent:
    """Return the event of a label, or of `RESOURCE/ACTION`.

    Several labels of one resource with `|` between them are one event.
    """
    resource, _, name = text.partition("/")
    if name in _ACTIONS:
        return ClusterEvent(resource, _ACTIONS[name])
    events = [_EVENTS[label] for label in text.split("|")]
    action = ActionType.NONE
    for event in events:
        action |= event.action_type
    return events[0] if len(events) == 1 else ClusterEvent(events[0].resource, action)


def hint_of(answer: str, plugin: str = "", asked: list[str] | None = None) -> QueueingHintFn:
    """A hint that answers Queue, Skip or Error, and notes in `asked` that it was."""

    def hint(pod: PodInfo, old: object, new: object) -> QueueingHint:
        if asked is not None:
            asked.append(plugin)
        if answer == "Error":
            raise RuntimeError("the hint is broken")
        return QueueingHint.QUEUE if answer == "Queue" else QueueingHint.QUEUE_SKIP

    return hint


def hints_of(answers: Mapping[str, Mapping[str, str]], asked: list[str] | None = None) -> Hints:
    """Hints by event from the answers by label and plugin."""
    return {
        event_of(label): [
            (plugin, hint_of(answer, plugin, asked)) for plugin, answer in by_plugin.items()
        ]
        for label, by_plugin in answers.items()
    }


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
    """Return a pod that is given back after an attempt, or waits after one."""
    info = QueuedPodInfo(PodInfo(pod), timestamp=timestamp)
    info.unschedulable_plugins = set(rejectors)
    info.pending_plugins = set(pending)
    info.unschedulable_count = unschedulable_count
    return info


class World:
    """A queue, the time, and the moves that the queue has returned so far."""

    def __init__(
        self,
        hints: Hints | None = None,
        *,
        gates: Sequence[object] = (),
        profiles: Sequence[str] = (PROFILE,),
        by_less_only: bool = False,
        listed: Iterable[Pod] | None = None,
        initial_backoff_seconds: float = 1.0,
        max_backoff_seconds: float = 10.0,
        max_in_unschedulable_pods_seconds: float = 300.0,
        moved_at_once: int = 100,
        counts_gated: bool = False,
        counted_reasons: CountedReasons = COUNTED_IN_1_36,
        gated_wait_anew: bool = False,
        uses_hints: bool = True,
        pops_from_backoff: bool = True,
    ) -> None:
        self.now = START
        #: The number of calls after which a pod could be popped that could not before.
        self.ready = 0
        #: The number of calls after which the next deadline could be earlier.
        self.timed = 0
        self.moves: list[Move] = []
        #: The pods that the informers have listed; None if every pod is listed.
        self.listed = None if listed is None else {pod.key: pod for pod in listed}
        self.queue: Final = PriorityQueue(
            less,
            sort_key=None if by_less_only else sort_key,
            pre_enqueue_plugins=dict.fromkeys(profiles, tuple(gates)),  # type: ignore[arg-type]
            queueing_hint_map=dict.fromkeys(profiles, hint_map(hints or {})),
            nominator=Nominator(self._list, counts_gated=counts_gated),
            metrics=SchedulerMetrics(),
            initial_backoff_seconds=initial_backoff_seconds,
            max_backoff_seconds=max_backoff_seconds,
            max_in_unschedulable_pods_seconds=max_in_unschedulable_pods_seconds,
            counted_reasons=counted_reasons,
            gated_wait_anew=gated_wait_anew,
            moved_at_once=moved_at_once,
            uses_hints=uses_hints,
            pops_from_backoff=pops_from_backoff,
        )

    def take(self, moves: Moves) -> None:
        """Record the moves that a call of the queue has returned."""
        self.ready += moves.poppable
        self.timed += moves.timed
        for skipped in moves.skipped:
            self.moves.extend(skipped.moves())
        self.moves.extend(moves.moved)

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.take(self.queue.add(PodInfo(pod), self.now))

    def update(self, old: Pod, new: Pod) -> None:
        self.take(self.queue.update(old, PodInfo(new), self.now))

    def delete(self, pod: Pod) -> None:
        self.take(self.queue.delete(pod, self.now))

    def pop_nowait(self) -> QueuedPodInfo | None:
        info, moves = self.queue.pop_nowait(self.now)
        self.take(moves)
        return info

    def pop(self) -> QueuedPodInfo:
        info = self.pop_nowait()
        assert info is not None, "nothing to pop"
        return info

    def pop_specific_pod(self, pod: Pod) -> QueuedPodInfo | None:
        """Pop a waiting pod before all others; None if it is gated or does not wait."""
        info, moves = self.queue.pop_specific_pod(pod.key, self.now)
        self.take(moves)
        return info

    def nominate(self, pod: Pod, info: NominatingInfo | None) -> None:
        """Nominate a pod; the queue's own object if it is the one that waits."""
        waiting = self.queue.find(pod.key)
        is_same = waiting is not None and waiting.uid == pod.metadata.uid
        pod_info = waiting.pod_info if waiting is not None and is_same else PodInfo(pod)
        self.queue.nominator.add_nominated_pod(pod_info, info)

    def done(self, uid: str) -> None:
        self.take(self.queue.done(uid, self.now))

    def activate(self, pod: Pod) -> None:
        self.take(self.queue.activate({pod.key: PodInfo(pod)}, self.now))

    def pop_names(self) -> list[str]:
        """Pop all pods; return their names."""
        names = []
        while (info := self.pop_nowait()) is not None:
            names.append(info.pod_info.name)
        return names

    def give_back(
        self, info: QueuedPodInfo, *rejectors: str, pending: Iterable[str] = ()
    ) -> QueuedPodInfo:
        """Give the pod back, rejected by these plugins, or after an error if there are none."""
        info.clear_rejector_plugins()
        info.unschedulable_plugins = set(rejectors)
        info.pending_plugins = set(pending)
        self.take(self.queue.add_unschedulable_if_not_present(info, self.now))
        return info

    def try_in_vain(self, pod: Pod, *rejectors: str, pending: Iterable[str] = ()) -> QueuedPodInfo:
        """Add a pod, pop it and give it back; it must be the first to be popped."""
        self.add(pod)
        info = self.pop()
        assert info.uid == pod.metadata.uid
        return self.give_back(info, *rejectors, pending=pending)

    def event(
        self,
        event: ClusterEvent,
        old: object = None,
        new: object = None,
        *,
        pre_check: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        move_all = self.queue.move_all_to_active_or_backoff_queue
        check = None if pre_check is None else lambda info: pre_check(info.pod_info)
        self.take(move_all(event, old, new, self.now, pre_check=check))

    def flush_backoff(self, now: float | None = None) -> None:
        self.take(self.queue.flush_backoff_q_completed(self.now if now is None else now))

    def flush_leftover(self, now: float | None = None) -> None:
        self.take(self.queue.flush_unschedulable_pods_leftover(self.now if now is None else now))

    def flush_due(self, now: float | None = None) -> None:
        self.take(self.queue.flush_due(self.now if now is None else now))

    def find(self, name: str, namespace: str = "default") -> QueuedPodInfo:
        """Return a pod that waits in one of the pools."""
        info = self.queue.find(f"{namespace}/{name}")
        assert info is not None, f"{name} waits nowhere"
        return info

    @property
    def places(self) -> dict[str, list[str]]:
        """The names of all pods, by where they are."""
        queue = self.queue
        named = {
            "active": pods_of(queue.active_q.in_order()),
            "backoff": pods_of(queue.backoff_q.in_order()),
            "unschedulable": pods_of(queue.unschedulable_pods),
            "in flight": queue.in_flight_pods(),
        }
        return {place: [p.metadata.name for p in pods] for place, pods in named.items() if pods}

    def place_of(self, pod: Pod) -> str:
        info = self.queue.find(pod.key)
        return str(Place.OUTSIDE if info is None else info.place)

    def in_flight(self) -> list[str]:
        """The names of the pods and events in flight, in order."""
        entries = self.queue.in_flight.entries()
        return [e.event.label if isinstance(e, InFlightEvent) else e.pod_info.name for e in entries]

    def _list(self, namespace: str, name: str) -> Pod | None:
        if self.listed is None:
            return _SOME_POD
        return self.listed.get(f"{namespace}/{name}")
