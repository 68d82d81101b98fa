"""Several pieces of work at a time, on behalf of plugins, which know no event loop.

Source: `pkg/scheduler/framework/parallelize` (`Parallelizer.Until`, `ResultChannel`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable


async def run_in_parallel(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Do all of it at a time; the first failure cancels what is left, and is raised."""
    failures: list[BaseException] = []
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except* Exception as several:
        failures.extend(several.exceptions)
    if failures:
        raise failures[0]
