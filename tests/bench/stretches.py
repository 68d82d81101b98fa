"""The longest stretch for which the event loop is held while something runs."""

from __future__ import annotations

import asyncio
import time
from typing import Self

__all__ = ["Stretches"]


class Stretches:
    """Measures the time between two turns of a task that does nothing else; a context manager."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._measure())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await asyncio.sleep(0)
        self._task.cancel()

    async def _measure(self) -> None:
        before = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            self.longest_seconds, before = max(self.longest_seconds, now - before), now
