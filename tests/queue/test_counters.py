"""Counts of pods and of events.

Cases stem from `TestSchedulerPodsMetric`, `TestIncomingPodsMetrics`, `TestUnschedulablePodsMetric`.
"""

import pytest

from scheduler.framework.events import (
    EVENT_UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    EventResource,
)
from scheduler.testing import make_pod
from tests.queue.world import PROFILE, START, LabelGate, World, queue, waiting

TIMEOUT = EVENT_UNSCHEDULABLE_TIMEOUT
POD_UPDATE = ClusterEvent(EventResource.POD, ActionType.UPDATE)

#: A queueable pod, a pod that is not queueable, and a pod that is added later.
X, Y, Z = "x", "y", "z"


class Scene:
    """The operations of upstream's test on a queue with one gate."""

    def __init__(self) -> None:
        self.gate = LabelGate("queueable")
        self.world = World({POD_UPDATE: [(self.gate.name, queue)]}, gates=[self.gate])

    def run(self, operation: str, name: str) -> None:
        world, pod = self.world, make_pod(name, labels={"failme" if name == Y else "queueable": ""})
        match operation:
            case "active":
                world.add(pod)
            case "backoff":
                info = waiting(pod, "plugin", unschedulable_count=1)
                world.queue.backoff_q.add(info)
            case "unschedulable" if name == Y:
                world.add(pod)
            case "unschedulable":
                came = START + (2 if name == Z else 0)
                info = waiting(pod, timestamp=came, unschedulable_count=1)
                info.unschedulable_plugins = {self.gate.name}
                world.queue.unschedulable_pods.add(info)
            case "delete":
                world.delete(pod)
            case "update":
                labels = {**pod.metadata.labels, "queueable": "", "n": str(world.now)}
                world.now += 0.001
                world.update(pod, make_pod(name, labels=labels))
            case "move all":
                world.event(TIMEOUT)
            case "flush":
                world.now += 3
                world.flush_backoff()
            case "wait":
                world.now += 3
            case "gate all":
                self.gate.allowed = ()
            case "ungate":
                self.gate.allowed = ("queueable",)
        world.queue.check()


@pytest.mark.parametrize(
    ("operations", "sizes"),
    [
        pytest.param("active x, unschedulable z, unschedulable y", (1, 0, 1, 1), id="add"),
        pytest.param("active x, backoff z, unschedulable y", (1, 1, 0, 1), id="all kinds"),
        pytest.param(
            "unschedulable x, unschedulable y, wait, move all", (1, 0, 0, 1), id="move to active"
        ),
        pytest.param(
            "unschedulable x, wait, unschedulable y, unschedulable z, move all",
            (1, 1, 0, 1),
            id="some back off",
        ),
        pytest.param("unschedulable x, active z, move all, flush", (2, 0, 0, 0), id="flush"),
        pytest.param(
            "active x, unschedulable z, unschedulable y, delete x, delete y", (0, 0, 1, 0),
            id="delete",
        ),
        pytest.param("active x, unschedulable y, update y", (2, 0, 0, 0), id="update"),
        pytest.param(
            "unschedulable x, wait, gate all, update x", (0, 0, 0, 1), id="gated on its way active"
        ),
        pytest.param(
            "unschedulable x, gate all, update x", (0, 0, 0, 1), id="gated on its way to backoff"
        ),
        pytest.param(
            "unschedulable x, wait, gate all, update x, ungate, update x", (1, 0, 0, 0),
            id="gated, then active",
        ),
        pytest.param(
            "unschedulable x, gate all, update x, ungate, update x", (0, 1, 0, 0),
            id="gated, then backing off",
        ),
    ],
)  # fmt: skip
def test_waiting_pods_are_counted_by_where_they_are(
    operations: str, sizes: tuple[int, ...]
) -> None:
    """TestSchedulerPodsMetric: active, backoff, unschedulable, gated."""
    scene = Scene()
    for step in operations.split(", "):
        operation, _, name = step.rpartition(" ")
        scene.run(*((operation, name) if name in (X, Y, Z) else (step, "")))
    statistics = scene.world.queue.statistics()
    assert (
        statistics.active,
        statistics.backoff,
        statistics.unschedulable,
        statistics.gated,
    ) == sizes


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("add", {("active", "UnschedulablePodAdd"): 3}),
        (
            "add reject",
            {
                ("active", "UnschedulablePodAdd"): 3,
                ("unschedulable", "ScheduleAttemptFailure"): 3,
            },
        ),
        (
            "add reject move",
            {
                ("active", "UnschedulablePodAdd"): 3,
                ("unschedulable", "ScheduleAttemptFailure"): 3,
                ("backoff", "UnschedulableTimeout"): 3,
            },
        ),
        (
            "add reject wait move",
            {
                ("active", "UnschedulablePodAdd"): 3,
                ("unschedulable", "ScheduleAttemptFailure"): 3,
                ("active", "UnschedulableTimeout"): 3,
            },
        ),
        (
            "add error wait flush",
            {
                ("active", "UnschedulablePodAdd"): 3,
                ("backoff", "ScheduleAttemptFailure"): 3,
                ("active", "BackoffComplete"): 3,
            },
        ),
        (
            "add reject move pop",
            {
                ("active", "UnschedulablePodAdd"): 3,
                ("unschedulable", "ScheduleAttemptFailure"): 3,
                ("backoff", "UnschedulableTimeout"): 3,
                ("active", "PopFromBackoffQ"): 3,
            },
        ),
    ],
)
def test_pods_are_counted_each_time_they_enter_a_queue(
    steps: str, expected: dict[tuple[str, str], int]
) -> None:
    """TestIncomingPodsMetrics."""
    world = World()
    infos = []
    for step in steps.split():
        match step:
            case "add":
                world.add(*(make_pod(f"p{n}") for n in range(3)))
            case "reject" | "error":
                infos = [world.pop() for _ in range(3)]
                for info in infos:
                    world.give_back(info, *(["plugin"] if step == "reject" else []))
            case "move":
                world.event(TIMEOUT)
            case "wait":
                world.now += 3
            case "flush":
                world.flush_backoff()
            case "pop":
                world.pop_names()
    assert world.queue.incoming_pods == expected


def test_gated_pods_enter_the_unschedulable_ones_each_time_an_event_tries_them() -> None:
    """Upstream's metric counts gated pods as unschedulable."""
    world = World({TIMEOUT: [("preEnqueuePlugin", queue)]}, gates=[LabelGate()])
    world.add(make_pod("p"))
    world.event(TIMEOUT)
    world.update(make_pod("p"), make_pod("p", labels={"a": "b"}))
    assert world.queue.incoming_pods == {
        ("unschedulable", "UnschedulablePodAdd"): 1,
        ("unschedulable", "UnschedulableTimeout"): 1,
    }


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param("gate1, add, move, ungate1, move, pop", (0, 0), id="gated, ungated, popped"),
        pytest.param("gate1, add, move, delete", (0, 0), id="gated, deleted"),
        pytest.param("gate1, add, move", (1, 0), id="gated twice by the same"),
        pytest.param("add, delete", (0, 0), id="never gated, deleted"),
        pytest.param(
            "gate1, add, ungate1, gate2, move, ungate2, move, pop",
            (0, 0),
            id="gated by two in turn, popped",
        ),
        pytest.param(
            "gate1, add, ungate1, gate2, move, delete", (0, 0), id="gated by two, deleted"
        ),
        pytest.param("gate1, add, ungate1, gate2, move", (1, 1), id="gated by two in turn"),
    ],
)
def test_waiting_pods_are_counted_by_rejecting_plugin(
    steps: str, expected: tuple[int, int]
) -> None:
    """TestUnschedulablePodsMetric."""
    gates = {n: LabelGate("queueable", name=f"plugin{n}") for n in "12"}
    world = World({TIMEOUT: [(g.name, queue) for g in gates.values()]}, gates=list(gates.values()))
    pod = make_pod("podA", labels={"queueable": ""})
    for step in steps.split(", "):
        match step:
            case "add":
                world.add(pod)
            case "move":
                world.event(TIMEOUT)
            case "pop":
                world.pop()
            case "delete":
                world.delete(pod)
            case "gate1" | "gate2":
                gates[step[-1]].allowed = ()
            case "ungate1" | "ungate2":
                gates[step[-1]].allowed = ("queueable",)
    reasons = world.queue.unschedulable_reasons
    assert tuple(reasons["plugin" + n, PROFILE] for n in "12") == expected


def test_a_rejected_pod_counts_from_its_verdict_to_its_next_attempt() -> None:
    world = World()
    world.try_in_vain(make_pod("p"), "Fit", pending=["Volumes"])
    assert world.queue.unschedulable_reasons == {("Fit", PROFILE): 1, ("Volumes", PROFILE): 1}
    world.now += 301
    world.flush_leftover()
    world.pop()
    assert world.queue.unschedulable_reasons.total() == 0
