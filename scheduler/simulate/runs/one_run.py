"""One run: a history, a policy and a seed. Task and results are JSON, for any executor.

The decisions are compared with those of the history, if it has some.
"""

from __future__ import annotations

import asyncio
import functools
import random
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.assembly.simulated_cluster import SimulatedCluster
from scheduler.clock import SystemClock
from scheduler.config import default_config, load_text
from scheduler.cycle.schedule_one import Found
from scheduler.cycle.schedule_pod import RandomTie
from scheduler.plugins import SCHEME
from scheduler.reports.comparison import compare_found
from scheduler.simulate.history.format import Change, read_history
from scheduler.simulate.runs.measures import Measures, Results
from scheduler.simulate.runs.player import AsRecorded, Player, recorded_bindings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.cycle.pod_group.results import PodGroupAttempt
    from scheduler.queue import QueuedPodInfo
    from scheduler.simulate.runs.player import Binding


#: The first backoff and the longest one, as kube-scheduler has them by default.
_BACKOFF_SECONDS: Final = 1.0
_BACKOFF_SECONDS_MAX: Final = 10.0


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


class Difference(msgspec.Struct, frozen=True):
    """A pod whose node is not the history's, or that got it at another time."""

    pod: str
    recorded: str
    recorded_seconds: float
    node: str
    seconds: float | None
    cause: str


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


class Differences:
    """Compares the decisions of a cluster with the recorded bindings."""

    def __init__(self, recorded: Mapping[str, Binding], cluster: SimulatedCluster) -> None:
        self._recorded: Final = recorded
        self._cluster: Final = cluster
        #: The last decision on a pod: its key, the attempts, and why it did not get the node.
        self._decided: Final[dict[str, tuple[str, int, str]]] = {}

    def noted(self, queued: QueuedPodInfo, found: Found | PodGroupAttempt | None) -> None:
        """Take note of the result of a cycle; to be called after each one."""
        recorded, cause = self._recorded.get(queued.uid), ""
        if recorded is None or found is None:
            return
        if isinstance(found, Found):
            chosen = "" if found.result is None else found.result.suggested_host
            if chosen != recorded.node:
                cause = compare_found(
                    found,
                    queued.pod_info,
                    self._cluster.core.snapshot,
                    node=recorded.node,
                    now=self._cluster.clock.now(),
                ).answer
        self._decided[queued.uid] = queued.key, queued.attempts, cause

    def of(self, bindings: Mapping[str, Binding]) -> list[Difference]:
        """Return the pods whose node differs or is missing, and pods bound too early or late.

        A pod may be bound earlier or later by the backoff of its attempts.
        """
        differences = []
        for uid, recorded in self._recorded.items():
            node, seconds = bindings.get(uid, ("", None))
            key, attempts, cause = self._decided.get(uid, (uid, 0, "the pod was not tried"))
            if node == recorded.node and seconds is not None:
                late = seconds - recorded.seconds
                backoff = _BACKOFF_SECONDS * 2 ** max(attempts - 1, 0)
                if abs(late) <= min(backoff, _BACKOFF_SECONDS_MAX):
                    continue
                cause = f"bound {abs(late):.3f} s {'later' if late > 0 else 'earlier'}"
            differences.append(
                Difference(key, recorded.node, recorded.seconds, node, seconds, cause)
            )
        return differences
