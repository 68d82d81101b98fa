"""The background work of a scheduler in virtual time."""

import inspect

from scheduler.assembly.background import BackgroundWork


async def test_work_that_has_not_begun_ends_with_the_simulation() -> None:
    async def work() -> None:
        raise AssertionError("it must not begin")

    background, works = BackgroundWork(), [work(), work()]
    background.spawn(works[0], "")
    background.spawn_for_plugin(works[1], "a plugin's")
    await background.close()
    assert [*map(inspect.getcoroutinestate, works)] == [inspect.CORO_CLOSED] * 2
