"""The virtual clock stands still until it is moved; the fake handle can be read."""

import asyncio

import pytest

from scheduler.framework import NominatingInfo, NominatingMode
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, VirtualClock, make_node, make_pod, snapshot_of
from scheduler.testing.doubles import FakeLister
from scheduler.testing.fake_api import RecordedEvent


def test_a_clock_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock(start_seconds=100)
    assert (clock.now(), clock.monotonic()) == (100, 0)
    clock.advance_nowait(2.5)
    assert (clock.now(), clock.monotonic()) == (102.5, 2.5)
    assert clock.next_wake_up is None


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    clock = VirtualClock()
    start, woken = clock.now(), []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now() - start))

    tasks = [
        asyncio.ensure_future(sleeper(name, seconds))
        for name, seconds in (("late", 3), ("early", 1), ("also early", 1), ("never", 99))
    ]
    await clock.advance(0.5)
    assert woken == []
    assert clock.next_wake_up == start + 1
    await clock.advance(5)
    assert woken == [("early", 1), ("also early", 1), ("late", 3)]
    assert clock.now() == start + 5.5
    tasks[-1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert clock.next_wake_up is None


async def test_a_task_that_sleeps_again_wakes_again_within_one_advance() -> None:
    clock = VirtualClock()
    ticks: list[float] = []

    async def ticker() -> None:
        while True:
            await clock.sleep(1)
            ticks.append(clock.monotonic())

    task = asyncio.ensure_future(ticker())
    await clock.advance(3.5)
    assert ticks == [1, 2, 3]
    task.cancel()


async def test_no_time_to_sleep_is_a_turn_of_the_loop() -> None:
    clock = VirtualClock()
    await asyncio.wait_for(clock.sleep(0), 5)
    await asyncio.wait_for(clock.sleep(-1), 5)
    assert clock.next_wake_up is None


def test_a_handle_records_the_calls_of_a_plugin() -> None:
    handle = FakeHandle()
    pod = make_pod()
    handle.event_recorder.event(pod, type="Normal", reason="R", action="A", note="note")
    assert handle.event_recorder.recorded == [
        RecordedEvent("default/pod", "Normal", "R", "A", "note")
    ]
    handle.activate({pod.key: PodInfo(pod)})
    assert list(handle.activated) == [pod.key]


async def test_a_handle_binds_or_fails_as_told() -> None:
    handle = FakeHandle()
    await handle.api.bind(make_pod(), "n")
    assert handle.api.bound == {"default/pod": "n"}
    handle.api.failure = OSError("gone")
    with pytest.raises(OSError, match=r"^gone$"):
        await handle.api.bind(make_pod("other"), "n")
    assert handle.api.bound == {"default/pod": "n"}


def test_a_handle_keeps_nominations() -> None:
    handle = FakeHandle(snapshot_of([make_node("n")]))
    nominated = PodInfo(make_pod("p", nominated_node_name="n"))
    handle.nominator.add_nominated_pod(nominated, None)
    assert handle.nominator.nominated_nodes == {"n"}
    assert handle.nominator.nominated_pods_for_node("n") == [nominated]
    handle.nominator.add_nominated_pod(nominated, NominatingInfo("m", NominatingMode.OVERRIDE))
    assert handle.nominator.nominated_nodes == {"m"}
    handle.nominator.delete_nominated_pod_if_exists(nominated)
    assert not handle.nominator.nominated_nodes


def test_the_same_seed_gives_the_same_chance() -> None:
    assert FakeHandle(seed=3).rng.random() == FakeHandle(seed=3).rng.random()


def test_a_lister_finds_objects_by_name_and_namespace() -> None:
    mine, other = make_pod("p"), make_pod("p", namespace="other")
    handle = FakeHandle(listers={"pods": FakeLister([mine, other])})
    pods = handle.lister("pods")
    assert pods.get("p", "other") is other
    assert pods.get("p") is None
    assert list(pods.list()) == [mine, other]
    assert list(pods.list("default")) == [mine]
    with pytest.raises(KeyError):
        handle.lister("nodes")
