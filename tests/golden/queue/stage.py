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

from typing import Any

from scheduler.api.core import Pod
from scheduler.framework.status import Status, unresolvable
from scheduler.queue import Move, Place
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod
from tests.queue.stage import Stage, event_of, hint_of
from tests.queue.world import START, Hints


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


class Scenario:
    """Sets the stage, and then hands each line to it."""

    def __init__(self) -> None:
        self.hints: Hints = {}
        self.gates: dict[str, Gate] = {}
        self.options: dict[str, Any] = {}
        self.stage: PrintingStage | None = None

    def run(self, line: str) -> str:
        """Carry out one command; what it prints, and then the queue must be in order."""
        command, *words = line.split()
        names = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        if command == "config":
            for name, value in options.items():
                pods = "_pods" if name == "max_in_unschedulable" else ""
                self.options[f"{name}{pods}_seconds"] = float(value)
        elif command == "plugin":
            self._add_hints(names[0], options)
        elif command == "gate":
            name, state = names
            if self.stage is None:
                self.gates[name] = Gate(name)
                self._add_hints(name, options)
            self.gates[name].state = state
        else:
            self.stage = self.stage or PrintingStage(
                self.hints, gates=list(self.gates.values()), listed=[], **self.options
            )
            return self.stage.printed_by(line)
        return "" if self.stage is None else "nothing happens"

    def _add_hints(self, plugin: str, answers: dict[str, str]) -> None:
        for label, answer in answers.items():
            self.hints.setdefault(event_of(label), []).append((plugin, hint_of(answer)))


class PrintingStage(Stage):
    """A stage that prints each move of a pod."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.printed: list[str] = []

    def printed_by(self, line: str) -> str:
        self.printed, self.ready = [], 0
        self.moves.clear()
        self.carry_out(line)
        printed = [*map(self._moved, self.moves), *self.printed, *["ready"] * bool(self.ready)]
        self.queue.check()
        return "\n".join(printed or ["nothing happens"])

    @staticmethod
    def _moved(move: Move) -> str:
        at = f"[{move.at - START:g}s]"
        cause = f" ({move.event_label})" if move.event_label else ""
        hints = "".join(
            f"; {hint.plugin_name} on {hint.event_label}: {hint.answer}" for hint in move.hints
        )
        stays = move.source == move.target
        way = f"stays {move.target}" if stays else f"{move.source} -> {move.target}"
        return f"{at} {move.pod.pod_info.name}: {way}{cause}{hints}"

    # What happens.

    @staticmethod
    def _made(name: str, **options: str) -> Pod:
        return make_pod(
            name,
            priority=int(options.get("priority", "0")),
            uid=options.get("uid"),
            scheduling_gates=[gate for gate in options.get("gates", "").split(",") if gate],
            labels={label: "" for label in options.get("labels", "").split(",") if label},
            nominated_node_name=options.get("nominated", ""),
        )

    def _list_pod(self, name: str, options: dict[str, str]) -> Pod:
        assert self.listed is not None
        pod = self.pods[name] = self._made(name, **options)
        self.listed[pod.key] = pod
        return pod

    def do_add(self, name: str, **options: str) -> None:
        self.add(self._list_pod(name, options))

    def do_update(self, name: str, **options: str) -> None:
        old = self.pods.get(name)
        new = self._list_pod(name, options)
        self.update(old or new, new)

    def do_delete(self, name: str) -> None:
        assert self.listed is not None
        pod = self.pods[name]
        del self.listed[pod.key]
        self.delete(pod)

    def do_pop(self) -> None:
        info = self.pop_nowait()
        if info is None:
            self.printed.append("nothing to pop")
        else:
            self.popped[info.uid] = info
            self.printed.append(f"attempt {info.attempts} of {info.pod_info.name}")

    def do_wait(self, seconds: str) -> None:
        end = self.now + float(seconds)
        while (deadline := self.queue.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.flush_due()
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
        if names := self.in_flight():
            self.printed.append(f"in flight: {', '.join(names)}")
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
