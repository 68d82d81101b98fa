"""The cycle of a pod group among the other tasks of the scheduler."""

import asyncio
import dataclasses
import functools
from typing import Any

import numpy as np
from msgspec.structs import replace

from scheduler.api.core import ObjectMeta, PodSchedulingGroup
from scheduler.api.pod_groups import PodGroup
from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
)
from scheduler.cycle.schedule_pod_group import schedule_one_pod_group
from scheduler.framework.interface import Plugin
from scheduler.framework.types import Placement
from scheduler.testing import make_node, make_pod
from tests.cycle.line import Line, profile_of
from tests.runtime.profiles import plugin

_GATES = DEFAULT_FEATURE_GATES | {GENERIC_WORKLOAD, TOPOLOGY_AWARE_WORKLOAD_SCHEDULING}


async def test_other_tasks_may_run_after_each_member() -> None:
    tried: list[tuple[str, int]] = []
    turns: list[int] = []

    def generate(self: Plugin, state: object, group: object, parent: Placement) -> Any:
        return [Placement(f"p{i}", parent.nodes.take(np.array([i]))) for i in range(3)]

    def permit(self: Plugin, state: object, pod: object, node_name: str) -> None:
        tried.append((node_name, int(self.handle.snapshot.nodes.pod_count.sum())))

    each = plugin("Each", generate_placements=generate, permit=permit)
    group = PodGroup(ObjectMeta(name="pg", namespace="default"))
    line = Line(
        [profile_of("Each")],
        [each],
        nodes=[make_node(f"node-{i}") for i in range(3)],
        feature_gates=_GATES,
        groups=[group],
    )
    pod = make_pod("a")
    pod = replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup("pg")))
    line.pods.put(pod)
    queued, _ = line.queue.pop_specific_pod("default/a", line.clock.now())
    assert queued is not None

    async def other_task() -> None:
        while True:
            turns.append(len(tried))
            await asyncio.sleep(0)

    parts = dataclasses.replace(
        line.cycle_parts, let_others_run=functools.partial(asyncio.sleep, 0)
    )
    other = asyncio.create_task(other_task())
    await schedule_one_pod_group(parts, queued)
    other.cancel()
    await line.rest()
    assert tried[:3] == [("node-0", 1), ("node-1", 1), ("node-2", 1)]
    assert turns[:3] == [1, 2, 3]
    assert not parts.algorithm.snapshot.nodes.pod_count.any()
