"""One run: a history, a policy and a seed. Task and results are JSON, for any executor."""

from __future__ import annotations

import asyncio
import functools
import random
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from scheduler.clock import SystemClock
from scheduler.config import default_config, load_text
from scheduler.cycle.schedule_pod import RandomTie
from scheduler.plugins import SCHEME
from scheduler.simulate.cluster import SimulatedCluster
from scheduler.simulate.history.format import Change, read_history
from scheduler.simulate.runs.differences import Difference, Differences
from scheduler.simulate.runs.measures import Measures, Results
from scheduler.simulate.runs.player import AsRecorded, Player, recorded_bindings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.cycle.pod_group.results import PodGroupAttempt
    from scheduler.cycle.schedule_one import Found
    from scheduler.queue import QueuedPodInfo


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A run. `config` is the text of a configuration, empty for the default one.

    With `as_recorded` the history's node breaks ties, otherwise chance does.
    """

    history: str
    policy: str
    config: str
    plugins: tuple[str, ...]
    seed: int
    as_recorded: bool


class RunResults(msgspec.Struct, frozen=True):
    """The results of a run, and the differences from the decisions in the history."""

    measures: Results
    differences: list[Difference]
    compared: int


@functools.lru_cache(maxsize=2)
def _changes(history: str) -> list[Change]:
    return list(read_history(Path(history)))


def carry_out_run(task: bytes, on_progress: Callable[[float], None] = lambda _: None) -> bytes:
    """Carry out a run. Raises the errors of the configuration and of the history."""
    wanted = msgspec.json.decode(task, type=Task)
    results = asyncio.run(play(wanted, _changes(wanted.history), on_progress=on_progress))
    return msgspec.json.encode(results)


async def play(
    task: Task, changes: Sequence[Change], *, on_progress: Callable[[float], None] = lambda _: None
) -> RunResults:
    """Play a history for a task. `on_progress` gets the finished part, from 0 to 1."""
    recorded, wall = recorded_bindings(changes), SystemClock()
    as_recorded = AsRecorded(recorded) if task.as_recorded else None
    cluster = SimulatedCluster(
        load_text(task.config, SCHEME) if task.config else default_config(SCHEME),
        plugins=task.plugins,
        seed=task.seed,
        tie_break=as_recorded or RandomTie(random.Random(task.seed)),
        before_cycle=as_recorded.popped if as_recorded is not None else None,
    )
    differences, measures = Differences(recorded, cluster), Measures(cluster)

    def noted(queued: QueuedPodInfo, found: Found | PodGroupAttempt | None) -> None:
        measures.noted(queued, found)
        differences.noted(queued, found)

    cluster.on_cycle = noted
    player = Player(cluster)
    started = wall.monotonic()
    await player.play(changes, on_moment=lambda done: on_progress(done / len(changes)))
    results = measures.results()
    results.numbers["decisions per s"] = measures.decisions / (wall.monotonic() - started)
    await cluster.close()
    return RunResults(results, differences.of(player.bindings), len(recorded))
