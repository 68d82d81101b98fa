"""Scheduling cycles per second, without HTTP.

One cycle is all that happens between a pod at the head of the queue and the start of its binding:
pop, snapshot, filters and scores over every node, choice, assume, reserve, permit. The binding
itself is not run.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, NamedTuple

from scheduler.assembly.part_sharing import PartSharing
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

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from scheduler.api.core import Node, Pod

__all__ = ["Workload", "basic_workload", "cycles_per_second"]

#: scheduler_perf's default node and pod.
_NODE = {"cpu": "4", "memory": "32Gi", "pods": "110"}
_POD = {"cpu": "100m", "memory": "500Mi"}
_ZONES = 3


class Workload(NamedTuple):
    """A cluster, and the pods whose scheduling is measured."""

    name: str
    nodes: list[Node]
    running: list[Pod]
    pods: list[Pod]


def basic_workload(nodes_total: int, pods_total: int) -> Workload:
    """An empty cluster of equal nodes in three zones, and equal pods with cpu and memory."""
    nodes = [
        make_node(f"node-{i}", allocatable=_NODE, zone=f"zone-{i % _ZONES}")
        for i in range(nodes_total)
    ]
    pods = [make_pod(f"pod-{i}", requests=_POD) for i in range(pods_total)]
    return Workload("basic", nodes, [], pods)


def cycles_per_second(workload: Workload, *, percentage_of_nodes_to_score: int = 100) -> float:
    """Schedule all pods of a workload; raises RuntimeError if one of them does not fit."""
    share = PartSharing()  # as the informer delivers them
    running, pods = map(share, workload.running), list(map(share, workload.pods))
    bench = _Bench(workload.nodes, running, percentage_of_nodes_to_score)
    warm_up, measured = pods[:50], pods[50:]
    bench.schedule(warm_up)
    start = time.perf_counter()
    bench.schedule(measured)
    return len(measured) / (time.perf_counter() - start)


class _Bench:
    """A scheduler without client: bindings are started, and dropped."""

    def __init__(
        self, nodes: Iterable[Node], running: Iterable[Pod], percentage_of_nodes_to_score: int
    ) -> None:
        self._cache = Cache()
        for node in nodes:
            self._cache.add_node(node)
        for pod in running:
            self._cache.add_pod(PodInfo(pod))
        clock, snapshot, rng = SystemClock(), Snapshot(), random.Random(0)
        self._metrics, stories = SchedulerMetrics(clock.monotonic), PodStories()
        waiting_pods = WaitingPods(clock, self._metrics)
        nominator, pods_in_pre_bind = Nominator(lambda namespace, name: None), PodsInPreBind()
        fakes = FakeHandle(snapshot, listers={plural: FakeLister() for plural in KINDS})
        make_handle = fakes.with_parts(
            clock=clock,
            rng=rng,
            waiting_pods=waiting_pods,
            pods_in_pre_bind=pods_in_pre_bind,
            metrics=self._metrics,
            nominator=nominator,
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
            metrics=self._metrics,
        )
        self._queue = SchedulingQueue(queue, clock=clock, stories=stories)
        self._cycle_parts = CycleParts(
            profiles=profiles,
            cache=self._cache,
            queue=self._queue,
            algorithm=SchedulingAlgorithm(
                snapshot,
                tie_break=RandomTie(rng),
                percentage_of_nodes_to_score=percentage_of_nodes_to_score,
            ),
            api=fakes.api,
            waiting_pods=waiting_pods,
            pods_in_pre_bind=pods_in_pre_bind,
            pod_lister=lambda namespace, name: None,
            attempts=Attempts(clock=clock, metrics=self._metrics, stories=stories),
            spawn=self._drop,
        )

    def schedule(self, pods: Iterable[Pod]) -> None:
        """Queue and schedule these pods."""
        for pod in pods:
            self._queue.add(PodInfo(pod))
        while (queued := self._queue.pop_nowait()) is not None:
            result_of(schedule_one(self._cycle_parts, queued))
            self._queue.done(queued.uid)
        failed = {**self._metrics.attempts_by_result(), "scheduled": 0}
        if any(failed.values()):
            raise RuntimeError(f"not all pods were scheduled: {failed}")

    @staticmethod
    def _drop(work: Coroutine[None, None, None], name: str) -> None:
        work.close()
