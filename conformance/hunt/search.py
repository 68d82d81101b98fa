"""The search: worlds in many lanes, cut into tasks that any executor can run.

World number N of a seed is always the same world: pair N of the table, and variations by the seed.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

import msgspec

from ..api import Json
from ..clock import RealClock
from ..errors import ConformanceError
from ..run.reaper import run_folder
from ..targets import target_kind
from ..targets.quiet import run_quietly
from ..targets.target import TargetOptions
from .lane import Seen, lane
from .placements import GROUP, placement_worlds
from .world import REASONS, Pair, World, pairs, world_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: The name of the promise that a lost wake-up breaks.
WAKES: Final = "no_wake_up_lost"
LIVES: Final = "scheduler_lives"
PLACES: Final = "existing_placement_found"
_QUIET_SECONDS: Final = 0.15
#: A world that takes longer has a scheduler that hangs.
_WORLD_SECONDS_MAX: Final = 60.0
_LANE_WORLDS_MAX: Final = 300


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Some worlds: from `start`, every one of the pairs with these gates, for some seconds."""

    target: TargetOptions
    seed: int
    start: int
    stop: int
    gated: bool
    seconds: float
    lanes: int


class Find(msgspec.Struct, frozen=True, kw_only=True):
    """A broken promise in a world. `raw` is the case of the world, `step` the place."""

    promise: str
    text: str
    pair: Pair
    seed: str
    variations: tuple[str, ...]
    raw: Json
    members: tuple[str, ...] = ()
    step: str = ""
    expect: Json = {}


class Explored(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task: verdicts by pair, a note for each pair without one, and the finds."""

    counts: dict[str, dict[str, int]] = {}
    notes: dict[str, str] = {}
    finds: tuple[Find, ...] = ()
    errors: tuple[str, ...] = ()


def table(*, gated: bool) -> list[Pair]:
    """Return the pairs whose worlds need feature gates, or the others."""
    some = [pair for pair in pairs() if bool(REASONS[pair.reason].gates) is gated]
    # As often as a reason with five remedies.
    return some + [pair for pair in placement_worlds() if (pair == GROUP) is gated] * 5


def world_number(number: int, seed: int, *, gated: bool) -> World:
    """Return a world by its number."""
    some = table(gated=gated)
    pair, rng = some[number % len(some)], random.Random(f"{seed}/{number}/{gated}")
    draw = placement_worlds().get(pair)
    return draw(rng) if draw is not None else world_of(pair, rng)


def explore(task: bytes) -> bytes:
    """Run the worlds of a task and return an Explored, both as JSON."""
    order = msgspec.json.decode(task, type=Task)
    result = _Result()
    run_quietly(_explored(order, result))
    return msgspec.json.encode(result.explored())


class _Result:
    def __init__(self) -> None:
        self.counts: dict[str, dict[str, int]] = {}
        self.notes: dict[str, str] = {}
        self.finds: list[Find] = []
        self.errors: list[str] = []

    def add(self, world: World, seed: str, seen: Seen) -> None:
        name = str(world.pair)
        counts = self.counts.setdefault(name, {})
        counts[seen.verdict] = counts.get(seen.verdict, 0) + 1
        if seen.verdict in ("no reason", "no remedy", "refused"):
            self.notes[name] = f"{seen.verdict}: {seen.text}"
        promise = {"lost": WAKES, "unplaced": PLACES}.get(seen.verdict)
        if promise is not None:
            find = self._find(world, seed, promise, seen.text)
            self.finds.append(msgspec.structs.replace(find, members=world.members))
        for broken in seen.violations:
            if not (broken.invariant == "no_pod_starved" and promise is not None):
                find = self._find(world, seed, broken.invariant, broken.text)
                self.finds.append(
                    msgspec.structs.replace(find, step=broken.step, expect=broken.expect)
                )

    def died(self, world: World, seed: str, error: ConformanceError) -> None:
        self.errors.append(f"{world.pair} ({seed}): {error}")
        self.finds.append(self._find(world, seed, LIVES, str(error)))

    def _find(self, world: World, seed: str, promise: str, text: str) -> Find:
        return Find(
            promise=promise,
            text=text,
            pair=world.pair,
            seed=seed,
            variations=world.variations,
            raw=world.raw,
        )

    def explored(self) -> Explored:
        return Explored(
            counts=self.counts, notes=self.notes, finds=tuple(self.finds), errors=tuple(self.errors)
        )


async def _explored(order: Task, result: _Result) -> None:
    clock = RealClock()
    deadline = clock.monotonic() + order.seconds
    numbers = iter(range(order.start, order.stop))
    with run_folder() as folder:

        async def work() -> None:
            while clock.monotonic() < deadline:
                if not await _lane_of(order, numbers, result, deadline, folder):
                    return

        await asyncio.gather(*(work() for _ in range(order.lanes)))


async def _lane_of(
    order: Task, numbers: Iterator[int], result: _Result, deadline: float, folder: Path
) -> bool:
    """Run worlds in one lane until it is old, has died, or nothing is left; return False then."""
    clock = RealClock()
    options = order.target
    if options.in_real_time:
        options = msgspec.structs.replace(options, quiet_seconds=_QUIET_SECONDS)
    gates: Mapping[str, bool] = REASONS[table(gated=True)[0].reason].gates if order.gated else {}
    configures = not options.command or "{config}" in options.command
    try:
        async with lane(
            target_kind(options), gates=gates, configures=configures, seed=order.seed, folder=folder
        ) as running:
            for _ in range(_LANE_WORLDS_MAX):
                number = next(numbers, None)
                if number is None or clock.monotonic() > deadline:
                    return False
                world = world_number(number, order.seed, gated=order.gated)
                seed = f"{order.seed}/{number}/{order.gated}"
                try:
                    async with asyncio.timeout(_WORLD_SECONDS_MAX):
                        seen = await running.run(world)
                except TimeoutError:
                    result.errors.append(f"{world.pair} ({seed}): took too long")
                    return True
                except ConformanceError as error:
                    result.died(world, seed, error)
                    return True
                result.add(world, seed, seen)
    except ConformanceError as error:
        result.errors.append(f"a lane did not start or end: {error}")
        return False
    return True
