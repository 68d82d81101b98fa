"""The schedulers of a case: the first one, and others that steps of the case start beside it.

All have the same API server, configuration and clock. Together they are one `Target`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Final

from ..clock import VirtualClock
from ..format.steps import FIRST_SCHEDULER

if TYPE_CHECKING:
    from ..targets.target import Surroundings, Target, TargetKind

#: In real time, the time after which the end of a scheduler is noticed.
_LOOK_SECONDS: Final = 0.2


class Schedulers:
    """Starts and stops schedulers by name. `close` stops the schedulers that still run.

    Metrics and stories come from the first scheduler. The methods raise TargetError if a scheduler
    has ended by itself.
    """

    def __init__(self, kind: TargetKind, surroundings: Surroundings) -> None:
        self._kind = kind
        self._surroundings = surroundings
        self._running: dict[str, tuple[contextlib.AsyncExitStack, Target]] = {}
        self._last_log: tuple[str, ...] = ()
        self.patience_seconds = 0.0
        self.settles_exactly = True

    async def start(self, name: str = FIRST_SCHEDULER) -> None:
        """Start a scheduler. Raises TargetError if it does not start."""
        directory = self._surroundings.directory / name
        directory.mkdir(exist_ok=True)
        surroundings = dataclasses.replace(
            self._surroundings,
            directory=directory,
            name=name,
            is_alone=not self._running,
        )
        async with contextlib.AsyncExitStack() as stack:
            target = await stack.enter_async_context(self._kind.run(surroundings))
            self._running[name] = stack.pop_all(), target
        self.patience_seconds = target.patience_seconds
        self.settles_exactly = target.settles_exactly
        await self.settle()

    async def stop(self, name: str = FIRST_SCHEDULER) -> None:
        """Stop a scheduler, as SIGTERM does; it gives back a lease that it holds."""
        stack, target = self._running.pop(name)
        await stack.aclose()
        self._last_log = target.log()

    async def close(self) -> None:
        """Stop all schedulers, also if one of them fails."""
        async with contextlib.AsyncExitStack() as stack:
            for name in tuple(self._running):
                stack.push_async_callback(self.stop, name)

    @property
    def metrics_url(self) -> str | None:
        first = self._running.get(FIRST_SCHEDULER)
        return first[1].metrics_url if first is not None else None

    async def settle(self) -> None:
        """Return when no scheduler has anything left to do.

        In real time the API server alone is observed, which is the same for all.
        """
        self.check()
        await self._settle()

    async def _settle(self) -> None:
        if not self.settles_exactly:
            for target in self._targets[:1]:
                await target.settle()
            return
        while True:
            version = self._version
            for target in self._targets:
                await target.settle()
            if len(self._running) < 2 or self._version == version:
                return

    async def advance(self, seconds: float) -> None:
        """Let time pass for all schedulers."""
        clock = self._surroundings.clock
        if isinstance(clock, VirtualClock):
            await clock.run_for(seconds, self._settle)
        else:
            end = clock.monotonic() + seconds
            while (left := end - clock.monotonic()) > 0:
                self.check()
                await clock.sleep(min(left, _LOOK_SECONDS))
        self.check()

    def check(self) -> None:
        """Raise TargetError if a scheduler has ended or violates its invariants."""
        for target in self._targets:
            target.check()

    def log(self) -> tuple[str, ...]:
        """The last lines of all logs; without a scheduler, of the scheduler that ran last."""
        if not self._running:
            return self._last_log
        return tuple(line for target in self._targets for line in target.log())

    @property
    def _targets(self) -> list[Target]:
        return [target for _, target in self._running.values()]

    @property
    def _version(self) -> int:
        server = self._surroundings.server
        return server.resource_version if server is not None else 0
