"""Scheduling cycles per second, without HTTP.

One cycle is all that happens between a pod at the head of the queue and the start of its binding:
pop, snapshot, filters and scores over every node, choice, assume, reserve, permit. The binding
itself is not run.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from scheduler.api.core import Node, Pod
from scheduler.api.pod_groups import PodGroup
from scheduler.assembly.part_sharing import PartSharing
from scheduler.client import ApiObject
from scheduler.client.kinds import POD_GROUPS
from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    WORKLOAD_AWARE_PREEMPTION,
)
from scheduler.cycle.pod_group.results import PodGroupAttempt
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.testing import make_node, make_pod
from tests.bench.bare import BareScheduler

__all__ = [
    "GROUP_GATES",
    "NODE",
    "POD",
    "WARM_UP",
    "Workload",
    "basic_workload",
    "cycles_per_second",
]

#: scheduler_perf's default node and pod.
NODE: Final = {"cpu": "4", "memory": "32Gi", "pods": "110"}
POD: Final = {"cpu": "100m", "memory": "500Mi"}
#: So many pods are scheduled before the measurement.
WARM_UP: Final = 50
_ZONES = 3
GROUP_GATES: Final = frozenset(
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
    #: Objects of other kinds, by plural.
    others: Mapping[str, Sequence[ApiObject]] = MappingProxyType({})


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
    running = list(map(share, workload.running))
    bench = _Bench(workload._replace(running=running), percentage_of_nodes_to_score)
    warm_up, measured = workload.pods[:WARM_UP], workload.pods[WARM_UP:]
    await bench.schedule(warm_up)
    start = time.perf_counter()
    await bench.schedule(measured)
    return len(measured) / (time.perf_counter() - start)


class _Bench(BareScheduler):
    """Schedules the pods of a workload. Bindings are started, and dropped."""

    def __init__(self, workload: Workload, percentage_of_nodes_to_score: int) -> None:
        super().__init__(
            workload.nodes,
            workload.running,
            gates=DEFAULT_FEATURE_GATES | (GROUP_GATES if workload.pod_groups else frozenset()),
            percentage_of_nodes_to_score=percentage_of_nodes_to_score,
        )
        self.api.load({**workload.others, POD_GROUPS.plural: workload.pod_groups})

    async def schedule(self, pods: Iterable[Pod]) -> None:
        """Queue and schedule these pods."""
        cycle, informer = self.core.cycle, self.core.informers.pods
        for pod in pods:
            informer.put(pod)
        while (queued := cycle.queue.pop_nowait()) is not None:
            outcome = await schedule_one(cycle, queued)
            members = outcome.members if isinstance(outcome, PodGroupAttempt) else [queued]
            for member in members:
                cycle.queue.done(member.uid)
        failed = {**self.metrics.attempts_by_result(), "scheduled": 0}
        if any(failed.values()):
            raise RuntimeError(f"not all pods were scheduled: {failed}")
