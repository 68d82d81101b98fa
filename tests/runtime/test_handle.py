"""What the plugins of a profile hold: the scheduler's parts, as far as there are any yet."""

from __future__ import annotations

import random

import pytest

from scheduler.metrics import SchedulerMetrics
from scheduler.runtime import ProfileHandle, SchedulerParts, WaitingPods
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.testing import FakeHandle, VirtualClock, make_pod
from scheduler.testing.doubles import FakeLister


async def test_a_handle_hands_on_to_the_parts_it_was_joined_with() -> None:
    clock, snapshot, rng = VirtualClock(), Snapshot(), random.Random(0)
    waiting_pods = WaitingPods(clock, SchedulerMetrics())
    parts = SchedulerParts(snapshot=snapshot, clock=clock, rng=rng, waiting_pods=waiting_pods)
    handle = ProfileHandle("batch", parts)
    assert handle.profile_name == "batch"
    assert handle.snapshot is snapshot
    assert handle.rng is rng
    assert handle.now() == clock.now()

    pod = PodInfo(make_pod())
    waiting_pods.add(pod, {"A": 1})
    waiting = handle.get_waiting_pod(pod.uid)
    assert waiting is not None
    seen = []
    handle.iterate_over_waiting_pods(seen.append)
    assert seen == [waiting]
    assert handle.reject_waiting_pod(pod.uid)
    assert not handle.reject_waiting_pod(pod.uid)
    assert not handle.reject_waiting_pod("unknown")


def test_parts_that_come_later_are_seen_by_handles_made_before() -> None:
    clock = VirtualClock()
    parts = SchedulerParts(
        snapshot=Snapshot(),
        clock=clock,
        rng=random.Random(0),
        waiting_pods=WaitingPods(clock, SchedulerMetrics()),
    )
    handle = ProfileHandle("batch", parts)
    with pytest.raises(AttributeError):
        _ = handle.nominator
    other = FakeHandle()
    parts.nominator = parts.api = other
    parts.activate = other.activate
    parts.listers = {"pods": FakeLister([make_pod("p")])}
    recorders = []
    parts.event_recorder_of = lambda profile: recorders.append(profile) or other
    assert handle.nominator is other
    assert handle.api is other
    assert handle.event_recorder is other
    assert recorders == ["batch"]
    handle.activate({"default/p": PodInfo(make_pod("p"))})
    assert list(other.activated) == ["default/p"]
    assert handle.lister("pods").get("p", "default") == make_pod("p")
    with pytest.raises(KeyError):
        handle.lister("nodes")
