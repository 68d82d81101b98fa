"""An event that moves many pods moves them in parts."""

from scheduler.queue import Place
from scheduler.testing import make_pod
from tests.queue.world import HIGH, NODE_ADD, START, World, queue, skip

NAMES = [f"p{number}" for number in range(5)]


def world_of_waiting_pods() -> World:
    """Five pods, the last one the most urgent, have failed; an event has moved two of them."""
    world = World({NODE_ADD: [("plugin", queue), ("other", skip)]}, moved_at_once=2)
    for number, name in enumerate(NAMES):
        world.try_in_vain(make_pod(name, priority=number), "plugin")
    world.now = START + 10
    world.event(NODE_ADD)
    return world


def test_the_others_wait_where_they_are_and_leave_in_the_order_of_arrival() -> None:
    world = world_of_waiting_pods()
    assert [world.find(name).place for name in NAMES[1:3]] == [Place.ACTIVE, Place.UNSCHEDULABLE]
    world.take(world.queue.requeue_some())
    assert [world.find(name).place for name in NAMES[3:]] == [Place.ACTIVE, Place.UNSCHEDULABLE]
    assert world.queue.requeues_left
    world.take(world.queue.requeue_some())
    assert not world.queue.requeues_left
    world.queue.check()
    moved = [move.pod.pod_info.name for move in world.moves if move.event_label == NODE_ADD.label]
    assert moved == NAMES


def test_no_pod_is_popped_before_all_have_moved() -> None:
    assert world_of_waiting_pods().pop_names() == NAMES[::-1]


def test_a_pod_that_has_left_since_is_not_moved() -> None:
    world = world_of_waiting_pods()
    world.delete(world.find("p3").pod_info.pod)
    tried_again = world.pop_specific_pod(world.find("p4").pod_info.pod)
    assert tried_again is not None
    world.give_back(tried_again, "other")
    assert world.find("p4").place == Place.UNSCHEDULABLE
    assert world.pop_names() == ["p2", "p1", "p0"]
    assert world.find("p4").place == Place.UNSCHEDULABLE


def test_a_changed_pod_is_moved_as_decided() -> None:
    world = world_of_waiting_pods()
    old = world.find("p4").pod_info.pod
    world.update(old, make_pod("p4", priority=HIGH, annotations={"a": "b"}))
    assert world.find("p4").place == Place.UNSCHEDULABLE
    assert world.pop_names()[0] == "p4"


def test_an_event_meanwhile_moves_its_pods_after_those_of_the_first_one() -> None:
    world = world_of_waiting_pods()
    world.event(NODE_ADD)
    assert world.find("p3").place == Place.ACTIVE
    assert world.find("p4").place == Place.UNSCHEDULABLE
    assert world.pop_names() == NAMES[::-1]
    moved = [move.pod.pod_info.name for move in world.moves if move.event_label == NODE_ADD.label]
    assert moved == NAMES
