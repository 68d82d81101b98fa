"""The scheduler that plays recordings: the core on an API server in memory, and no chance.

Binding cycles are kept, so that they run after the cycle that began them.
"""

import random
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Final

from scheduler.assembly.core import Core, SchedulerOptions, build_core
from scheduler.assembly.in_memory_api import AtOnce, InMemoryApi
from scheduler.config import KubeSchedulerConfiguration
from scheduler.reports.decision import FirstByName
from scheduler.testing import VirtualClock

_MICROSECOND: Final = 1e-6
#: A whole second after the times in the recordings that are past, before those that are future.
START_SECONDS: Final = 1780272000.0


class RecordedClock(VirtualClock):
    """Time that passes between steps, and by a microsecond with each look."""

    def __init__(self) -> None:
        super().__init__(START_SECONDS)

    def now(self) -> float:
        self._now += _MICROSECOND
        return self._now

    def pass_by(self, seconds: float) -> None:
        """Let time pass, but end no wait."""
        self._now += seconds


class NoChance(random.Random):
    """Numbers without chance: 0."""

    def random(self) -> float:
        return 0.0

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0


class Player(AtOnce):
    """A scheduler and its API server."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        api: InMemoryApi,
        options: SchedulerOptions,
        *,
        rng: random.Random,
    ) -> None:
        #: The binding cycles that wait, by the key of their pod.
        self.bindings: Final[dict[str, Coroutine[Any, Any, None]]] = {}
        core = build_core(config, api.ports(rng=rng, tie_break=FirstByName(), tasks=self), options)
        # Recordings have the nodes of the members in all placements.
        self.core: Final[Core] = replace(
            core, cycle=replace(core.cycle, searches_all_placements=True)
        )

    @property
    def node_order(self) -> list[str]:
        """The nodes in scheduling order."""
        self.core.cache.update_snapshot(self.core.snapshot)
        return list(self.core.snapshot.names)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Keep a binding cycle; run any other work at once."""
        if name.startswith("bind "):
            self.bindings[name.removeprefix("bind ")] = work
        else:
            super().spawn(work, name)
