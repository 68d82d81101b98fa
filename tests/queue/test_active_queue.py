"""Active pods and pods in flight. Cases stem from `Test_InFlightPods` and `TestClose`."""

import pytest

from scheduler.framework.events import EVENT_ASSIGNED_POD_ADD, EVENT_UNSCHEDULABLE_TIMEOUT
from scheduler.queue import QueuedPodInfo
from scheduler.queue.active_queue import ActiveQueue, InFlight, InFlightEvent, sort_key_from_less
from scheduler.testing import make_pod
from tests.queue.world import (
    CSI_NODE_UPDATE,
    HIGH,
    NODE_ADD,
    PV_ADD,
    PV_UPDATE,
    PVC_ADD,
    START,
    Hints,
    World,
    less,
    queue,
    skip,
    waiting,
)

P1, P2, P3 = (make_pod(name) for name in ("p1", "p2", "p3"))


def in_flight_list(world: World) -> list[str]:
    """The list of pods and events in flight, by name and label."""
    return [
        entry.event.label if isinstance(entry, InFlightEvent) else entry.pod_info.name
        for entry in world.queue.in_flight.entries()
    ]


def interested_in(*events: object) -> Hints:
    return {event: [("foo1", queue)] for event in events}  # type: ignore[misc]


ON_POD_ADD_QUEUE: Hints = {EVENT_ASSIGNED_POD_ADD: [("foo1", queue)]}
ON_POD_ADD_SKIP: Hints = {EVENT_ASSIGNED_POD_ADD: [("foo1", skip)]}
ON_POD_ADD_THREE: Hints = {
    EVENT_ASSIGNED_POD_ADD: [("foo3", skip), ("foo2", queue), ("foo1", queue)]
}

#: What happens: a pod is popped ("pop"), an event, or a popped pod comes back ("back", its number,
#: rejector plugins, pending plugins).
Step = tuple[object, ...]


@pytest.mark.parametrize(
    ("hints", "pods", "steps", "in_flight", "places"),
    [
        pytest.param(
            interested_in(PV_ADD),
            1,
            [PVC_ADD, "pop", PV_ADD, PV_UPDATE],
            ["p1", "PersistentVolumeAdd"],
            {"in flight": ["p1"]},
            id="only events of interest are kept, and only from the pop on",
        ),
        pytest.param(
            interested_in(PV_ADD, NODE_ADD, PVC_ADD),
            2,
            [PVC_ADD, "pop", PV_ADD, "pop", NODE_ADD, ("back", 1)],
            ["p2", "NodeAdd"],
            {"backoff": ["p1"], "in flight": ["p2"]},
            id="when a pod comes back, events that only it has missed go",
        ),
        pytest.param(
            interested_in(PV_ADD, NODE_ADD, PVC_ADD, CSI_NODE_UPDATE),
            2,
            ["pop", PV_ADD, "pop", NODE_ADD, ("back", 1), CSI_NODE_UPDATE, ("back", 2)],
            [],
            {"backoff": ["p1", "p2"]},
            id="when all have come back, nothing is left",
        ),
        pytest.param(
            interested_in(PV_ADD, NODE_ADD, EVENT_ASSIGNED_POD_ADD),
            3,
            ["pop", PV_ADD, "pop", NODE_ADD, "pop", EVENT_ASSIGNED_POD_ADD, ("back", 2)],
            ["p1", "PersistentVolumeAdd", "NodeAdd", "p3", "AssignedPodAdd"],
            {"backoff": ["p2"], "in flight": ["p1", "p3"]},
            id="events that an earlier pod has missed stay",
        ),
        pytest.param(
            ON_POD_ADD_SKIP,
            1,
            [EVENT_UNSCHEDULABLE_TIMEOUT, "pop", EVENT_ASSIGNED_POD_ADD, ("back", 1, "foo1")],
            [],
            {"unschedulable": ["p1"]},
            id="events before the pop do not count",
        ),
        pytest.param(
            ON_POD_ADD_QUEUE,
            1,
            ["pop", EVENT_ASSIGNED_POD_ADD, ("back", 1)],
            [],
            {"backoff": ["p1"]},
            id="an error backs off whatever has happened",
        ),
        pytest.param(
            ON_POD_ADD_QUEUE,
            1,
            ["pop", NODE_ADD, ("back", 1, "foo1")],
            [],
            {"unschedulable": ["p1"]},
            id="no event that its plugin has registered for",
        ),
        pytest.param(
            ON_POD_ADD_SKIP,
            1,
            ["pop", EVENT_ASSIGNED_POD_ADD, ("back", 1, "foo1")],
            [],
            {"unschedulable": ["p1"]},
            id="the hint says that it does not help",
        ),
        pytest.param(
            ON_POD_ADD_THREE,
            1,
            ["pop", EVENT_ASSIGNED_POD_ADD, ("back", 1, "foo2 foo3", "foo1")],
            [],
            {"active": ["p1"]},
            id="the hint of a pending plugin spares the backoff",
        ),
        pytest.param(
            {EVENT_ASSIGNED_POD_ADD: [("foo2", skip), ("foo1", queue)]},
            1,
            ["pop", EVENT_ASSIGNED_POD_ADD, ("back", 1, "foo1 foo2")],
            [],
            {"backoff": ["p1"]},
            id="one hint that says yes is enough",
        ),
        pytest.param(
            ON_POD_ADD_THREE,
            2,
            ["pop", NODE_ADD, "pop", EVENT_ASSIGNED_POD_ADD, ("back", 1),
             ("back", 2, "foo2 foo3", "foo1")],
            [],
            {"active": ["p2"], "backoff": ["p1"]},
            id="an event that came while others were in flight counts as well",
        ),
    ],
)  # fmt: skip
def test_pods_that_come_back_are_shown_the_events_they_missed(
    hints: Hints,
    pods: int,
    steps: list[object],
    in_flight: list[str],
    places: dict[str, list[str]],
) -> None:
    """Test_InFlightPods."""
    world = World(hints)
    popped: dict[str, QueuedPodInfo] = {}
    for pod in (P1, P2, P3)[:pods]:
        world.add(pod)
        world.now += 1
    for step in steps:
        if step == "pop":
            info = world.pop()
            popped[info.pod_info.name] = info
        elif isinstance(step, tuple) and step[0] == "back":
            number, rejectors, pending = (*step[1:], "", "")[:3]
            world.give_back(popped[f"p{number}"], *rejectors.split(), pending=pending.split())
        else:
            world.event(step)  # type: ignore[arg-type]
        world.queue.check()
    assert in_flight_list(world) == in_flight
    assert world.places == places


def test_a_popped_pod_still_has_its_last_rejectors() -> None:
    """Test_InFlightPods, "popped pod preserves UnschedulablePlugins..."; TestPop."""
    world = World({PV_ADD: [("foo1", queue)]})
    world.try_in_vain(P1, "foo2", pending=["foo1"])
    world.event(PV_ADD)
    info = world.pop()
    assert info.unschedulable_plugins == {"foo2"}
    assert info.pending_plugins == {"foo1"}


def test_a_pod_that_is_popped_twice_is_dropped_the_second_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Test_InFlightPods, "Pop is made twice for the same Pod": a bug elsewhere leaks nothing."""
    world = World(interested_in(PV_ADD, NODE_ADD))
    world.add(P1)
    first = world.pop()
    world.event(PV_ADD)
    world.add(P1)
    with pytest.raises(AssertionError, match="default/p1 is in flight and active"):
        world.queue.check()
    world.now += 1
    world.add(P3)
    assert world.pop().pod_info.name == "p3"
    assert "the same pod is tracked in multiple places in the scheduler: default/p1" in caplog.text
    assert world.places == {"in flight": ["p1", "p3"]}
    world.event(NODE_ADD)
    world.give_back(first)
    assert in_flight_list(world) == ["p3", "NodeAdd"]
    world.queue.check()


def test_when_all_pods_are_done_nothing_is_kept_in_flight() -> None:
    """TestClose."""
    world = World(interested_in(NODE_ADD, CSI_NODE_UPDATE))
    world.add(P1, P2)
    world.pop()
    world.pop()
    world.event(NODE_ADD)
    world.event(CSI_NODE_UPDATE)
    statistics = world.queue.statistics()
    assert (statistics.in_flight_pods, statistics.in_flight_events) == (2, 2)
    for pod in (P1, P2):
        world.done(pod.metadata.uid)
    assert in_flight_list(world) == []
    world.done(P1.metadata.uid)
    world.queue.check()


def test_an_event_is_not_kept_while_nothing_is_in_flight() -> None:
    in_flight = InFlight()
    in_flight.add_event(NODE_ADD, None, None)
    assert not in_flight.add_events_for("uid", None, None, [NODE_ADD])
    assert in_flight.missed_by("uid") is None
    assert in_flight.done("uid") is None
    assert in_flight.entries() == ()


def test_each_pop_counts_as_an_attempt() -> None:
    world = World()
    world.add(P1, P2)
    infos = [world.pop(), world.pop()]
    assert [info.attempts for info in infos] == [1, 1]


def test_pods_are_ordered_by_less_where_there_is_no_sort_key() -> None:
    """TestPriorityQueue_AddWithReversePriorityLessFunc."""
    key = sort_key_from_less(lambda first, second: less(second, first))
    active_q = ActiveQueue(key)
    for name, priority in (("high", HIGH), ("low", 0), ("mid", 500)):
        info = waiting(make_pod(name, priority=priority), timestamp=START)
        active_q.add(info)
    assert [info.pod_info.name for info in active_q.in_order()] == ["low", "mid", "high"]
    assert list(active_q.complaints()) == []


def test_pods_that_are_equal_to_less_leave_in_the_order_in_which_they_came() -> None:
    active_q = ActiveQueue(sort_key_from_less(less))
    names = [f"p{n}" for n in range(20)]
    for name in names:
        info = waiting(make_pod(name), timestamp=START)
        active_q.add(info)
    assert [info.pod_info.name for info in iter(active_q.pop, None)] == names


def test_a_deleted_pod_that_changes_does_not_affect_the_order_of_the_others() -> None:
    """The heap keeps the entry of a deleted pod for a while; its sort key must not change."""
    active_q = ActiveQueue(sort_key_from_less(less))
    infos = [waiting(make_pod(f"p{n}"), timestamp=START + n) for n in range(8)]
    for info in infos:
        active_q.add(info)
    for info in infos[:4]:
        active_q.delete(info.key)
        info.timestamp += 100
    assert list(active_q.complaints()) == []
    assert [info.pod_info.name for info in iter(active_q.pop, None)] == ["p4", "p5", "p6", "p7"]


def test_an_update_with_a_new_priority_moves_an_active_pod() -> None:
    for by_less_only in (False, True):
        world = World(by_less_only=by_less_only)
        world.add(make_pod("a", priority=5), make_pod("b", priority=3), make_pod("c", priority=4))
        world.update(make_pod("b", priority=3), make_pod("b", priority=9))
        world.queue.check()
        assert world.pop_names() == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("break_it", "complaint"),
    [
        (lambda q: q._entries.popitem(last=False), "is kept for no pod in flight"),
        (lambda q: q._entries.move_to_end(0), "out of order"),
        (lambda q: q._position_of.clear(), "pods in flight stand at"),
    ],
)
def test_a_broken_list_complains(break_it: object, complaint: str) -> None:
    in_flight = InFlight()
    for pod in (P1, P2):
        in_flight.add(waiting(pod))
        in_flight.add_event(NODE_ADD, None, None)
    assert list(in_flight.complaints()) == []
    assert callable(break_it)
    break_it(in_flight)
    assert any(complaint in text for text in in_flight.complaints())
