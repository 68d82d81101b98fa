"""Deadlines, and moves of waiting pods caused by time alone."""

import pytest

from scheduler.framework.events import EVENT_UNSCHEDULABLE_TIMEOUT
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import Nominator
from scheduler.queue.priority_queue import PriorityQueue
from scheduler.testing import VirtualClock, make_pod
from tests.queue.pools import pods_of
from tests.queue.world import START, LabelGate, World, less, queue, waiting


def test_without_maximum_there_is_no_backoff() -> None:
    world = World(initial_backoff_seconds=0, max_backoff_seconds=0)
    for _ in range(3):
        world.try_in_vain(make_pod("p"))
        assert world.places == {"active": ["p"]}
        world.delete(make_pod("p"))


def test_flushing_the_backoff_makes_pods_poppable() -> None:
    world = World()
    world.try_in_vain(make_pod("p"))
    ready = world.ready
    world.flush_backoff(world.now + 1)
    assert world.ready == ready
    world.flush_backoff(world.now + 2)
    assert world.ready == ready + 1


@pytest.mark.parametrize("seconds", [300.0, 30.0])
def test_the_maximum_wait_of_pods_is_configurable(seconds: float) -> None:
    """TestPriorityQueue_initPodMaxInUnschedulablePodsDuration."""
    world = World(max_in_unschedulable_pods_seconds=seconds)
    for name, came in (("p1", -1), ("p2", -2)):
        info = waiting(make_pod(name), "plugin", timestamp=START + came, unschedulable_count=1)
        world.queue.unschedulable_pods.add(info)
    world.flush_leftover(START + seconds - 1.5)
    assert world.places == {"active": ["p2"], "unschedulable": ["p1"]}
    world.flush_leftover(START + seconds)
    assert world.pop_names() == ["p2", "p1"]


def test_since_1_37_a_gated_pod_that_was_flushed_waits_for_the_whole_time_again() -> None:
    world = World(gates=[LabelGate()], gated_wait_anew=True)
    world.add(make_pod("p"))
    world.now += 301
    world.flush_leftover()
    assert not world.find("p").was_flushed_from_unschedulable
    deadline = world.queue.next_deadline()
    assert deadline is not None
    assert 300 < deadline - world.now <= 330
    world.queue.check()


def test_a_gate_that_has_registered_for_flushes_runs_at_each_flush() -> None:
    gate = LabelGate()
    world = World({EVENT_UNSCHEDULABLE_TIMEOUT: [(gate.name, queue)]}, gates=[gate])
    pod = make_pod("p", labels={"p": ""})
    world.flush_due(START)
    world.add(pod)
    for ticks in (11, 12):
        world.now = START + 30 * ticks
        assert world.queue.next_deadline() == world.now
        world.flush_due()
        assert len(gate.asked) == ticks - 9
        world.queue.check()
    gate.allowed = ("p",)
    world.now += 30
    world.flush_due()
    assert world.places == {"active": ["p"]}


def test_a_deadline_always_lies_after_the_flush_before() -> None:
    """Otherwise a loop that sleeps until the deadline would never sleep."""
    gate = LabelGate()
    world = World({EVENT_UNSCHEDULABLE_TIMEOUT: [(gate.name, queue)]}, gates=[gate])
    world.add(make_pod("p"))
    world.now += 1000
    for _ in range(3):
        world.flush_due()
        deadline = world.queue.next_deadline()
        assert deadline == world.now + 30
        world.now = deadline


# Deadlines.


def test_an_empty_queue_has_no_deadline() -> None:
    world = World()
    assert world.queue.next_deadline() is None
    world.add(make_pod("p"))
    assert world.queue.next_deadline() is None


def test_the_deadline_of_a_backoff_is_the_end_of_its_window() -> None:
    world = World()
    world.now += 0.4
    world.try_in_vain(make_pod("p"))
    assert world.queue.next_deadline() == START + 2
    world.flush_due(START + 2)
    assert world.places == {"active": ["p"]}


@pytest.mark.parametrize(
    ("first_flush", "came", "deadline"),
    [
        pytest.param(0.0, 0.0, 330.0, id="at the tick the pod has not waited longer yet"),
        pytest.param(0.0, 0.1, 330.0, id="the tick after"),
        pytest.param(-10.0, 0.0, 320.0, id="ticks count from the first flush"),
        pytest.param(-10.0, 25.0, 350.0, id="and the pod's time from when it came"),
        pytest.param(None, 0.0, 330.0, id="without a flush they count from the epoch"),
    ],
)
def test_the_deadline_of_an_unschedulable_pod_is_the_first_tick_at_which_it_is_overdue(
    first_flush: float | None, came: float, deadline: float
) -> None:
    world = World()
    if first_flush is not None:
        world.flush_due(START + first_flush)
    world.now = START + came
    world.try_in_vain(make_pod("p"), "plugin")
    assert world.queue.next_deadline() == START + deadline
    world.flush_leftover(START + deadline - 30)
    assert world.places == {"unschedulable": ["p"]}
    world.flush_due(START + deadline)
    assert world.places == {"active": ["p"]}


def test_a_flush_that_is_not_due_leaves_overdue_pods_for_the_next_tick() -> None:
    """Upstream flushes every 30 seconds, not sooner."""
    world = World()
    world.flush_due(START)
    world.try_in_vain(make_pod("p"), "plugin")
    world.flush_due(START + 315)
    assert world.places == {"unschedulable": ["p"]}
    world.flush_due(START + 331)
    assert world.places == {"active": ["p"]}


def test_the_earliest_deadline_counts() -> None:
    world = World()
    world.flush_due(START)
    world.try_in_vain(make_pod("waits"), "plugin")
    world.try_in_vain(make_pod("error"))
    assert world.queue.next_deadline() == START + 2
    world.flush_due(START + 2)
    assert world.queue.next_deadline() == START + 330


async def test_a_virtual_clock_runs_from_deadline_to_deadline() -> None:
    """Five minutes of waiting take a handful of steps: how a shell drives the queue."""
    clock = VirtualClock()
    pq = PriorityQueue(
        less,
        pre_enqueue_plugins={},
        queueing_hint_map={},
        nominator=Nominator(lambda namespace, name: None),
        metrics=SchedulerMetrics(),
    )
    pq.flush_due(clock.now())
    for name, rejectors in (("rejected", ("plugin",)), ("error", ())):
        info = waiting(make_pod(name), *rejectors)
        pq.in_flight.add(info)
        pq.add_unschedulable_if_not_present(info, clock.now())
    steps = []
    while (deadline := pq.next_deadline()) is not None:
        await clock.advance(deadline - clock.now())
        pq.flush_due(clock.now())
        active = [pod.metadata.name for pod in pods_of(pq.active_q.in_order())]
        steps.append((clock.now() - START, active))
    assert steps == [(2.0, ["error"]), (330.0, ["error", "rejected"])]
