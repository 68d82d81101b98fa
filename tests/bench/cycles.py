"""Scheduling cycles per second, without HTTP.

One cycle is all that happens between a pod at the head of the queue and the start of its binding:
pop, snapshot, filters and scores over every node, choice, assume, reserve, permit. The binding
itself is not run.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from scheduler.api.core import Node, Pod
from scheduler.api.pod_groups import PodGroup
from scheduler.api.unstructured import Kind
from scheduler.assembly.event_handlers import PodEventHandler
from scheduler.assembly.part_sharing import PartSharing
from scheduler.assembly.profiles import build_profiles
from scheduler.cache import Cache, CacheCorruptedError
from scheduler.client.kinds import KINDS
from scheduler.clock import SystemClock
from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    WORKLOAD_AWARE_PREEMPTION,
    default_config,
)
from scheduler.cycle.attempt import Attempts, CycleParts
from scheduler.cycle.pod_group.results import PodGroupAttempt
from scheduler.cycle.schedule_pod import RandomTie, SchedulingAlgorithm
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.cycle.scheduling_queue import SchedulingQueue
from scheduler.framework.handle import Lister
from scheduler.metrics import SchedulerMetrics
from scheduler.plugins import SCHEME
from scheduler.queue import Nominator, PriorityQueue, build_queueing_hint_map
from scheduler.runtime import Framework, PodsInPreBind, WaitingPods
from scheduler.snapshot import PodInfo, Snapshot
from scheduler.stories import PodStories
from scheduler.testing import FakeHandle, make_node, make_pod
from scheduler.testing.doubles import FakeLister

__all__ = ["NODE", "POD", "WARM_UP", "Workload", "basic_workload", "cycles_per_second"]

#: scheduler_perf's default node and pod.
NODE: Final = {"cpu": "4", "memory": "32Gi", "pods": "110"}
POD: Final = {"cpu": "100m", "memory": "500Mi"}
#: So many pods are scheduled before the measurement.
WARM_UP: Final = 50
_ZONES = 3
_GROUP_GATES: Final = frozenset(
    (
        GENERIC_WORKLOAD,
        GANG_SCHEDULING,
        TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
        WORKLOAD_AWARE_PREEMPTION,
    )
)


class Workload(NamedTuple):
    """A cluster, and the pods whose scheduling is measured.

    With `pod_groups` the feature gates of pod groups are on.
    """

    name: str
    nodes: list[Node]
    running: list[Pod]
    pods: list[Pod]
    pod_groups: Sequence[PodGroup] = ()
    #: By kind, for other kinds that are not empty.
    listers: Mapping[str, Lister[Any]] = MappingProxyType({})


def basic_workload(nodes_total: int, pods_total: int) -> Workload:
    """An empty cluster of equal nodes in three zones, and equal pods with cpu and memory."""
    nodes = [
        make_node(f"node-{i}", allocatable=NODE, zone=f"zone-{i % _ZONES}")
        for i in range(nodes_total)
    ]
    pods = [make_pod(f"pod-{i}", requests=POD) for i in range(pods_total)]
    return Workload("basic", nodes, [], pods)


def cycles_per_second(workload: Workload, *, percentage_of_nodes_to_score: int = 100) -> float:
    """Schedule all pods of a workload; raises RuntimeError if one of them does not fit."""
    return asyncio.run(_cycles_per_second(workload, percentage_of_nodes_to_score))


async def _cycles_per_second(workload: Workload, percentage_of_nodes_to_score: int) -> float:
    share = PartSharing()  # as the informer delivers them
    running, pods = map(share, workload.running), list(map(share, workload.pods))
    bench = _Bench(workload._replace(running=list(running)), percentage_of_nodes_to_score)
    warm_up, measured = pods[:WARM_UP], pods[WARM_UP:]
    await bench.schedule(warm_up)
    start = time.perf_counter()
    await bench.schedule(measured)
    return len(measured) / (time.perf_counter() - start)


class _Bench:
    """A scheduler without client: bindings are started, and dropped."""

    def __init__(self, workload: Workload, percentage_of_nodes_to_score: int) -> None:
        gates = DEFAULT_FEATURE_GATES | (_GROUP_GATES if workload.pod_groups else frozenset())
        has_groups = GENERIC_WORKLOAD in gates
        cache = Cache(generic_workload=has_groups)
        for node in workload.nodes:
            cache.add_node(node)
        for pod in workload.running:
            cache.add_pod(PodInfo(pod))
        clock, snapshot, rng = SystemClock(), Snapshot(), random.Random(0)
        self._metrics, stories = SchedulerMetrics(clock.monotonic), PodStories()
        waiting_pods = WaitingPods(clock, self._metrics)
        nominator, pods_in_pre_bind = Nominator(lambda namespace, name: None), PodsInPreBind()
        pod_groups = FakeLister(workload.pod_groups)
        listers: dict[Kind, Lister[Any]] = {plural: FakeLister() for plural in KINDS}
        listers |= {PodGroup: pod_groups, **workload.listers}
        fakes = FakeHandle(snapshot, listers=listers, feature_gates=gates)
        make_handle = fakes.with_parts(
            clock=clock,
            rng=rng,
            waiting_pods=waiting_pods,
            pods_in_pre_bind=pods_in_pre_bind,
            metrics=self._metrics,
            nominator=nominator,
            pod_group=cache.pod_group,
            activate=self._activate,
        )
        profiles = build_profiles(default_config(SCHEME._replace(gates=gates)), make_handle)
        framework = next(iter(profiles.values()))
        queue = _queue(framework, nominator, self._metrics, has_groups=has_groups)
        self._queue = SchedulingQueue(queue, clock=clock, stories=stories)
        self._pods = PodEventHandler(
            cache=cache,
            queue=self._queue,
            waiting_pods=waiting_pods,
            scheduler_names=profiles.keys(),
            gang_scheduling=has_groups,
            on_corrupted=_fail,
            metrics=self._metrics,
        )
        self._cycle_parts = CycleParts(
            profiles=profiles,
            cache=cache,
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
            feature_gates=gates,
            pod_group_lister=lambda namespace, name: pod_groups.get(name, namespace),
        )

    async def schedule(self, pods: Iterable[Pod]) -> None:
        """Queue and schedule these pods."""
        for pod in pods:
            self._pods.on_add(pod, is_initial=False)
        while (queued := self._queue.pop_nowait()) is not None:
            outcome = await schedule_one(self._cycle_parts, queued)
            members = outcome.members if isinstance(outcome, PodGroupAttempt) else [queued]
            for member in members:
                self._queue.done(member.uid)
        failed = {**self._metrics.attempts_by_result(), "scheduled": 0}
        if any(failed.values()):
            raise RuntimeError(f"not all pods were scheduled: {failed}")

    def _activate(self, pods: Mapping[str, PodInfo]) -> None:
        self._queue.activate(pods)

    @staticmethod
    def _drop(work: Coroutine[None, None, None], name: str) -> None:
        work.close()


def _queue(
    framework: Framework, nominator: Nominator, metrics: SchedulerMetrics, *, has_groups: bool
) -> PriorityQueue:
    name = framework.profile_name
    return PriorityQueue(
        framework.less,
        sort_key=framework.sort_key,
        pre_enqueue_plugins={name: framework.plugins["pre_enqueue"]},
        queueing_hint_map={name: build_queueing_hint_map(framework.registered_events)},
        nominator=nominator,
        metrics=metrics,
        generic_workload=has_groups,
    )


def _fail(corrupted: CacheCorruptedError) -> None:
    raise corrupted
