"""The commands of the queue's golden files, and how a queue answers them.

Setting the stage, before anything else:

    plugin Fit NodeAdd=Queue NodeUpdateNodeLabel=QueueSkip   hints by event; also Error, or nothing
    gate Quota closed PersistentVolumeAdd=Queue              the same, and it is a PreEnqueue plugin
    config initial_backoff=1 max_backoff=10 max_in_unschedulable=300

What happens, at a time that only `wait` moves on:

    add p1 priority=5 gates=a,b labels=x,y nominated=n1   update p1 ...   delete p1
    pop            fail p1 Fit Taints pending=Volumes     done p1         activate p1 p2
    event NodeAdd [min_priority=5]     gate Quota open    nominate p1 n1
    wait 2.5       to the end of these seconds, from one deadline to the next

What can be seen: every move of a pod is printed as it happens, `ready` when a pop may succeed.

    show           all pods, and the pods in flight
    count          how many pods have entered which queue because of what
    nominated n1   the pods expected on a node
"""

from __future__ import annotations

from scheduler.api.core import Pod
from scheduler.framework.events import (
    EVENT_UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
    QueueingHintFn,
)
from scheduler.framework.status import Status, unresolvable
from scheduler.framework.types import NominatingInfo, NominatingMode
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import Move, Moves, Nominator, Place, PriorityQueue, QueueingHintFunction
from scheduler.queue.active_queue import InFlightEvent
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod

START = 1_767_225_600.0
PROFILE = "default-scheduler"

EVENTS = {
    event.label: event
    for event in (
        *(ClusterEvent(resource, action) for resource in EventResource for action in ActionType),
        *(
            ClusterEvent(resource, action)
            for resource in EventResource
            for action in (ActionType.UPDATE, ActionType.ALL)
        ),
        EVENT_UNSCHEDULABLE_TIMEOUT,
    )
}


def hint_of(answer: str) -> QueueingHintFn:
    def hint(pod: PodInfo, old: object, new: object) -> QueueingHint:
        if answer == "Error":
            raise RuntimeError("the hint is broken")
        return QueueingHint.QUEUE if answer == "Queue" else QueueingHint.QUEUE_SKIP

    return hint


class Gate:
    """A PreEnqueue plugin: open, closed, or closed to pods that have scheduling gates."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = "open"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        closed = self.state == "closed" or (
            self.state == "by-pod" and bool(pod.spec.scheduling_gates)
        )
        return unresolvable(f"{self.name} is closed") if closed else None


class Stage:
    """A queue that runs one line of a scenario after another."""

    def __init__(self) -> None:
        self.now = START
        self.hints: dict[ClusterEvent, list[QueueingHintFunction]] = {}
        self.gates: dict[str, Gate] = {}
        self.options: dict[str, float] = {}
        self.pods: dict[str, Pod] = {}
        self.popped: dict[str, QueuedPodInfo] = {}
        self.printed: list[str] = []
        self.is_ready = False
        self._queue: PriorityQueue | None = None

    @property
    def queue(self) -> PriorityQueue:
        if self._queue is None:
            self._queue = PriorityQueue(
                lambda first, second: self.sort_key(first) < self.sort_key(second),
                sort_key=self.sort_key,
                pre_enqueue_plugins={PROFILE: list(self.gates.values())},
                queueing_hint_map={PROFILE: self.hints},
                nominator=Nominator(lambda namespace, name: self.pods.get(name)),
                metrics=SchedulerMetrics(),
                **self.options,  # type: ignore[arg-type]
            )
            self._take(self._queue.flush_due(self.now))
        return self._queue

    @staticmethod
    def sort_key(pod: QueuedPodInfo) -> tuple[int, float]:
        return (-pod.pod_info.priority, pod.timestamp)

    def run(self, line: str) -> str:
        """Carry out one command; what it prints, and then the queue must be in order."""
        self.printed, self.is_ready = [], False
        command, *words = line.split()
        names = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        getattr(self, f"do_{command}")(*names, **options)
        if self.is_ready:
            self.printed.append("ready")
        if self._queue is not None:
            self._queue.check()
            if not self.printed:
                self.printed.append("nothing happens")
        return "\n".join(self.printed)

    def _take(self, moves: Moves) -> None:
        for skipped in moves.skipped:
            for move in skipped.moves():
                self._print(move)
        for move in moves.moved:
            self._print(move)
        self.is_ready |= moves.poppable

    def _print(self, move: Move) -> None:
        name, at = move.pod.pod_info.name, self._time(move.at)
        cause = f" ({move.event_label})" if move.event_label else ""
        hints = "".join(
            f"; {hint.plugin_name} on {hint.event_label}: {hint.answer}" for hint in move.hints
        )
        stays = move.source == move.target
        way = f"stays {move.target}" if stays else f"{move.source} -> {move.target}"
        self.printed.append(f"{at} {name}: {way}{cause}{hints}")

    def _time(self, seconds: float) -> str:
        return f"[{seconds - START:g}s]"

    # Setting the stage.

    def do_plugin(self, name: str, **hints: str) -> None:
        for label, answer in hints.items():
            functions = self.hints.setdefault(EVENTS[label], [])
            functions.append(QueueingHintFunction(name, hint_of(answer)))

    def do_gate(self, name: str, state: str, **hints: str) -> None:
        if self._queue is None:
            self.gates[name] = Gate(name)
            self.do_plugin(name, **hints)
        self.gates[name].state = state

    def do_config(self, **options: str) -> None:
        for name, value in options.items():
            pods = "_pods" if name == "max_in_unschedulable" else ""
            self.options[f"{name}{pods}_seconds"] = float(value)

    # What happens.

    def _pod(self, name: str, **options: str) -> Pod:
        return make_pod(
            name,
            priority=int(options.get("priority", "0")),
            uid=options.get("uid"),
            scheduling_gates=[gate for gate in options.get("gates", "").split(",") if gate],
            labels={label: "" for label in options.get("labels", "").split(",") if label},
            nominated_node_name=options.get("nominated", ""),
        )

    def do_add(self, name: str, **options: str) -> None:
        self.pods[name] = self._pod(name, **options)
        self._take(self.queue.add(PodInfo(self.pods[name]), self.now))

    def do_update(self, name: str, **options: str) -> None:
        new = self._pod(name, **options)
        old, self.pods[name] = self.pods.get(name, new), new
        self._take(self.queue.update(old, PodInfo(new), self.now))

    def do_delete(self, name: str) -> None:
        self._take(self.queue.delete(self.pods.pop(name), self.now))

    def do_pop(self) -> None:
        info, moves = self.queue.pop_nowait(self.now)
        self._take(moves)
        if info is None:
            self.printed.append("nothing to pop")
        else:
            self.popped[info.pod_info.name] = info
            self.printed.append(f"attempt {info.attempts} of {info.pod_info.name}")

    def do_fail(self, name: str, *rejectors: str, pending: str = "") -> None:
        info = self.popped.pop(name)
        info.clear_rejector_plugins()
        info.unschedulable_plugins = set(rejectors)
        info.pending_plugins = {plugin for plugin in pending.split(",") if plugin}
        info.pod_info = PodInfo(self.pods[name])
        self._take(self.queue.add_unschedulable_if_not_present(info, self.now))

    def do_done(self, name: str) -> None:
        self._take(self.queue.done(self.popped.pop(name).uid, self.now))

    def do_activate(self, *names: str) -> None:
        pods = {name: PodInfo(self.pods[name]) for name in names}
        self._take(self.queue.activate(pods, self.now))

    def do_event(self, label: str, min_priority: str = "") -> None:
        moves = self.queue.move_all_to_active_or_backoff_queue(
            EVENTS[label],
            None,
            None,
            self.now,
            pre_check=(lambda pod: pod.priority >= int(min_priority)) if min_priority else None,
        )
        self._take(moves)

    def do_nominate(self, name: str, node_name: str) -> None:
        pod = PodInfo(self.pods[name])
        info = self.queue.find(pod.key)
        self.queue.nominator.add_nominated_pod(
            pod if info is None else info.pod_info,
            NominatingInfo(node_name, NominatingMode.OVERRIDE),
        )

    def do_wait(self, seconds: str) -> None:
        end = self.now + float(seconds)
        while (deadline := self.queue.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self._take(self.queue.flush_due(self.now))
        self.now = end

    # What can be seen.

    def do_show(self) -> None:
        queue = self.queue
        for title, infos in (
            ("active", queue.active_q.in_order()),
            ("backoff", queue.backoff_q.in_order()),
            ("unschedulable", [i for i in queue.unschedulable_pods if not i.is_gated]),
            ("gated", [i for i in queue.unschedulable_pods if i.is_gated]),
        ):
            if infos:
                self.printed.append(f"{title}: {', '.join(map(self._described, infos))}")
        if entries := queue.in_flight.entries():
            shown = (
                e.event.label if isinstance(e, InFlightEvent) else e.pod_info.name for e in entries
            )
            self.printed.append(f"in flight: {', '.join(shown)}")
        self.printed.append(queue.pending_pods()[1])

    def _described(self, info: QueuedPodInfo) -> str:
        details = [f"since {info.timestamp - START:g}s"]
        if info.place == Place.BACKOFF:
            details.append(f"until {self.queue.backoff_q.release_time(info) - START:g}s")
        if rejectors := sorted(info.unschedulable_plugins):
            details.append(f"rejected by {' '.join(rejectors)}")
        if pending := sorted(info.pending_plugins):
            details.append(f"pending {' '.join(pending)}")
        if info.was_flushed_from_unschedulable:
            details.append("flushed")
        return f"{info.pod_info.name} ({', '.join(details)})"

    def do_count(self) -> None:
        counts = sorted(self.queue.incoming_pods.items())
        self.printed += [f"{count} {queue} {event}" for (queue, event), count in counts]

    def do_nominated(self, node_name: str) -> None:
        pods = self.queue.nominator.nominated_pods_for_node(node_name)
        self.printed.append(" ".join(pod.name for pod in pods) or "none")
