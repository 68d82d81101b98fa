"""Any sequence of calls: after each, the invariants of the queue hold, and no pod is lost.

Two things are compared with a slow and obvious version of themselves: which pods an event moves
(looking at all of them, where the queue looks into its files), and which pod is popped.
"""

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from scheduler.api.core import Pod
from scheduler.framework.events import (
    EVENT_ASSIGNED_POD_DELETE,
    EVENT_UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    EventResource,
    match_any_cluster_event,
    match_cluster_events,
)
from scheduler.framework.types import NominatingInfo, NominatingMode
from scheduler.queue import QueuedPodInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod
from tests.queue.world import (
    NODE_ADD,
    NODE_LABEL,
    PV_ADD,
    Hints,
    LabelGate,
    World,
    fail,
    less,
    queue,
    skip,
)
from tests.thoroughness import examples

POD_ALL = ClusterEvent(EventResource.POD, ActionType.ALL)
POD_LABEL = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)

HINTS: Hints = {
    NODE_ADD: [("A", queue), ("B", skip)],
    NODE_LABEL: [("B", queue), ("C", fail)],
    POD_ALL: [("C", queue)],
    POD_LABEL: [("gate", queue), ("A", skip)],
    PV_ADD: [("gate", queue)],
    EVENT_UNSCHEDULABLE_TIMEOUT: [("eager", queue)],
}
PROFILES = ("one", "two")

names = st.sampled_from([f"p{n}" for n in range(5)])
plugins = st.sets(st.sampled_from("ABCD"), max_size=2)
events = st.sampled_from(
    [NODE_ADD, NODE_LABEL, PV_ADD, EVENT_UNSCHEDULABLE_TIMEOUT, EVENT_ASSIGNED_POD_DELETE]
)
specs = st.fixed_dictionaries(
    {
        "priority": st.integers(0, 2),
        "labels": st.dictionaries(st.sampled_from(["in", "out"]), st.just(""), max_size=2),
        "scheduler_name": st.sampled_from((*PROFILES, "unknown")),
        "nominated_node_name": st.sampled_from(["", "node1"]),
    }
)


def would_move(info: QueuedPodInfo, event: ClusterEvent) -> bool:
    """Return True if an event moves a waiting pod: the specification."""
    if info.is_gated and not match_any_cluster_event(event, info.gating_plugin_events):
        return False
    rejectors = info.unschedulable_plugins | info.pending_plugins
    if not rejectors or event.is_wildcard:
        return True
    if info.pod_info.spec.scheduler_name not in PROFILES:
        return True
    return any(
        hint is not skip and plugin in rejectors
        for registered, functions in HINTS.items()
        if match_cluster_events(registered, event)
        for plugin, hint in functions
    )


class QueueMachine(RuleBasedStateMachine):
    by_less_only = False

    def __init__(self) -> None:
        super().__init__()
        self.gates = (LabelGate("in", name="gate"), LabelGate("in", "out", name="eager"))
        self.world = World(
            HINTS, gates=self.gates, profiles=PROFILES, by_less_only=self.by_less_only
        )
        self.queue = self.world.queue
        self.world.flush_due()
        #: The pods without a node that there are, and those that were popped, by uid.
        self.pods: dict[str, Pod] = {}
        self.popped: dict[str, QueuedPodInfo] = {}
        self.uids = 0
        self.deadline = math.inf
        self.asleep_since = self.world.ready

    def waiting(self) -> list[QueuedPodInfo]:
        queue = self.queue
        return [*queue.active_q, *queue.backoff_q, *queue.unschedulable_pods]

    # What happens outside.

    @rule(name=names, spec=specs)
    def create(self, name: str, spec: dict[str, str]) -> None:
        if name not in self.pods:
            self.uids += 1
            self.pods[name] = make_pod(name, uid=f"u{self.uids}", **spec)  # type: ignore[arg-type]
            self.world.add(self.pods[name])

    @rule(name=names, spec=specs, as_new=st.booleans())
    def update(self, name: str, spec: dict[str, str], as_new: bool) -> None:
        if (old := self.pods.get(name)) is not None:
            if as_new:
                # The pod was recreated; only one update event arrives for it.
                self.uids += 1
            uid = f"u{self.uids}" if as_new else old.metadata.uid
            self.pods[name] = make_pod(name, uid=uid, **spec)  # type: ignore[arg-type]
            self.world.update(old, self.pods[name])

    @rule(name=names)
    def delete(self, name: str) -> None:
        if (pod := self.pods.pop(name, None)) is not None:
            self.world.delete(pod)

    @rule(event=events, priority=st.none() | st.integers(0, 2))
    def happen(self, event: ClusterEvent, priority: int | None) -> None:
        chosen = {
            info.key: would_move(info, event) and info.pod_info.priority >= (priority or 0)
            for info in self.queue.unschedulable_pods
        }
        self.world.moves.clear()
        self.world.event(
            event,
            pre_check=None if priority is None else lambda pod: pod.priority >= priority,
        )
        moved = {move.pod.key for move in self.world.moves if move.event_label == event.label}
        asked = {m.pod.key for m in self.world.moves if m.source == m.target == "unschedulable"}
        assert moved - asked == {key for key, moves in chosen.items() if moves}

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 3.0, 30.0, 301.0]))
    def wait(self, seconds: float) -> None:
        self.world.now += seconds
        self.world.flush_due()
        assert not any(
            self.queue.backoff_q.release_time(info) <= self.world.now
            for info in self.queue.backoff_q
        )

    @rule(which=st.integers(0, 1), labels=st.sets(st.sampled_from(["in", "out"])))
    def set_gate(self, which: int, labels: set[str]) -> None:
        self.gates[which].allowed = tuple(labels)

    @rule(name=names, node=st.sampled_from(["", "node2"]), override=st.booleans())
    def nominate(self, name: str, node: str, override: bool) -> None:
        for info in self.waiting():
            if info.pod_info.name == name:
                mode = NominatingMode.OVERRIDE if override else NominatingMode.NOOP
                self.queue.nominator.add_nominated_pod(info.pod_info, NominatingInfo(node, mode))

    # What the scheduler does.

    @rule()
    def pop(self) -> None:
        active = list(self.queue.active_q)
        info = self.world.pop_nowait()
        if info is None:
            self.asleep_since = self.world.ready
            return
        assert not any(less(other, info) for other in active)
        assert bool(active) == (info in active)
        self.popped[info.uid] = info

    @precondition(lambda self: self.popped)
    @rule(data=st.data(), rejectors=plugins, pending=plugins)
    def fail(self, data: st.DataObject, rejectors: set[str], pending: set[str]) -> None:
        info = self.popped.pop(data.draw(st.sampled_from(sorted(self.popped))))
        pod = self.pods.get(info.pod_info.name)
        if pod is None or pod.metadata.uid != info.uid:
            self.world.done(info.uid)
            return
        info.pod_info = PodInfo(pod)
        self.world.give_back(info, *rejectors, pending=pending)

    @precondition(lambda self: self.popped)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        info = self.popped.pop(data.draw(st.sampled_from(sorted(self.popped))))
        self.world.done(info.uid)
        pod = self.pods.get(info.pod_info.name)
        if pod is not None and pod.metadata.uid == info.uid:
            self.world.delete(self.pods.pop(info.pod_info.name))

    @rule(name=names)
    def activate(self, name: str) -> None:
        if (pod := self.pods.get(name)) is not None:
            self.world.activate(pod)

    # What always holds.

    @invariant()
    def the_queue_is_in_order(self) -> None:
        self.queue.check()

    @invariant()
    def no_pod_is_lost(self) -> None:
        there = {pod.metadata.uid for pod in self.pods.values()}
        queued = {info.uid for info in self.waiting()}
        in_flight = {pod.metadata.uid for pod in self.queue.in_flight_pods()}
        assert in_flight == set(self.popped)
        assert queued <= there
        assert there - queued <= in_flight

    @invariant()
    def all_pods_are_counted(self) -> None:
        counts = self.queue.statistics()
        assert len(self.waiting()) == (
            counts.active + counts.backoff + counts.unschedulable + counts.gated
        )
        assert counts.in_flight_pods == len(self.popped)

    @invariant()
    def the_consumer_does_not_sleep_while_a_pod_can_be_popped(self) -> None:
        if self.world.ready == self.asleep_since:
            assert not len(self.queue.active_q)
            assert not len(self.queue.backoff_q.pod_backoff_q)

    @invariant()
    def the_consumer_does_not_sleep_past_a_deadline(self) -> None:
        deadline = self.queue.next_deadline()
        if deadline is not None and deadline < self.deadline:
            assert self.world.timed > 0
        self.deadline = math.inf if deadline is None else deadline
        self.world.timed = 0


class QueueMachineByLess(QueueMachine):
    """The same with a queue-sort plugin that has no sort key."""

    by_less_only = True


@pytest.mark.slow
@pytest.mark.parametrize("machine", [QueueMachine, QueueMachineByLess])
def test_any_sequence_of_calls_leaves_the_queue_in_order(
    machine: type[QueueMachine],
) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples(60), stateful_step_count=40)
    )
