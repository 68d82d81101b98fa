"""Active pods and pods in flight."""

import pytest

from scheduler.queue.active_queue import ActiveQueue, InFlight, InFlightEvent, sort_key_from_less
from scheduler.testing import make_pod
from tests.queue.world import (
    HIGH,
    NODE_ADD,
    PV_ADD,
    START,
    Hints,
    World,
    less,
    queue,
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


def test_an_event_is_not_kept_while_nothing_is_in_flight() -> None:
    in_flight = InFlight()
    in_flight.add_event(NODE_ADD, None, None)
    assert not in_flight.add_events_for("uid", None, None, [NODE_ADD])
    assert in_flight.missed_by("uid") is None
    assert in_flight.done("uid") is None
    assert in_flight.entries() == ()


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
