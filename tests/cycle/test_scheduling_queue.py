"""The queue's shell: it wakes the loop when a pod can be popped or a deadline comes closer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.framework.events import EVENT_UNSCHEDULABLE_TIMEOUT
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import Nominator, Place, PriorityQueue, QueuedPodInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.stories import PodStories
from scheduler.testing import VirtualClock, make_pod
from tests.queue.world import less


class Shell:
    """A running queue with a virtual clock."""

    def __init__(self) -> None:
        self.clock, self.stories = VirtualClock(), PodStories()
        self.queue = PriorityQueue(
            less,
            pre_enqueue_plugins={},
            queueing_hint_map={},
            nominator=Nominator(lambda namespace, name: None),
            metrics=SchedulerMetrics(),
            moved_at_once=2,
        )
        self.shell = SchedulingQueue(self.queue, clock=self.clock, stories=self.stories)

    async def fail(self, name: str, *rejectors: str) -> QueuedPodInfo:
        """Add a pod, pop it and give it back."""
        self.shell.add(PodInfo(make_pod(name)))
        queued = await self.shell.pop()
        queued.unschedulable_plugins = set(rejectors)
        self.shell.add_unschedulable_if_not_present(queued)
        return queued


@pytest.fixture
async def world() -> AsyncIterator[Shell]:
    world = Shell()
    flushes = asyncio.create_task(world.shell.run())
    await asyncio.sleep(0)
    yield world
    flushes.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await flushes


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_pop_waits_until_a_pod_can_be_popped(world: Shell) -> None:
    popping = asyncio.create_task(world.shell.pop())
    await _settle()
    assert not popping.done()
    world.shell.add(PodInfo(make_pod("p")))
    assert not world.shell.is_idle
    assert (await popping).pod_info.name == "p"
    assert world.shell.pop_nowait() is None


async def test_the_queue_is_idle_once_pop_finds_nothing(world: Shell) -> None:
    world.shell.add(PodInfo(make_pod("p")))
    await world.shell.pop()
    popping = asyncio.create_task(world.shell.pop())
    await _settle()
    assert world.shell.is_idle
    popping.cancel()


async def test_an_earlier_deadline_ends_the_wait_for_a_later_one(world: Shell) -> None:
    waits = await world.fail("waits", "plugin")
    await _settle()
    error = await world.fail("error")
    assert (waits.place, error.place) == (Place.UNSCHEDULABLE, Place.BACKOFF)
    await world.clock.advance(2.0)
    await _settle()
    assert error.place == Place.ACTIVE
    assert not world.shell.is_idle
    await world.clock.advance(328.0)
    await _settle()
    assert waits.place == Place.ACTIVE


async def test_all_moves_become_part_of_the_story(world: Shell) -> None:
    queued = await world.fail("p")
    world.shell.activate({queued.key: queued.pod_info})
    await world.shell.pop()
    world.shell.done(queued.uid)
    world.shell.delete(queued.pod_info.pod)
    story = world.stories.as_json("default", "p")
    assert story is not None
    for step in (b"outside -> active", b"active -> in-flight", b"in-flight -> backoff",
                 b"backoff -> active", b"in-flight -> outside"):  # fmt: skip
        assert step in story


@pytest.mark.parametrize("again", ["an equal deadline", "a later deadline"])
async def test_no_deadline_that_is_not_earlier_ends_the_wait(world: Shell, again: str) -> None:
    await world.fail("first")
    await _settle()
    if again == "a later deadline":
        await world.clock.advance(0.5)
    await world.fail("second")
    assert not world.shell._earlier_deadline.is_set()


async def test_others_run_while_very_many_pods_move(world: Shell) -> None:
    for number in range(5):
        await world.fail(f"p{number}", "plugin")
    world.clock.advance_nowait(10.0)
    event = EVENT_UNSCHEDULABLE_TIMEOUT
    world.shell.move_all_to_active_or_backoff_queue(event, None, None)
    assert world.queue.statistics().active == 2
    popping = asyncio.create_task(world.shell.pop())
    active = []
    while not popping.done():
        await asyncio.sleep(0)
        active.append(world.queue.statistics().active)
    assert active == [4, 5, 4]


async def test_others_run_while_the_backoff_of_very_many_pods_ends(world: Shell) -> None:
    for number in range(5):
        await world.fail(f"p{number}")
    world.clock.advance_nowait(10.0)
    active = [0]
    while active[-1] < 5:
        await asyncio.sleep(0)
        active.append(world.queue.statistics().active)
    assert {2, 4} <= set(active)
