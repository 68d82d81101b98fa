"""The background work of a scheduler, in real and in virtual time."""

import asyncio
import inspect

import pytest

from scheduler.assembly.background import BackgroundTasks, BackgroundWork


async def test_work_that_has_not_begun_ends_with_the_simulation() -> None:
    async def work() -> None:
        raise AssertionError("it must not begin")

    background, works = BackgroundWork(), [work(), work()]
    background.spawn(works[0], "")
    background.spawn_for_plugin(works[1], "a plugin's")
    await background.close()
    assert [*map(inspect.getcoroutinestate, works)] == [inspect.CORO_CLOSED] * 2


async def test_failed_work_of_the_scheduler_stops_it() -> None:
    tasks = BackgroundTasks()
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as tasks.group:
            tasks.fail(ValueError("broken"))
    assert [str(error) for error in caught.value.exceptions] == ["broken"]


async def test_failed_work_of_a_plugin_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("broken")

    tasks, background = BackgroundTasks(), BackgroundWork()
    async with asyncio.TaskGroup() as tasks.group:
        tasks.spawn_for_plugin(work(), "real")
        assert not tasks.is_idle
    assert tasks.is_idle
    background.spawn_for_plugin(work(), "virtual")
    background.run()
    assert [record.message for record in caplog.records] == [
        "Background work of a plugin failed: real",
        "Background work of a plugin failed: virtual",
    ]


async def test_work_is_not_started_while_the_scheduler_stops() -> None:
    tasks = BackgroundTasks()
    async with asyncio.TaskGroup() as tasks.group:
        pass
    works = [asyncio.sleep(0), asyncio.sleep(0)]
    assert tasks.spawn(works[0], "own") is None
    tasks.spawn_for_plugin(works[1], "a plugin's")
    assert [*map(inspect.getcoroutinestate, works)] == [inspect.CORO_CLOSED] * 2


async def test_work_that_fails_after_a_wait_fails_the_next_run() -> None:
    event = asyncio.Event()

    async def work() -> None:
        await event.wait()
        raise ValueError("broken")

    background = BackgroundWork()
    background.spawn(work(), "")
    background.run()
    (task,) = background.waiting
    event.set()
    await asyncio.wait([task])
    with pytest.raises(ValueError, match="broken"):
        background.run()
    with pytest.raises(ValueError, match="at once"):
        background.fail(ValueError("at once"))


@pytest.mark.parametrize("goes_on", [False, True])
async def test_work_may_end_or_go_on_after_its_cancellation(goes_on: bool) -> None:
    event, steps = asyncio.Event(), []

    async def work() -> None:
        try:
            await event.wait()
        except asyncio.CancelledError:
            steps.append("cancelled")
        if goes_on:
            await asyncio.sleep(0)
            steps.append("gone on")

    background = BackgroundWork()
    background.spawn(work(), "")
    background.run()
    await asyncio.sleep(0)
    await background.close()
    assert steps == ["cancelled", *(["gone on"] if goes_on else [])]
    assert background.waiting == set()
