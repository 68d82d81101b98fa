"""A pod group that preempts, without HTTP: its seconds, and the longest stretch of the event loop.

The nodes are full of pods of low priority that ask for one core each. One cycle of a gang of
higher priority removes all of them, and puts back those that can stay.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from msgspec.structs import replace

from scheduler.api.core import ObjectMeta, Pod, PodSchedulingGroup
from scheduler.api.pod_groups import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from scheduler.client.kinds import POD_GROUPS
from scheduler.clock import SystemClock, Turns
from scheduler.config import DEFAULT_FEATURE_GATES
from scheduler.cycle.pod_group.results import PodGroupAttempt
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.testing import make_node, make_pod
from tests.bench.bare import BareScheduler
from tests.bench.cycles import GROUP_GATES
from tests.bench.stretches import Stretches, spare_the_collector

__all__ = ["GroupPreemption", "group_preemption"]

_GATES: Final = DEFAULT_FEATURE_GATES | GROUP_GATES
_GROUP: Final = "gang"
_LONG_AGO: Final = datetime(2026, 1, 1, tzinfo=UTC)


class GroupPreemption(NamedTuple):
    """One preemption: its length, its longest stretch without the event loop, its victims."""

    seconds: float
    stretch_seconds: float
    victims: int


def group_preemption(
    nodes_total: int, low_total: int, *, members: int = 8, cores: int = 10
) -> GroupPreemption:
    """Let a gang preempt on full nodes; raises RuntimeError if it finds no victims."""
    return asyncio.run(_group_preemption(nodes_total, low_total, members, cores))


async def _group_preemption(
    nodes_total: int, low_total: int, members: int, cores: int
) -> GroupPreemption:
    offered = {"cpu": str(low_total // nodes_total), "memory": "256Gi", "pods": "1000"}
    nodes = [make_node(f"node-{i}", allocatable=offered) for i in range(nodes_total)]
    running = []
    for i in range(low_total):
        pod = make_pod(f"low-{i}", node_name=f"node-{i % nodes_total}", requests={"cpu": "1"})
        status = replace(pod.status, start_time=_LONG_AGO + timedelta(seconds=i))
        running.append(replace(pod, status=status))
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(members))
    group = PodGroup(
        ObjectMeta(name=_GROUP, namespace="default", uid=_GROUP),
        PodGroupSpec(scheduling_policy=policy, priority=1000),
    )
    bench = BareScheduler(nodes, running, gates=_GATES, turns=Turns(SystemClock()))
    bench.api.load({POD_GROUPS.plural: [group]})
    for i in range(members):
        bench.core.informers.pods.put(_member(i, cores))
    queued = bench.core.cycle.queue.pop_nowait()
    if queued is None:
        raise RuntimeError("no member waits")
    spare_the_collector()
    async with Stretches() as stretches:
        start = time.process_time()
        attempt = await schedule_one(bench.core.cycle, queued)
        seconds = time.process_time() - start
    if not isinstance(attempt, PodGroupAttempt) or not attempt.result.waiting_on_preemption:
        raise RuntimeError(f"the gang found no victims: {attempt}")
    assert attempt.preemption is not None
    victims = sum(len(keys) for keys, spared in attempt.preemption.tried if not spared)
    return GroupPreemption(seconds, stretches.longest_seconds, victims)


def _member(number: int, cores: int) -> Pod:
    pod = make_pod(f"member-{number}", requests={"cpu": str(cores)}, priority=1000)
    return replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup(_GROUP)))
