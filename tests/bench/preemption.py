"""Preemption cycles per second, without HTTP.

One cycle is all that happens to a pod that fits nowhere: pop, snapshot, filters over every node,
the dry run over upstream's share of the nodes, the choice, and the way back into the queue with a
nominated node. Victims are not deleted, so every further pod finds the nominations of those before
it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Coroutine, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from scheduler.api.core import Pod
from scheduler.assembly.profiles import build_profiles
from scheduler.cache import Cache
from scheduler.client.kinds import KINDS
from scheduler.clock import SystemClock
from scheduler.config import default_config
from scheduler.cycle.attempt import Attempts, CycleParts
from scheduler.cycle.schedule_pod import RandomTie, SchedulingAlgorithm
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.metrics import SchedulerMetrics
from scheduler.plugins import SCHEME
from scheduler.queue import Nominator, PriorityQueue, build_queueing_hint_map
from scheduler.runtime import PodsInPreBind, WaitingPods
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.stories import PodStories
from scheduler.testing import FakeHandle, make_node, make_pod
from scheduler.testing.doubles import FakeLister
from tests.cycle.running import result_of

__all__ = ["preemption_cycles_per_second"]

_NODE: Final = {"cpu": "4", "memory": "32Gi", "pods": "110"}
_LOW: Final = {"cpu": "2", "memory": "500Mi"}
_HIGH: Final = {"cpu": "3", "memory": "500Mi"}
_ZONES: Final = 3
_LONG_AGO: Final = datetime(2026, 1, 1, tzinfo=UTC)


def preemption_cycles_per_second(
    nodes_total: int, *, low_total: int = 10_000, preemptors: int = 200
) -> float:
    """Nodes full of pods of low priority, equally many on each, and pods that want their places.

    Raises RuntimeError if one of those finds no victims.
    """
    running = []
    for i in range(low_total):
        pod = make_pod(f"low-{i}", node_name=f"node-{i % nodes_total}", requests=_LOW, priority=-10)
        status = replace(pod.status, start_time=_LONG_AGO + timedelta(seconds=i))
        running.append(replace(pod, status=status))
    high = [make_pod(f"high-{i}", requests=_HIGH, priority=10) for i in range(preemptors)]
    bench = _Bench(nodes_total, running, high)
    warm_up = 10
    bench.schedule(high[:warm_up])
    start = time.perf_counter()
    bench.schedule(high[warm_up:])
    seconds = time.perf_counter() - start
    if bench.nominated != preemptors:
        raise RuntimeError(f"{bench.nominated} of {preemptors} pods were nominated")
    return (preemptors - warm_up) / seconds


def _cache(nodes_total: int, running: Iterable[Pod]) -> Cache:
    cache = Cache()
    for i in range(nodes_total):
        zone = f"zone-{i % _ZONES}"
        cache.add_node(make_node(f"node-{i}", allocatable=_NODE, zone=zone))
    for pod in running:
        cache.add_pod(PodInfo(pod))
    return cache


class _Bench:
    """A scheduler without client: what goes on in the background is dropped."""

    def __init__(self, nodes_total: int, running: Iterable[Pod], waiting: Iterable[Pod]) -> None:
        cache = _cache(nodes_total, running)
        clock, snapshot, rng = SystemClock(), Snapshot(), random.Random(0)
        metrics, stories = SchedulerMetrics(clock.monotonic), PodStories()
        waiting_pods = WaitingPods(clock, metrics)
        pods = {pod.key: pod for pod in waiting}
        nominator = Nominator(lambda namespace, name: pods.get(f"{namespace}/{name}"))
        pods_in_pre_bind = PodsInPreBind()
        listers = {plural: FakeLister() for plural in KINDS} | {"pods": FakeLister(waiting)}
        fakes = FakeHandle(snapshot, listers=listers)
        make_handle = fakes.with_parts(
            clock=clock,
            rng=rng,
            waiting_pods=waiting_pods,
            pods_in_pre_bind=pods_in_pre_bind,
            metrics=metrics,
            nominator=nominator,
            spawn=self._drop,
        )
        profiles = build_profiles(default_config(SCHEME), make_handle)
        framework = next(iter(profiles.values()))
        queue = PriorityQueue(
            framework.less,
            sort_key=framework.sort_key,
            pre_enqueue_plugins={framework.profile_name: framework.plugins["pre_enqueue"]},
            queueing_hint_map={
                framework.profile_name: build_queueing_hint_map(framework.registered_events)
            },
            nominator=nominator,
            metrics=metrics,
        )
        self._queue = SchedulingQueue(queue, clock=clock, stories=stories)
        self._cycle_parts = CycleParts(
            profiles=profiles,
            cache=cache,
            queue=self._queue,
            algorithm=SchedulingAlgorithm(snapshot, tie_break=RandomTie(rng)),
            api=fakes.api,
            waiting_pods=waiting_pods,
            pods_in_pre_bind=pods_in_pre_bind,
            pod_lister=lambda namespace, name: pods.get(f"{namespace}/{name}"),
            attempts=Attempts(clock=clock, metrics=metrics, stories=stories),
            spawn=self._drop,
        )

    @property
    def nominated(self) -> int:
        """The number of pods that are nominated to a node."""
        return sum(bool(node) for node in self._queue.nominator.nominations.values())

    def schedule(self, pods: Iterable[Pod]) -> None:
        """Queue and try these pods, each once."""
        for pod in pods:
            self._queue.add(PodInfo(pod))
        while (queued := self._queue.pop_nowait()) is not None:
            result_of(schedule_one(self._cycle_parts, queued))

    @staticmethod
    def _drop(work: Coroutine[None, None, None], name: str) -> None:
        work.close()
