"""Several schedulers of a case in real time, and none."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from conformance.clock import Clock
from conformance.errors import TargetError
from conformance.run.schedulers import Schedulers
from conformance.targets.target import Surroundings, Target, TargetKind


class HastyClock:
    """A clock that is real for a case, and goes on at once for a waiting task."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Mortal:
    """A kind of target whose schedulers die at some time."""

    patience_seconds = 0.0
    settles_exactly = False

    def __init__(self, clock: HastyClock, dies_at: float) -> None:
        self._clock, self._dies_at = clock, dies_at

    @contextlib.asynccontextmanager
    async def run(self, surroundings: Surroundings) -> AsyncIterator[Target]:
        self.name = surroundings.name
        yield cast("Target", self)

    async def settle(self) -> None:
        self.check()

    def check(self) -> None:
        if self._clock.seconds >= self._dies_at:
            raise TargetError("died")

    def log(self) -> tuple[str, ...]:
        return (f"the log of {self.name}",)


def schedulers(folder: Path, clock: HastyClock, *, dies_at: float = 1e9) -> Schedulers:
    kind = cast("TargetKind", Mortal(clock, dies_at))
    surroundings = Surroundings(
        server=None, clock=cast("Clock", clock), directory=folder, config=None, gates={}, seed=0
    )
    return Schedulers(kind, surroundings)


async def test_real_time_passes_with_and_without_schedulers(tmp_path: Path) -> None:
    clock = HastyClock()
    running = schedulers(tmp_path, clock)
    assert running.log() == ()
    await running.advance(5.0)
    assert clock.seconds == pytest.approx(5.0)
    await running.start("first")
    await running.advance(1.5)
    assert clock.seconds == pytest.approx(6.5)
    await running.stop("first")
    # The log of the scheduler that ran last is kept.
    assert running.log() == ("the log of first",)


async def test_a_scheduler_that_dies_meanwhile_is_noticed_at_once(tmp_path: Path) -> None:
    clock = HastyClock()
    running = schedulers(tmp_path, clock, dies_at=2.0)
    await running.start()
    with pytest.raises(TargetError, match="died"):
        await running.advance(60.0)
    assert clock.seconds < 3.0
