"""The longest stretch for which the event loop is held while something large happens.

a gang preempts among lower pods     a list of pods is decoded, and delivered to the handlers
/metrics/resources is written        the first snapshot of all pods is taken
a page shows the nodes, or a pod     a new node moves all pods that wait
an extender gets whole nodes and returns them

Times are CPU times of the process: other work on the machine does not change them much.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Sequence
from typing import Final, NamedTuple, Self

import msgspec

from scheduler.api.core import Pod
from scheduler.assembly.core import Core
from scheduler.assembly.live_answers import live_pod, live_state
from scheduler.assembly.part_sharing import PartSharing
from scheduler.client.decoding import decoder_of
from scheduler.client.kinds import PODS
from scheduler.clock import SystemClock, Turns
from scheduler.metrics.pod_resources import pod_resources_text
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod
from tests.bench.bare import BareScheduler
from tests.bench.extenders import ExtenderCall
from tests.bench.stage import Stage

__all__ = [
    "Stretch",
    "Stretches",
    "large_cluster",
    "measure",
    "requeued",
    "spare_the_collector",
]

_LABELS: Final = 100


def spare_the_collector() -> None:
    """Freeze what exists, as the process does once its caches are filled."""
    gc.collect()
    gc.freeze()


class Stretches:
    """Measures the CPU time between two turns of an idle task; a context manager."""

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
        before = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            self.longest_seconds, before = max(self.longest_seconds, now - before), now


class Stretch(NamedTuple):
    """Something that happened: how many objects, how long, and its longest stretch."""

    name: str
    objects: int
    seconds: float
    stretch_seconds: float


def large_cluster(nodes_total: int, pods_total: int) -> list[Stretch]:
    """Measure work on all running pods of a large cluster, and on all its nodes."""
    return asyncio.run(_large_cluster(nodes_total, pods_total))


async def _large_cluster(nodes_total: int, pods_total: int) -> list[Stretch]:
    bare = BareScheduler([make_node(f"node-{i}") for i in range(nodes_total)], ())
    pods = [
        make_pod(
            f"pod-{i}",
            node_name=f"node-{i % nodes_total}",
            requests={"cpu": "100m", "memory": "1Gi"},
            labels={"app": f"app-{i % _LABELS}"},
        )
        for i in range(pods_total)
    ]
    body = msgspec.json.encode({"kind": "PodList", "items": pods})
    turns, informer, share = Turns(SystemClock()), bare.core.informers.pods, PartSharing()
    spare_the_collector()
    page = decoder_of(PODS).page_in_turns(body, url="", turns=turns)
    measured = [await measure("decode a list", pods_total, page)]
    first = informer.replace(await _shared(pods, share, turns), restarted=False)
    measured.append(await measure("first list", pods_total, first))
    spare_the_collector()
    again = informer.replace(pods, restarted=True)
    measured.append(await measure("relist", pods_total, again))
    measured.append(await measure("first snapshot", pods_total, _snapshot(bare.core)))
    measured.append(await measure("live page", nodes_total, _live_page(bare.core)))
    text = asyncio.to_thread(pod_resources_text, pods)
    measured.append(await measure("/metrics/resources", pods_total, text))
    call = ExtenderCall(nodes_total)
    spare_the_collector()
    measured.append(await measure("extender, whole nodes", nodes_total, call.run()))
    return measured


async def _snapshot(core: Core) -> None:
    core.cache.update_snapshot(core.snapshot)


async def _live_page(core: Core) -> None:
    """Read the state, and the page of a pod that fits on no node."""
    pod = make_pod("web", requests={"cpu": "1k"})
    core.informers.pods.lister.put(pod)
    core.cycle.queue.add(PodInfo(pod))
    live_state(core, now=0.0)
    await asyncio.sleep(0)
    if live_pod(core, "default", "web", is_in_cycle=False) is None:
        raise RuntimeError("the pod has a story")


async def _shared(pods: Sequence[Pod], share: PartSharing, turns: Turns) -> list[Pod]:
    shared = []
    for pod in pods:
        shared.append(share(pod))
        await turns.let_others_run()
    return shared


def requeued(pods_total: int) -> Stretch:
    """Measure a new node that moves all waiting pods to the active queue, until one is popped."""
    stage = Stage([make_node("full", allocatable={"cpu": "0"})])
    stage.schedule(make_pod(f"pod-{i}", requests={"cpu": "2"}) for i in range(pods_total))
    spare_the_collector()

    async def requeue() -> None:
        stage.node_events.on_add(make_node("new"), is_initial=False)
        await stage.core.cycle.queue.pop()

    return asyncio.run(measure("requeue", pods_total, requeue()))


async def measure(name: str, objects: int, work: Awaitable[object]) -> Stretch:
    """Measure work on so many objects."""
    async with Stretches() as stretches:
        start = time.process_time()
        await work
        seconds = time.process_time() - start
    return Stretch(name, objects, seconds, stretches.longest_seconds)
