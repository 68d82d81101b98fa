"""Replay a trace in virtual time: pods are created and deleted at the trace's times.

    nodes --> scheduler --> for each moment of the trace: create, delete, settle --> list, verify

API server, scheduler and replay share one process and one virtual clock, so months of the trace
pass in minutes and two runs are equal. After the changes of a moment the clock advances from one
wake-up to the next for as long as the scheduler's backoff lasts; longer gaps are skipped at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fakeapi import FakeApiServer

from ..api import ApiClient, Ref
from ..clock import VirtualClock
from ..connection import Connection
from ..errors import ReplayError, TargetError
from ..targets.in_process import InProcessKind
from ..targets.target import OUR_SCHEDULER, Surroundings
from .driver import Counts, Run, Settings, scheduler_config
from .held import NODES, PODS, HeldNode, HeldPod
from .objects import NAMESPACE, node_object, pod_object
from .processes import own_usage
from .recording import Recorder
from .trace import GAP_SECONDS_MAX, changes_of
from .verify import Evidence, verify

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..targets.target import Target
    from .trace import Trace

__all__ = ["replay_in_virtual_time"]


async def replay_in_virtual_time(
    trace: Trace,
    settings: Settings,
    *,
    show: Callable[[Counts], None] = lambda _: None,
) -> Run:
    """Replay a trace read with its times, up to its last creation. Raises ReplayError.

    All times of the result are the trace's. The event loop must be a `QuietLoop`.
    """
    clock = VirtualClock()
    run = Run(trace, settings, Recorder((pod.name for pod in trace.pods), clock))
    timeline = run.timeline
    timeline.started = timeline.ready = timeline.nodes_created = clock.now()
    module, _, function = OUR_SCHEDULER.partition(":")
    with tempfile.TemporaryDirectory(prefix="kubesched-replay-") as folder:
        async with (
            FakeApiServer(clock=clock, seed=0) as server,
            ApiClient(Connection(server.url)) as client,
        ):
            for node in trace.nodes:
                await client.create(node_object(node))
            surroundings = Surroundings(
                server=server,
                clock=clock,
                directory=Path(folder),
                config=scheduler_config("", settings),
                gates={},
                seed=0,
            )
            try:
                async with InProcessKind(module, function).run(surroundings) as target:
                    await _drive(run, client, target, clock, show)
            except TargetError as error:
                raise ReplayError(f"the scheduler {error}") from error
    timeline.ended = clock.now()
    run.usage["the replay, with server and scheduler"] = own_usage()
    run.violations = tuple(verify(trace, run.evidence))
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
    await recorder.start(client)
    watch = asyncio.create_task(recorder.run(client))
    try:
        await target.settle()
        for moment, changes in itertools.groupby(changes_of(run.trace), lambda each: each.seconds):
            gap = start + moment - clock.now()
            await target.advance(min(gap, GAP_SECONDS_MAX))
            clock.move_to(start + moment)
            for change in changes:
                name = change.pod.name
                if change.is_creation:
                    await client.create(pod_object(change.pod))
                    run.created += 1
                else:
                    await client.delete(Ref("Pod", name, NAMESPACE))
                    deleted.add(name)
            await target.settle()
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
    run.missing = tuple(pod.name for pod in run.trace.pods if pod.name in missing)
    run.evidence = Evidence(nodes.items, pods.items, recorder.placements, frozenset(deleted))
