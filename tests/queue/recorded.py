"""Random scripts, and a player that runs them on our queue: the counterpart of `recorder/main.go`.

`python -m tests.queue.recorded COUNT LENGTH [SEED] [--without-hints | --without-early-pops]` prints
scripts for the recorder to play on upstream's own queue; `test_recorded` plays them on ours and
compares.
"""

import json
import logging
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, cast

from scheduler.api.core import Pod
from scheduler.framework.types import NominatingInfo, NominatingMode
from scheduler.queue import PodAlreadyQueuedError, QueuedPodInfo
from scheduler.queue.without_hints import PreChecks
from scheduler.snapshot import NodeTable
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod
from scheduler.testing.doubles import FakeLister
from tests.queue.world import START, Hints, LabelGate, World, event_of, hint_of

Json = dict[str, object]

PROFILES = ("one", "two")
PLUGINS = ("A", "B", "C", "gate")
REGISTERED = [
    "Node/Add",
    "Node/Delete",
    "Node/UpdateNodeLabel",
    "Node/All",
    "Node/Update",
    "Pod/UpdatePodLabel",
    "Pod/UpdatePodToleration",
    "Pod/Delete",
    "Pod/All",
    "PersistentVolume/Add",
    "*/Add",
    "UnschedulableTimeout",
]
HAPPENING = [
    "Node/Add",
    "Node/Delete",
    "Node/UpdateNodeLabel",
    "Node/UpdateNodeTaint",
    "Node/Update",
    "AssignedPod/Add",
    "AssignedPod/Delete",
    "PersistentVolume/Add",
    "UnschedulableTimeout",
    "StorageClass/Add",
]


def pod_of(described: object) -> Pod:
    given = cast("dict[str, object]", described)
    return make_pod(
        str(given["name"]),
        uid=str(given["uid"]),
        scheduler_name=str(given["scheduler"]),
        priority=cast("int", given["priority"]),
        labels=dict.fromkeys(cast("list[str]", given["labels"]), ""),
        nominated_node_name=str(given["nominated"]),
        affinity=near(str(given["near"])) if given.get("near") else None,
        tolerations=[{"key": str(n)} for n in range(cast("int", given["tolerations"]))],
    )


def near(label: str) -> Json:
    """Affinity to the pods that have a label."""
    selector = {"matchExpressions": [{"key": label, "operator": "Exists"}]}
    term = {"topologyKey": "zone", "labelSelector": selector}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


class Player:
    """Runs scripts on our queue; `states` has its state after each step."""

    def __init__(self, script: Json) -> None:
        hints: Hints = {}
        for event, plugin, answer in cast("list[list[str]]", script["hints"]):
            hints.setdefault(event_of(event), []).append((plugin, hint_of(answer)))
        self.uses_hints = bool(script.get("uses_hints", True))
        self.gate = LabelGate("in", name=str(script["gate"]))
        self.milliseconds = 0
        self.world = World(
            hints,
            gates=[self.gate] if script["gate"] else [],
            profiles=cast("list[str]", script["profiles"]),
            listed=[],
            uses_hints=self.uses_hints,
            pops_from_backoff=bool(script.get("pops_from_backoff", True)),
        )
        self.queue = self.world.queue
        self.popped: dict[str, QueuedPodInfo] = {}
        self.pops = 0

    def take(self, step: Json) -> Json:
        """Carry out one step, check the queue, and describe its state."""
        self._pass(1)
        do = getattr(self, f"_{str(step['op']).replace(' ', '_')}")
        result = do(**{name: value for name, value in step.items() if name != "op"})
        self.queue.check()
        if result is None or isinstance(result, str):
            return self.state(result or "")
        self.popped[result.uid] = result
        self.pops += 1
        return self.state(result.uid)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the whole script in the form that the recorder prints."""
        queue = self.queue
        counted: dict[str, float] = {}
        for (pool, event), count in queue.incoming_pods.items():
            counted[f"queue_incoming_pods_total event={event} queue={pool}"] = count
        for (plugin, profile), count in queue.unschedulable_reasons.items():
            counted[f"unschedulable_pods plugin={plugin} profile={profile}"] = count
        statistics = queue.statistics()
        for pool in ("active", "backoff", "unschedulable", "gated"):
            counted[f"pending_pods queue={pool}"] = getattr(statistics, pool)
        return {name: count for name, count in counted.items() if count}

    def state(self, result: str) -> Json:
        queue = self.queue
        pods = {}
        for place, infos in (
            ("active", queue.active_q),
            ("backoff", queue.backoff_q),
            ("unschedulable", queue.unschedulable_pods),
        ):
            for info in infos:
                pods[info.pod_info.name] = shown = self._described(info)
                shown["place"] = place
                if place == "backoff":
                    shown["until"] = _milliseconds(queue.backoff_q.backoff_time(info))
        return {
            "result": result,
            "pods": pods,
            "in_flight": self.world.in_flight() if self.uses_hints else [],
            "summary": queue.pending_pods()[1],
            "nominations": dict(queue.nominator.nominations),
            "cycle": self.pops,
        }

    @staticmethod
    def _described(info: QueuedPodInfo) -> Json:
        return {
            "uid": info.uid,
            "attempts": info.attempts,
            "unschedulable": info.unschedulable_count,
            "errors": info.consecutive_errors_count,
            "since": _milliseconds(info.timestamp),
            "initial": _milliseconds(info.initial_attempt_timestamp),
            "rejectors": sorted(info.unschedulable_plugins),
            "pending": sorted(info.pending_plugins),
            "gate": info.gating_plugin,
            "flushed": info.was_flushed_from_unschedulable,
        }

    def _pass(self, milliseconds: int) -> None:
        self.milliseconds += milliseconds
        self.world.now = START + self.milliseconds / 1000

    @property
    def listed(self) -> dict[str, Pod]:
        assert self.world.listed is not None
        return self.world.listed

    # The steps.

    def _add(self, pod: object) -> None:
        made = pod_of(pod)
        self.listed[made.key] = made
        self.world.add(made)

    def _update(self, old: object, pod: object) -> None:
        made = pod_of(pod)
        self.listed[made.key] = made
        self.world.update(pod_of(old), made)

    def _delete(self, pod: object) -> None:
        made = pod_of(pod)
        self.listed.pop(made.key, None)
        self.world.delete(made)

    def _pop(self) -> QueuedPodInfo | None:
        return self.world.pop_nowait()

    def _pop_specific(self, pod: object) -> QueuedPodInfo | None:
        return self.world.pop_specific_pod(pod_of(pod))

    def _fail(self, uid: str, pod: object, rejectors: list[str], pending: list[str]) -> str:
        info = self.popped.pop(uid)
        info.pod_info = PodInfo(pod_of(pod))
        try:
            self.world.give_back(info, *rejectors, pending=pending)
        except PodAlreadyQueuedError as refused:
            return str(refused)
        return ""

    def _done(self, uid: str) -> None:
        self.popped.pop(uid, None)
        self.world.done(uid)

    def _activate(self, pod: object) -> None:
        self.world.activate(pod_of(pod))

    def _event(self, event: str, min: int | None = None) -> None:  # noqa: A002 - a recorded name
        self.world.event(
            event_of(event),
            pre_check=None if min is None else lambda pod: pod.priority >= min,
        )

    def _assigned_add(self, pod: object) -> None:
        self._assigned_update(None, pod, "AssignedPod/Add")

    def _assigned_update(self, old: object, pod: object, event: str) -> None:
        made, what = pod_of(pod), event_of(event)
        checks = PreChecks(NodeTable(), FakeLister())
        check = checks.for_assigned_pod(what, made)
        old_pod = None if old is None else pod_of(old)
        move_all = self.queue.move_all_to_active_or_backoff_queue
        self.world.take(move_all(what, old_pod, made, self.world.now, pre_check=check))

    def _wait(self, ms: int) -> None:
        self._pass(ms)

    def _flush_backoff(self) -> None:
        self.world.flush_backoff()

    def _flush_leftover(self) -> None:
        self.world.flush_leftover()

    def _gate(self, allowed: list[str]) -> None:
        self.gate.allowed = allowed

    def _nominate(self, pod: object, node: str, override: bool) -> None:
        self.world.nominate(pod_of(pod), NominatingInfo(node, NominatingMode(int(override))))


def _milliseconds(seconds: float | None) -> int:
    return 0 if seconds is None else round((seconds - START) * 1000)


class Author:
    """Writes a script step by step, and runs each step to get the pods in flight."""

    answers: Sequence[str] = ("Queue", "Queue", "QueueSkip", "Error")
    registered: Sequence[str] = REGISTERED
    plugins: Sequence[str] = PLUGINS
    rejectors: Sequence[str] = "ABCD"
    #: Values of the script that differ from the defaults.
    settings: ClassVar[Mapping[str, bool]] = {}

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.script: Json = {
            **self.settings,
            "hints": [
                [rng.choice(self.registered), rng.choice(self.plugins), rng.choice(self.answers)]
                for _ in range(rng.randint(2, 9))
            ],
            "gate": rng.choice(["", "gate"]),
            "profiles": list(PROFILES),
        }
        self.player = Player(self.script)
        self.steps: list[Json] = []
        self.alive: dict[str, Json] = {}
        self.uids = 0

    def write(self, length: int) -> Json:
        weights = {
            self.create: 20,
            self.pop: 20,
            self.give_back: 17,
            self.change: 10,
            self.happen: 9,
            self.remove: 5,
            self.wait: 5,
            self.activate: 4,
            self.bind: 3,
            self.turn_gate: 3,
            self.nominate: 3,
            self.pop_specific: 2,
            **self.more_steps(),
        }
        while len(self.steps) < length:
            self.rng.choices(list(weights), list(weights.values()))[0]()
        return {**self.script, "steps": self.steps}

    def more_steps(self) -> dict[Callable[[], None], int]:
        return {}

    def take(self, op: str, **arguments: object) -> None:
        self.steps.append({"op": op, **arguments})
        self.player.take(self.steps[-1])

    def new_uid(self) -> str:
        self.uids += 1
        return f"u{self.uids}"

    def spec(self, name: str, uid: str, scheduler: str | None = None) -> Json:
        rng = self.rng
        return {
            "name": name,
            "uid": uid,
            "scheduler": scheduler or rng.choice(["one", "one", "one", "two", "three"]),
            "priority": rng.randint(0, 3),
            "labels": rng.choice([["in"], ["in"], ["in", "out"], ["out"], []]),
            "nominated": rng.choice(["", "", "n1", "n2"]),
            "tolerations": rng.randint(0, 2),
        }

    def some_pod(self) -> Json | None:
        return self.rng.choice(list(self.alive.values())) if self.alive else None

    def some_popped(self) -> QueuedPodInfo | None:
        popped = self.player.popped
        return popped[self.rng.choice(sorted(popped))] if popped else None

    def is_alive(self, info: QueuedPodInfo) -> bool:
        pod = self.alive.get(info.pod_info.name)
        return pod is not None and pod["uid"] == info.uid

    def create(self) -> None:
        name = f"p{self.rng.randint(0, 6)}"
        if name not in self.alive:
            self.alive[name] = self.spec(name, self.new_uid())
            self.take("add", pod=self.alive[name])

    def change(self) -> None:
        if (old := self.some_pod()) is not None:
            recreated = self.rng.random() < 0.1
            uid = self.new_uid() if recreated else str(old["uid"])
            new = self.spec(str(old["name"]), uid, str(old["scheduler"]))
            self.alive[str(old["name"])] = new
            self.take("update", old=old, pod=new)

    def remove(self) -> None:
        if (pod := self.some_pod()) is not None:
            self.take("delete", pod=self.alive.pop(str(pod["name"])))

    def pop(self) -> None:
        self.take("pop")

    def pop_specific(self) -> None:
        if (pod := self.some_pod()) is not None:
            self.take("pop specific", pod=pod)

    def give_back(self) -> None:
        rng = self.rng
        if (info := self.some_popped()) is None:
            return
        if not self.is_alive(info):
            self.take("done", uid=info.uid)
            return
        self.take(
            "fail",
            uid=info.uid,
            pod=self.alive[info.pod_info.name],
            rejectors=sorted(rng.sample(self.rejectors, rng.choice([0, 1, 1, 2]))),
            pending=sorted(rng.sample("ABC", rng.choice([0, 0, 1]))),
        )

    def bind(self) -> None:
        if (info := self.some_popped()) is not None:
            self.take("done", uid=info.uid)
            if self.is_alive(info):
                self.take("delete", pod=self.alive.pop(info.pod_info.name))

    def activate(self) -> None:
        if (pod := self.some_pod()) is not None:
            self.take("activate", pod=pod)

    def happen(self) -> None:
        checked = {"min": self.rng.randint(0, 3)} if self.rng.random() < 0.2 else {}
        self.take("event", event=self.rng.choice(HAPPENING), **checked)

    def wait(self) -> None:
        self.take("wait", ms=self.rng.choice([100, 500, 1000, 3000, 30_000, 301_000]))
        self.take("flush backoff")
        if self.rng.random() < 0.5:
            self.take("flush leftover")

    def turn_gate(self) -> None:
        if self.script["gate"]:
            self.take("gate", allowed=self.rng.choice([[], ["in"], ["out"], ["in", "out"]]))

    def nominate(self) -> None:
        if (pod := self.some_pod()) is not None:
            node, override = self.rng.choice(["", "n1", "n2"]), self.rng.random() < 0.7
            self.take("nominate", pod=pod, node=node, override=override)


class AuthorWithoutHints(Author):
    """Writes scripts in which no hint decides, pods are spread or near others, and pods run."""

    answers = ("Queue",)
    registered = (*REGISTERED, "Pod/Add", "Pod/UpdatePodScaleDown")
    plugins = (*PLUGINS, "PodTopologySpread")
    rejectors = (*Author.rejectors, "PodTopologySpread")
    settings: ClassVar = {"uses_hints": False}

    def more_steps(self) -> dict[Callable[[], None], int]:
        return {self.run: 6, self.change_running: 6}

    def spec(self, name: str, uid: str, scheduler: str | None = None) -> Json:
        # Affinity is immutable: the same in all versions of a pod.
        near = "in" if uid[-1] in "0369" else ""
        return {**super().spec(name, uid, scheduler), "near": near}

    def run(self) -> None:
        self.take("assigned add", pod=self.spec("running", "r"))

    def change_running(self) -> None:
        change = self.rng.choice(["UpdatePodLabel", "UpdatePodScaleDown", "Update"])
        old, new = self.spec("running", "r"), self.spec("running", "r")
        self.take("assigned update", old=old, pod=new, event=f"AssignedPod/{change}")


class AuthorWithoutEarlyPops(Author):
    """Writes scripts in which no pod leaves the backoff queue before its backoff is over."""

    settings: ClassVar = {"pops_from_backoff": False}


AUTHORS = {
    "--without-hints": AuthorWithoutHints,
    "--without-early-pops": AuthorWithoutEarlyPops,
}


def main() -> None:
    logging.disable(logging.CRITICAL)
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdecimal()]
    count, length, seed = (*numbers, 0)[:3]
    author = AUTHORS.get(sys.argv[-1], Author)
    rng = random.Random(seed)
    for _ in range(count):
        sys.stdout.write(json.dumps(author(rng).write(length)) + "\n")


if __name__ == "__main__":
    main()
