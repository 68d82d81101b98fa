"""Replay a history in virtual time: pods are created and deleted at the history's times.

    nodes --> scheduler --> for each moment of the history: create, delete, settle --> list, verify

API server, scheduler and replay share one process and one virtual clock, so months of a history
pass in minutes and two runs are equal. After the changes of a moment the clock advances from one
wake-up to the next for as long as the scheduler's backoff lasts; longer gaps are skipped at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fakeapi import FakeApiServer

from ..api import ApiClient, ref_of
from ..clock import VirtualClock
from ..connection import Connection
from ..errors import ReplayError, RequestFailed, TargetError
from ..targets.in_process import InProcessKind
from ..targets.target import OUR_SCHEDULER, Surroundings
from .driver import Counts, Run, Settings, scheduler_config
from .held import NODES, PODS, HeldNode, HeldPod
from .history import GAP_SECONDS_MAX, Change
from .processes import own_usage
from .recording import Recorder
from .verify import Evidence, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..targets.target import Target
    from .history import History

__all__ = ["replay_in_virtual_time"]

_NOT_FOUND: Final = 404


async def replay_in_virtual_time(
    history: History,
    settings: Settings,
    *,
    show: Callable[[Counts], None] = lambda _: None,
) -> Run:
    """Replay a history up to its last creation. Raises ReplayError.

    All times of the result are the history's. The event loop must be a `QuietLoop`.
    """
    clock = VirtualClock()
    run = Run(history, settings, Recorder((pod.name for pod in history.pods), clock))
    timeline = run.timeline
    timeline.started = timeline.ready = timeline.nodes_created = clock.now()
    module, _, function = OUR_SCHEDULER.partition(":")
    with tempfile.TemporaryDirectory(prefix="kubesched-replay-") as folder:
        async with (
            FakeApiServer(clock=clock, seed=0) as server,
            ApiClient(Connection(server.url)) as client,
        ):
            for other in history.others:
                await client.create_unless_there(other)
            for node in history.nodes:
                await client.create(node.object)
            surroundings = Surroundings(
                server=server,
                clock=clock,
                directory=Path(folder),
                config=scheduler_config("", settings),
                gates={},
                seed=0,
            )
            try:
                async with InProcessKind(module, function, version=settings.scheduler_version).run(
                    surroundings
                ) as target:
                    await _drive(run, client, target, clock, show)
            except TargetError as error:
                raise ReplayError(f"the scheduler {error}") from error
    timeline.ended = clock.now()
    run.usage["the replay, with server and scheduler"] = own_usage()
    run.violations = tuple(verify(history, run.evidence))
    return run


async def _drive(
    run: Run,
    client: ApiClient,
    target: Target,
    clock: VirtualClock,
    show: Callable[[Counts], None],
) -> None:
    """Carry out the changes of each moment; then list the result."""
    recorder, start, deleted = run.recorder, clock.now(), set[str]()
    plan = _Plan(run.history)
    await recorder.start(client)
    watch = asyncio.create_task(recorder.run(client))
    try:
        await target.settle()
        while plan.creations:
            moment = plan.next_seconds
            await target.advance(min(start + moment - clock.now(), GAP_SECONDS_MAX))
            plan.follow(recorder, start)
            if plan.next_seconds < moment:
                continue  # a pod has got a node, and ends before
            clock.move_to(start + moment)
            for change in plan.due(moment):
                if change.is_creation:
                    await client.create(change.pod.object)
                    run.created += 1
                else:
                    await _delete(client, change)
                    deleted.add(change.pod.name)
            await target.settle()
            plan.follow(recorder, start)
            show(run.counts)
        run.timeline.pods_created = clock.now()
        await target.advance(GAP_SECONDS_MAX)
        target.check()
        run.timeline.settled = clock.now()
        nodes, pods = (
            await client.listing(NODES, HeldNode),
            await client.listing(PODS, HeldPod),
        )
    finally:
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch
    missing = recorder.undecided - deleted
    run.missing = tuple(pod.name for pod in run.history.pods if pod.name in missing)
    gone = frozenset(deleted | recorder.preempted)
    run.evidence = Evidence(nodes.items, pods.items, recorder.placements, gone)


async def _delete(client: ApiClient, change: Change) -> None:
    """Delete a pod, unless the scheduler has evicted it already."""
    try:
        await client.delete(ref_of(change.pod.object))
    except RequestFailed as failure:
        if failure.status != _NOT_FOUND:
            raise


class _Plan:
    """The changes to come; `run_seconds` begin when a pod gets its node."""

    def __init__(self, history: History) -> None:
        self._order: Final = itertools.count()
        self._changes: Final[list[tuple[float, bool, bool, int, Change]]] = []
        self._running: Final = {p.name: p for p in history.pods if p.run_seconds is not None}
        self._followed = 0
        self.creations = len(history.pods)
        for pod in history.pods:
            self._add(Change(pod.created_seconds, True, pod))
            if pod.ended_seconds is not None:
                self._add(Change(pod.ended_seconds, False, pod))

    @property
    def next_seconds(self) -> float:
        """The time of the next change, in seconds of the history."""
        return self._changes[0][0]

    def due(self, seconds: float) -> Iterator[Change]:
        """Take the changes of a moment: ends first, but for pods that are created then too."""
        while self._changes and self._changes[0][0] <= seconds:
            change = heapq.heappop(self._changes)[-1]
            self.creations -= change.is_creation
            yield change

    def follow(self, recorder: Recorder, start: float) -> None:
        """Add the ends of the pods that have got a node since the last call."""
        for placement in recorder.placements[self._followed :]:
            pod = self._running.pop(placement.pod, None) if placement.node else None
            if pod is not None:
                ends = placement.seconds - start + (pod.run_seconds or 0.0)
                self._add(Change(ends, False, pod))
        self._followed = len(recorder.placements)

    def _add(self, change: Change) -> None:
        is_late = change.is_creation or change.seconds == change.pod.created_seconds
        is_end, number = not change.is_creation, next(self._order)
        heapq.heappush(self._changes, (change.seconds, is_late, is_end, number, change))
