"""The queue of calls, beyond upstream's own cases (`tests/upstream/test_api_dispatcher.py`)."""

import random

import pytest

from scheduler.api_calls import (
    RELEVANCES,
    CallNotMade,
    CallOverwritten,
    CallQueue,
    CallSkipped,
    PodBindingCall,
    PodDeletionCall,
    PodStatusPatchCall,
    QueuedCall,
)
from scheduler.framework.types import Condition, NominatingInfo, NominatingMode
from scheduler.testing import make_pod

POD = make_pod("pod")
WAITS = Condition("PodScheduled", "False", "Unschedulable", "no room")


class Caller:
    """Adds calls and takes note of those that are dropped."""

    def __init__(self) -> None:
        self.queue = CallQueue(RELEVANCES)
        self.dropped: list[tuple[QueuedCall, CallNotMade]] = []

    def add(self, call: object) -> QueuedCall:
        queued = QueuedCall(call, lambda why: self.dropped.append((queued, why)))
        self.queue.add(queued)
        self.queue.check()
        return queued


def _patch(
    condition: Condition | None = WAITS, *, nominate: str | None = None
) -> PodStatusPatchCall:
    info = None if nominate is None else NominatingInfo(nominate, NominatingMode.OVERRIDE)
    return PodStatusPatchCall(POD, condition, info)


def test_the_next_in_line_is_dropped_when_it_is_replaced() -> None:
    caller = Caller()
    caller.add(_patch())
    under_way = caller.queue.pop()
    patch = caller.add(_patch(nominate="a"))
    bind = caller.add(PodBindingCall(POD, "a"))
    ((dropped, why),) = caller.dropped
    assert (dropped, type(why)) == (patch, CallOverwritten)
    assert caller.queue.pop() is None
    assert under_way is not None
    caller.queue.finalize(under_way, made=True)
    assert caller.queue.pop() is bind


def test_a_call_under_way_keeps_its_outcome() -> None:
    caller = Caller()
    caller.add(_patch())
    caller.queue.pop()
    caller.add(_patch(nominate="a"))
    assert caller.dropped == []


def test_a_call_that_takes_a_place_keeps_it() -> None:
    caller = Caller()
    caller.add(_patch())
    caller.add(PodBindingCall(make_pod("other"), "a"))
    bind = caller.add(PodBindingCall(POD, "a"))
    assert caller.queue.pop() is bind


def test_withdrawing_the_next_in_line_leaves_the_one_under_way() -> None:
    caller = Caller()
    first = caller.add(_patch())
    caller.queue.pop()
    second = caller.add(PodBindingCall(POD, "a"))
    caller.queue.withdraw(second)
    caller.queue.check()
    caller.queue.finalize(first, made=True)
    assert caller.queue.calls() == []
    caller.queue.withdraw(second)


@pytest.mark.parametrize("seed", range(20))
def test_every_call_is_made_once_or_dropped_once(seed: int) -> None:
    """Random histories: each call ends in exactly one way, and no two for a pod run together."""
    rng, caller = random.Random(seed), Caller()
    pods = [make_pod(f"pod-{i}") for i in range(3)]
    under_way: list[QueuedCall] = []
    added: list[QueuedCall] = []
    ended: list[QueuedCall] = []
    for _ in range(300):
        action, pod = rng.random(), rng.choice(pods)
        if action < 0.5:
            call = rng.choice(
                [
                    PodStatusPatchCall(pod, WAITS._replace(message=str(rng.random())), None),
                    PodBindingCall(pod, "a"),
                    PodDeletionCall(pod),
                ]
            )
            try:
                added.append(caller.add(call))
            except CallSkipped:
                continue
        elif action < 0.75 and (queued := caller.queue.pop()) is not None:
            assert queued.call.object_uid not in {other.call.object_uid for other in under_way}
            under_way.append(queued)
        elif under_way:
            queued = under_way.pop(rng.randrange(len(under_way)))
            caller.queue.finalize(queued, made=rng.random() < 0.5)
            ended.append(queued)
        caller.queue.check()
    ended += [queued for queued, _ in caller.dropped]
    known = [*caller.queue.calls(), *under_way]
    assert len(ended) == len(set(ended))
    assert set(ended).isdisjoint(known)
    assert {*ended, *known} == set(added)
