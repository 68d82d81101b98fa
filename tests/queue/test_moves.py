"""Events move waiting pods, and wake the loop; `test_recorded.py` has upstream's own moves."""

import pytest

from scheduler.framework.events import (
    QueueingHint,
    QueueingHintFn,
)
from scheduler.queue.queued_pod_info import CountedReasons
from scheduler.snapshot.pod_info import PodInfo
from scheduler.testing import make_pod
from tests.queue.world import (
    NODE_ADD,
    NODE_LABEL,
    LabelGate,
    World,
    fail,
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


@pytest.mark.parametrize(("each_rejection", "left"), [(False, 0), (True, 2)])
def test_up_to_1_35_each_rejection_of_a_gated_pod_counts_for_ever(
    each_rejection: bool, left: int
) -> None:
    gate, counted = LabelGate(), CountedReasons((), each_rejection=each_rejection)
    world = World({NODE_ADD: [(gate.name, queue)]}, gates=[gate], counted_reasons=counted)
    world.add(make_pod("p", labels={"in": ""}))
    world.event(NODE_ADD)
    world.event(NODE_ADD)
    assert world.queue.unschedulable_reasons.total() == left + 1
    gate.allowed = ("in",)
    world.event(NODE_ADD)
    assert world.pop_names() == ["p"]
    assert world.queue.unschedulable_reasons.total() == left


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
