"""A scheduling queue: runs the `steps` of a case, one line each, and checks the results.

What a case may set: `hints` (by event label the plugins' answers, in order; without this field no
profile is known to the queue), `allow` (PreEnqueue plugins, each with the labels that it lets
pass), `options` of the queue, `informers` (the pods they know; all of `pods` if absent), `start`
(the time of the first step within its second), `improper` (steps do what no scheduler does: the
queue's invariants are not checked) and `pods` in API form by the names that steps use: two of
them may be versions of one pod. A name that is not there is a pod of namespace ns1 without wishes;
`x[1-3]` stands for x1, x2 and x3, among `pods` too.

What happens:

    add A.. | update OLD NEW | delete A.. | close | activate A
    pop A | pop nothing | pop-specific A [nothing]
    fail A PLUGIN.. [pending=P,P] [fresh=yes]     its attempt is over; fresh: all counts are new
    give-back A                                   as `fail`, with the rejectors that it still has
    event LABEL [only=A,B|never]                  only: what the check before it lets pass
    assigned A | assigned-update A LABEL          a pod on a node has come, or changed
    nominate A [NODE] | unnominate A
    wait SECONDS | flush backoff | flush unschedulable
    allow PLUGIN LABEL.. | relabel A LABEL

Behind the back of the queue, as upstream's tests have it:

    seed active|backoff|unschedulable A.. [by=P,P] [count=1] [errors=1] [at=-2] [gated=PLUGIN]
    enter active|backoff A LABEL [from=backoff] result=accepted|gated

What must be so:

    at PLACE A..            exactly these are active, backoff, unschedulable (gated ones too), gated
    in-flight A LABEL B..   the pods and events in flight, in order; in-flight-pods A..: the pods
    holds A | found A | unknown A                 the queue has this version, or any, or none
    summary TEXT            of all pending pods, as it is logged
    counts active=1 ..      | entered QUEUE/LABEL=1 ..    | reasons PLUGIN=1 ..
    rejectors A PLUGIN.. [pending=P,P]            of a popped pod
    attempts A 2 | first-attempt A 60 | flushed A yes
    backs-off A 2           how long from now on, in whole seconds begun
    duration COUNT SECONDS  of the backoff after so many failures
    nominations A=NODE ..   all there are; nominated NODE A..: in order
    ready                   a pop may succeed since the last step
"""

import asyncio
import contextlib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from scheduler.api.core import Pod
from scheduler.api.selectors import parse_label_selector
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.framework.events import EVENT_ASSIGNED_POD_ADD, ActionType, ClusterEvent
from scheduler.queue import Place
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.stories import PodStories
from scheduler.testing import VirtualClock
from tests.queue.stage import Stage, event_of, hints_of
from tests.queue.world import PROFILE, LabelGate
from tests.upstream.loading import Case, pod

_RANGE: Final = re.compile(r"(.*)\[(\d+)-(\d+)\]")


def names_of(words: Iterable[str]) -> list[str]:
    """The words, with `x[1-3]` as x1, x2, x3."""
    names = []
    for word in words:
        if match := _RANGE.fullmatch(word):
            names += [f"{match[1]}{i}" for i in range(int(match[2]), int(match[3]) + 1)]
        else:
            names.append(word)
    return names


class QueueStage(Stage):
    """A stage with the pods of a case, and checks as steps."""

    def __init__(self, case: Case) -> None:
        allowed = case.get("allow", {})
        self.doormen: Final = {name: LabelGate(*allowed[name], name=name) for name in allowed}
        hints = case.get("hints")
        super().__init__(
            hints_of(hints or {}),
            gates=list(self.doormen.values()),
            hinted_profiles=[] if hints is None else None,
            listed=[],
            **case.get("options", {}),
        )
        self.now += case.get("start", 0.0)
        self.started: Final = self.now
        for words, value in case.get("pods", {}).items():
            for name in names_of([words]):
                self.pods[name] = self._pod(name, value)
        known = case.get("informers", list(self.pods))
        self.listed = {self.pod(name).key: self.pod(name) for name in reversed(known)}
        self.was_ready = False
        #: Whether only the queue's own methods were used, so that its invariants must hold.
        self.is_proper = not case.get("improper", False)

    def play(self, steps: Iterable[str]) -> None:
        """Carry out all steps; an AssertionError names the one that failed."""
        for number, step in enumerate(steps):
            self.was_ready, self.ready = bool(self.ready), 0
            try:
                self.carry_out(step)
                if self.is_proper:
                    self.queue.check()
            except AssertionError as failure:
                failure.add_note(f"in step {number}: {step}")
                raise

    def names_of(self, words: Iterable[str]) -> list[str]:
        return names_of(words)

    def pod(self, name: str) -> Pod:
        if name not in self.pods:
            self.pods[name] = self._pod(name, {})
        return self.pods[name]

    @staticmethod
    def _pod(name: str, value: Mapping[str, Any]) -> Pod:
        metadata = {"namespace": "ns1", **value.get("metadata", {})}
        return pod({**value, "metadata": metadata}, name=name)

    def _info(self, name: str) -> QueuedPodInfo:
        wanted = self.pod(name).metadata
        info = self.queue.find(self.pod(name).key) or self.popped.get(wanted.uid)
        assert info is not None, f"{name} is nowhere"
        return info

    # What happens.

    def do_update(self, old: str, new: str) -> None:
        self.update(self.pod(old), self.pod(new))

    def do_relabel(self, *words: str) -> None:
        *names, label = words
        for name in names:
            old = self.pod(name)
            metadata = msgspec.structs.replace(old.metadata, labels={label: ""})
            new = msgspec.structs.replace(old, metadata=metadata)
            self.update(old, new)

    def do_close(self) -> None:
        for in_flight in self.queue.in_flight_pods():
            self.done(in_flight.metadata.uid)
        asyncio.run(self._cancel_pop())
        self.ready += 1

    async def _cancel_pop(self) -> None:
        """Start a pop that waits for a pod, and cancel it."""
        shared = SchedulingQueue(self.queue, clock=VirtualClock(), stories=PodStories())
        pop = asyncio.create_task(shared.pop())
        await asyncio.sleep(0)
        pop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pop
        assert pop.cancelled()

    def do_pop(self, name: str) -> None:
        self._popped(self.pop_nowait(), name)

    def do_pop_specific(self, name: str, expected: str = "") -> None:
        self._popped(self.pop_specific_pod(self.pod(name)), expected or name)

    def _popped(self, info: QueuedPodInfo | None, expected: str) -> None:
        if expected == "nothing":
            assert info is None
        else:
            assert info is not None
            assert info.pod_info.pod == self.pod(expected)
            self.popped[info.uid] = info

    def do_give_back(self, name: str) -> None:
        info = self.popped.pop(self.pod(name).metadata.uid)
        self.take(self.queue.add_unschedulable_if_not_present(info, self.now))

    def do_assigned(self, name: str) -> None:
        self._move_pods_near(self.pod(name), EVENT_ASSIGNED_POD_ADD)

    def do_assigned_update(self, name: str, label: str) -> None:
        event = event_of(label)
        if event.action_type == ActionType.UPDATE_POD_SCALE_DOWN:
            self.event(event, new=self.pod(name))
        else:
            self._move_pods_near(self.pod(name), event)

    def _move_pods_near(self, assigned: Pod, event: ClusterEvent) -> None:
        """Upstream's `AssignedPodAdded`, which it only calls without queueing hints."""

        def is_near(pod_info: PodInfo) -> bool:
            info = self.queue.find(pod_info.key)
            return info is not None and has_cross_topology_term(info, assigned)

        self.event(event, new=assigned, pre_check=is_near)

    def do_flush(self, which: str) -> None:
        if which == "backoff":
            self.flush_backoff()
        else:
            self.flush_leftover()

    def do_allow(self, plugin: str, *labels: str) -> None:
        self.doormen[plugin].allowed = labels

    # Behind the back of the queue.

    def do_seed(
        self,
        place: str,
        *names: str,
        by: str = "",
        count: str = "0",
        errors: str = "0",
        at: str = "0",
        gated: str = "",
    ) -> None:
        self.is_proper = False
        for name in names:
            info = QueuedPodInfo(PodInfo(self.pod(name)), timestamp=self.now + float(at))
            info.unschedulable_plugins = set(filter(None, [*by.split(","), gated]))
            info.unschedulable_count = int(count)
            info.consecutive_errors_count = int(errors)
            info.gating_plugin = gated
            info.gating_plugin_events = self.queue.hints.events_of.get(gated, ())
            self.queue.pool_at[Place(place)].add(info)

    def do_enter(self, place: str, name: str, label: str, result: str, **options: str) -> None:
        self.is_proper = False
        info = QueuedPodInfo(PodInfo(self.pod(name)), timestamp=self.now)
        move = self.queue._move(
            info, Place(place), label, self.now, pre_enqueue=options.get("from") != "backoff"
        )
        assert (move.target == place) == (result == "accepted")

    # What must be so.

    def do_at(self, place: str, *names: str) -> None:
        queue = self.queue
        infos = {
            "active": list(queue.active_q),
            "backoff": list(queue.backoff_q),
            "unschedulable": list(queue.unschedulable_pods),
            "gated": [info for info in queue.unschedulable_pods if info.is_gated],
        }[place]
        found = sorted(info.key for info in infos)
        assert found == sorted(self.pod(name).key for name in names)

    def do_in_flight(self, *names: str) -> None:
        assert self.in_flight() == list(names)

    def do_in_flight_pods(self, *names: str) -> None:
        found = sorted(pod.key for pod in self.queue.in_flight_pods())
        assert found == sorted(self.pod(name).key for name in names)

    def do_holds(self, name: str) -> None:
        assert self._info(name).pod_info.pod == self.pod(name)

    def do_found(self, name: str) -> None:
        assert self.queue.find(self.pod(name).key) is not None

    def do_unknown(self, name: str) -> None:
        assert self.queue.find(self.pod(name).key) is None

    def do_counts(self, **expected: str) -> None:
        statistics = self.queue.statistics()
        assert {key: getattr(statistics, key) for key in expected} == _numbers(expected)

    def do_entered(self, **expected: str) -> None:
        found = {f"{queue}/{event}": n for (queue, event), n in self.queue.incoming_pods.items()}
        assert found == _numbers(expected)

    def do_reasons(self, **expected: str) -> None:
        found = {plugin: self.queue.unschedulable_reasons[plugin, PROFILE] for plugin in expected}
        assert found == _numbers(expected)

    def do_summary(self, *words: str) -> None:
        assert self.queue.pending_pods()[1] == " ".join(words)

    def do_rejectors(self, name: str, *plugins: str, pending: str = "") -> None:
        info = self._info(name)
        assert info.unschedulable_plugins == set(plugins)
        assert info.pending_plugins == set(filter(None, pending.split(",")))

    def do_attempts(self, name: str, attempts: str) -> None:
        assert self._info(name).attempts == int(attempts)

    def do_first_attempt(self, name: str, seconds: str) -> None:
        assert self._info(name).initial_attempt_timestamp == self.started + float(seconds)

    def do_flushed(self, name: str, answer: str) -> None:
        assert self._info(name).was_flushed_from_unschedulable == (answer == "yes")

    def do_backs_off(self, name: str, seconds: str) -> None:
        left = self._info(name).backoff_expiration - self.now
        assert math.floor(left) + 1 == int(seconds)

    def do_duration(self, count: str, seconds: str) -> None:
        assert self.queue.backoff_q.calculate_backoff_duration(int(count)) == float(seconds)

    def do_nominations(self, **expected: str) -> None:
        wanted = {self.pod(name).metadata.uid: node for name, node in expected.items()}
        assert dict(self.queue.nominator.nominations) == wanted

    def do_nominated(self, node: str, *names: str) -> None:
        found = [pod_info.key for pod_info in self.queue.nominator.nominated_pods_for_node(node)]
        assert found == [self.pod(name).key for name in names]

    def do_ready(self) -> None:
        assert self.was_ready


def has_cross_topology_term(waiting: QueuedPodInfo, assigned: Pod) -> bool:
    """True if an assigned pod may change what rejected the waiting pod for other pods' sake.

    Source: `getUnschedulablePodsWithCrossTopologyTerm`.
    """
    namespace = waiting.pod_info.namespace
    is_in_namespace = assigned.metadata.namespace == namespace
    if "PodTopologySpread" in waiting.unschedulable_plugins and is_in_namespace:
        return True
    affinity = waiting.pod_info.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return False
    return any(
        is_in_namespace
        and parse_label_selector(term.label_selector).matches(assigned.metadata.labels)
        for term in affinity.pod_affinity.required_during_scheduling_ignored_during_execution
    )


def _numbers(texts: Mapping[str, str]) -> dict[str, int]:
    return {key: int(value) for key, value in texts.items()}
