"""Events move waiting pods. Cases stem from upstream's `scheduling_queue_test.go`."""

from collections.abc import Callable

import pytest

from scheduler.framework.events import (
    DEFAULT_POD_EVENTS,
    EVENT_UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    QueueingHint,
    QueueingHintFn,
)
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod
from tests.queue.world import (
    HIGH,
    LOW,
    NODE_ADD,
    NODE_LABEL,
    PV_ADD,
    LabelGate,
    SchedulingGates,
    World,
    fail,
    never,
    queue,
    skip,
)


@pytest.mark.parametrize(
    ("rejectors", "pending", "hint", "after_seconds", "place"),
    [
        pytest.param([], ["foo"], queue, 0, "active", id="a pending plugin spares the backoff"),
        pytest.param(["foo"], [], queue, 0, "backoff", id="it is backing off"),
        pytest.param(["foo"], [], queue, 2, "active", id="its backoff is over"),
        pytest.param(["foo"], [], fail, 0, "backoff", id="a failing hint counts as Queue"),
        pytest.param(["foo"], [], skip, 0, "unschedulable", id="the hint says Skip"),
    ],
)
def test_a_hint_decides_where_a_pod_goes(
    rejectors: list[str],
    pending: list[str],
    hint: QueueingHintFn,
    after_seconds: float,
    place: str,
) -> None:
    """TestPriorityQueue_MoveAllToActiveOrBackoffQueueWithQueueingHint."""
    world = World({NODE_ADD: [("foo", hint)]})
    world.try_in_vain(make_pod("p"), *rejectors, pending=pending)
    world.now += after_seconds
    ready = world.ready
    world.event(NODE_ADD)
    assert world.places == {place: ["p"]}
    assert world.ready == ready + (place != "unschedulable")
    world.queue.check()


@pytest.mark.parametrize(
    ("gating_plugin", "hint", "place"),
    [
        pytest.param("SchedulingGates", never, "gated", id="its gate has registered for nothing"),
        pytest.param("foo", queue, "active", id="its gate has registered for it"),
    ],
)
def test_a_gated_pod_is_moved_only_by_events_that_its_gate_has_registered_for(
    gating_plugin: str, hint: QueueingHintFn, place: str
) -> None:
    """The two cases of gated pods in the same test of upstream."""
    hints = {
        NODE_ADD: [("foo", hint)],
        DEFAULT_POD_EVENTS.event(ActionType.UPDATE): [("SchedulingGates", queue)],
    }
    foo = LabelGate("foo", name="foo")
    world = World(hints, gates=[SchedulingGates(), foo])  # type: ignore[arg-type]
    gates = ["gate"] if gating_plugin == "SchedulingGates" else []
    pod = make_pod("p", scheduling_gates=gates, labels={"bar": ""})
    world.add(pod)
    assert world.place_of(pod) == "gated"
    foo.allowed = ("bar",)
    world.event(NODE_ADD)
    assert world.place_of(pod) == place
    world.queue.check()


def test_an_event_moves_the_pods_it_helps_and_leaves_the_others() -> None:
    """TestPriorityQueue_MoveAllToActiveOrBackoffQueue."""
    world = World({NODE_ADD: [("fooPlugin", queue)]})
    low, high = make_pod("up", priority=LOW), make_pod("hpp", priority=HIGH)
    world.try_in_vain(low, "fooPlugin")
    world.try_in_vain(high, "fooPlugin")
    world.try_in_vain(make_pod("hpp1", priority=HIGH))
    world.try_in_vain(make_pod("hpp2", priority=HIGH), "barPlugin")
    assert world.places == {"backoff": ["hpp1"], "unschedulable": ["up", "hpp", "hpp2"]}
    world.event(NODE_ADD)
    world.add(make_pod("mpp"))
    assert world.places == {
        "active": ["mpp"],
        "backoff": ["hpp", "up", "hpp1"],
        "unschedulable": ["hpp2"],
    }
    world.now += 10
    world.flush_backoff()
    world.event(NODE_ADD)
    assert len(world.places["active"]) == 4
    assert world.places["unschedulable"] == ["hpp2"]
    world.queue.check()


@pytest.mark.parametrize(
    ("event", "check", "expected"),
    [
        pytest.param(EVENT_UNSCHEDULABLE_TIMEOUT, None, "p4 p3 p2 p1 p0", id="no check"),
        pytest.param(
            EVENT_UNSCHEDULABLE_TIMEOUT, lambda pod: pod.priority >= 2, "p4 p3 p2", id="at least 2"
        ),
        pytest.param(
            EVENT_UNSCHEDULABLE_TIMEOUT,
            lambda pod: pod.priority % 2 == 0 and pod.priority >= 2,
            "p4 p2",
            id="even and at least 2",
        ),
        pytest.param(EVENT_UNSCHEDULABLE_TIMEOUT, lambda pod: False, "", id="none"),
        pytest.param(PV_ADD, never, "", id="not asked for an event that nobody wants"),
    ],
)
def test_pods_that_fail_the_pre_check_stay(
    event: ClusterEvent, check: Callable[[PodInfo], bool] | None, expected: str
) -> None:
    """TestMoveAllToActiveOrBackoffQueue_PreEnqueueChecks."""
    world = World()
    for number in range(5):
        world.try_in_vain(make_pod(f"p{number}", priority=number), "plugin")
    world.event(event, None, None, pre_check=check)
    assert world.places.get("backoff", []) == expected.split()
    world.queue.check()


def test_recently_tried_pods_go_back_behind_their_equals() -> None:
    """TestRecentlyTriedPodsGoBack."""
    world = World()
    world.add(*(make_pod(f"test-pod-{n}", priority=HIGH) for n in range(5)))
    world.now += 0.001
    tried = world.give_back(world.pop(), "plugin")
    world.now += 10
    world.event(EVENT_UNSCHEDULABLE_TIMEOUT)
    names = world.pop_names()
    assert len(names) == 5
    assert names[-1] == tried.pod_info.name


def test_a_pod_that_fails_again_and_again_does_not_block_newer_ones() -> None:
    """TestPodFailedSchedulingMultipleTimesDoesNotBlockNewerPod."""
    world = World()
    world.try_in_vain(make_pod("unscheduled", priority=HIGH), "plugin")
    world.now += 2
    world.event(EVENT_UNSCHEDULABLE_TIMEOUT)
    info = world.pop()
    world.now += 0.001
    world.add(make_pod("newer", priority=HIGH))
    world.now += 0.001
    world.give_back(info, "plugin")
    world.now += 3
    world.event(EVENT_UNSCHEDULABLE_TIMEOUT)
    assert world.pop_names() == ["newer", "unscheduled"]


def test_an_urgent_pod_that_backs_off_does_not_block_others() -> None:
    """TestHighPriorityBackoff."""
    world = World()
    world.add(make_pod("mid", priority=100), make_pod("high", priority=HIGH))
    world.give_back(world.pop(), "fooPlugin")
    world.event(EVENT_UNSCHEDULABLE_TIMEOUT)
    assert world.pop().pod_info.name == "mid"


def test_an_event_that_concerns_no_waiting_pod_looks_at_none() -> None:
    """The cost of an event must not grow with the number of pods that it cannot help."""
    looked_at: list[str] = []

    def look(pod: PodInfo, *_: object) -> QueueingHint:
        looked_at.append(pod.name)
        return QueueingHint.QUEUE_SKIP

    world = World({NODE_ADD: [("Fit", look)], NODE_LABEL: [("NodeAffinity", look)]})
    for number in range(50):
        world.try_in_vain(make_pod(f"p{number}"), "Fit")
    world.event(NODE_LABEL, None, None, pre_check=lambda pod: bool(look(pod)) or True)
    assert looked_at == []
    world.event(NODE_ADD)
    assert len(looked_at) == 50


def test_an_event_is_kept_for_pods_in_flight_even_if_it_moves_no_pod() -> None:
    world = World({NODE_ADD: [("Fit", queue)]})
    world.add(make_pod("p"))
    info = world.pop()
    world.event(NODE_ADD)
    assert world.ready == 1
    world.give_back(info, "Fit")
    assert world.places == {"backoff": ["p"]}


def test_one_pod_that_can_be_popped_is_reason_enough_to_wake() -> None:
    gate = LabelGate("in", "out")
    world = World({NODE_ADD: [("Fit", queue)]}, gates=[gate])
    for name, label in (("passes", "in"), ("is gated", "out")):
        world.try_in_vain(make_pod(name, labels={label: ""}), "Fit")
    gate.allowed = ("in",)
    ready = world.ready
    world.event(NODE_ADD)
    assert world.places == {"backoff": ["passes"], "unschedulable": ["is gated"]}
    assert world.ready == ready + 1


def test_pods_of_different_profiles_have_different_hints() -> None:
    world = World({NODE_ADD: [("foo", queue)]}, profiles=["one", "two"])
    for name, profile in (("p1", "one"), ("p2", "two"), ("p3", "three")):
        world.try_in_vain(make_pod(name, scheduler_name=profile), "foo")
    world.try_in_vain(make_pod("p4", scheduler_name="one"), "bar")
    world.event(NODE_ADD)
    assert world.places == {"backoff": ["p1", "p2", "p3"], "unschedulable": ["p4"]}
    world.queue.check()
