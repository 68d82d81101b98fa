"""Several pieces of work at a time, for plugins."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.runtime.background import run_in_parallel


async def test_all_of_it_is_under_way_at_a_time() -> None:
    order: list[str] = []

    async def work(name: str) -> None:
        order.append(f"start {name}")
        await asyncio.sleep(0)
        order.append(f"end {name}")

    await run_in_parallel(work(name) for name in "ab")
    assert order == ["start a", "start b", "end a", "end b"]


async def test_the_first_failure_stops_the_rest_and_is_raised_as_it_is() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append("slow")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match=r"^broken$"):
        await run_in_parallel([slow(), fails(), slow()])
    assert ended == ["slow", "slow"]


async def test_nothing_to_do_takes_no_time() -> None:
    await run_in_parallel([])
