"""The search: worlds in many lanes, cut into tasks that any executor can run.

World number N of a seed is always the same world: pair N of the table, and variations by the seed.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import random
import re
from itertools import takewhile
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
from .placements import placement_worlds
from .table import REASONS
from .world import Pair, World, pairs, world_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The name of the promise that a lost wake-up breaks.
WAKES: Final = "no_wake_up_lost"
LIVES: Final = "scheduler_lives"
PLACES: Final = "existing_placement_found"
#: In real time most worlds wait.
LANES: Final = 16
_QUIET_SECONDS: Final = 0.15
#: A world that takes longer has a scheduler that hangs.
_WORLD_SECONDS_MAX: Final = 60.0
_LANE_WORLDS_MAX: Final = 300
#: Objects until garbage is collected; the usual threshold takes a tenth of the search's time.
_GARBAGE: Final = (50_000, 20, 50)
_UNKNOWN: Final = re.compile(r"(?:unrecognized feature gate:|cannot set feature gate) (\w+)")
_FATAL: Final = re.compile(r"panic:|fatal error:|Observed a panic|^F\d{4} ")


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Some worlds of a table, by their numbers, for some seconds."""

    target: TargetOptions
    seed: int
    start: int
    stop: int
    table: int
    seconds: float


class Find(msgspec.Struct, frozen=True, kw_only=True):
    """A broken promise in a world; `expect` is what the world's case should have expected."""

    promise: str
    text: str
    seed: str
    world: World
    expect: Json = {}


class Explored(msgspec.Struct, kw_only=True):
    """The result of a task: verdicts by pair, a note for each pair without one, and the finds."""

    counts: dict[str, dict[str, int]] = {}
    notes: dict[str, str] = {}
    finds: list[Find] = []
    errors: list[str] = []

    def add(self, world: World, seed: str, seen: Seen) -> None:
        name = str(world.pair)
        counts = self.counts.setdefault(name, {})
        counts[seen.verdict] = counts.get(seen.verdict, 0) + 1
        if seen.verdict in ("no reason", "no remedy", "refused"):
            self.notes[name] = f"{seen.verdict}: {seen.text}"
        promise = {"lost": WAKES, "unplaced": PLACES}.get(seen.verdict)
        if promise is not None:
            self.finds.append(Find(promise=promise, text=seen.text, seed=seed, world=world))
        for one in seen.violations:
            if not (one.invariant == "no_pod_starved" and promise is not None):
                found = Find(
                    promise=one.invariant, text=one.text, seed=seed, world=world, expect=one.expect
                )
                self.finds.append(found)

    def died(self, world: World, seed: str, error: ConformanceError) -> None:
        """Add the end of the scheduler, with the line of its log that has the cause."""
        log = [line for line in getattr(error, "log", ()) if line.strip()]
        last = next((line for line in log if _FATAL.search(line)), log[-1] if log else "")
        text = f"{error}: {last}" if last and last not in str(error) else str(error)
        self.errors.append(f"{world.pair} ({seed}): {text}")
        self.finds.append(Find(promise=LIVES, text=text, seed=seed, world=world))


@functools.cache
def tables() -> list[tuple[dict[str, bool], list[Pair]]]:
    """Return the pairs by the feature gates that their worlds need; the first have no gates."""
    found: list[tuple[dict[str, bool], list[Pair]]] = [({}, [])]
    draws = [([pair], REASONS[pair.reason].gates) for pair in pairs()]
    for pair, draw in placement_worlds().items():
        # As often as a reason with five remedies.
        draws.append(([pair] * 5, draw(random.Random(0)).gates))
    for some, gates in draws:
        if gates not in [known for known, _ in found]:
            found.append((gates, []))
        next(table for known, table in found if known == gates).extend(some)
    return found


def world_number(number: int, seed: int, *, table: int) -> World:
    """Return a world by its number."""
    _, some = tables()[table]
    pair, rng = some[number % len(some)], random.Random(f"{seed}/{number}/{table}")
    draw = placement_worlds().get(pair)
    return draw(rng) if draw is not None else world_of(pair, rng)


def explore(task: bytes) -> bytes:
    """Run the worlds of a task and return an Explored, both as JSON."""
    order = msgspec.json.decode(task, type=Task)
    result = Explored()
    usual = gc.get_threshold()
    gc.set_threshold(*_GARBAGE)
    try:
        run_quietly(_explored(order, result))
    finally:
        gc.set_threshold(*usual)
    return msgspec.json.encode(result)


async def _explored(order: Task, result: Explored) -> None:
    clock = RealClock()
    deadline = clock.monotonic() + order.seconds
    numbers = takewhile(lambda _: clock.monotonic() < deadline, range(order.start, order.stop))
    with run_folder() as folder:
        gates = {**tables()[order.table][0]}

        async def work() -> None:
            while clock.monotonic() < deadline:
                if not await _lane_of(order, gates, numbers, result, folder):
                    return

        lanes = LANES if order.target.in_real_time else 1
        await asyncio.gather(*(work() for _ in range(lanes)))


async def _lane_of(
    order: Task,
    gates: dict[str, bool],
    numbers: Iterator[int],
    result: Explored,
    folder: Path,
) -> bool:
    """Run worlds in one lane until it is old or has died; return False if another would run none.

    Gates that the scheduler does not know are taken out of `gates`.
    """
    seed = ""
    options = msgspec.structs.replace(order.target, quiet_seconds=_QUIET_SECONDS)
    configures = not options.command or "{config}" in options.command
    try:
        async with lane(
            target_kind(options), gates=gates, configures=configures, seed=order.seed, folder=folder
        ) as running:
            for _ in range(_LANE_WORLDS_MAX):
                number = next(numbers, None)
                if number is None:
                    return False
                world = world_number(number, order.seed, table=order.table)
                seed = f"{order.seed}/{number}/{order.table}"
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
        unknown = {*_UNKNOWN.findall(" ".join((str(error), *getattr(error, "log", ()))))} & {*gates}
        for name in unknown:
            del gates[name]
        if unknown and not gates:
            needed, some = tables()[order.table]
            note = f"the scheduler does not know {', '.join(sorted(needed))}"
            result.notes |= {str(pair): note for pair in some}
        if unknown:
            return bool(gates)
        result.errors.append(f"a lane did not start or end: {error}")
        return bool(seed)
    return True
