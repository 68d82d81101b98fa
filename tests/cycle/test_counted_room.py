"""Preemption for a pod group: counting the room gives the victims that searching for each gives."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.core import Node, ObjectMeta, Pod, PodSchedulingGroup
from scheduler.api.pod_groups import (
    DISRUPTION_MODE_POD_GROUP,
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    WORKLOAD_AWARE_PREEMPTION,
)
from scheduler.cycle.pod_group import preempt
from scheduler.cycle.pod_group.results import PodGroupAttempt
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.framework import Plugin
from scheduler.framework.types import EqualMembers
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod
from tests.cycle.line import Line, profile_of
from tests.runtime.profiles import plugin
from tests.thoroughness import SEED, examples

_GATES = DEFAULT_FEATURE_GATES | {
    GENERIC_WORKLOAD,
    GANG_SCHEDULING,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    WORKLOAD_AWARE_PREEMPTION,
}
_PLUGINS = (
    "TaintToleration",
    "NodeResourcesFit",
    "NodePorts",
    "InterPodAffinity",
    "GangScheduling",
    "DefaultPreemption",
)
#: The units that were put back, and True for those that were spared.
Tried = Sequence[tuple[Sequence[str], bool]]


class _Cluster:
    """A random cluster full of pods of several priorities, and a gang of equal members."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.nodes: list[Node] = [
            make_node(
                f"node-{i}",
                allocatable={"cpu": str(rng.randint(2, 6)), "memory": "8Gi", "pods": "8"},
                taints=[{"key": "dedicated", "effect": "NoSchedule"}] if rng.random() < 0.2 else [],
            )
            for i in range(rng.randint(2, 7))
        ]
        self.running = list(_running(rng, self.nodes))
        size = rng.randint(1, 6)
        of_gang = PodGroupSpec(
            scheduling_policy=PodGroupSchedulingPolicy(
                gang=GangSchedulingPolicy(rng.randint(1, size))
            ),
            priority=100,
        )
        whole = PodGroupSpec(disruption_mode=DISRUPTION_MODE_POD_GROUP)
        self.groups = [
            PodGroup(ObjectMeta(name="gang", namespace="default", uid="gang"), of_gang),
            PodGroup(ObjectMeta(name="whole", namespace="default", uid="whole"), whole),
        ]
        cpu, port = rng.choice(("500m", "1", "2")), rng.random() < 0.2
        self.members = [
            _in_group(
                make_pod(
                    f"member-{i}",
                    requests={"cpu": cpu},
                    priority=100,
                    host_ports=[80] if port else (),
                ),
                "gang",
            )
            for i in range(size)
        ]

    async def tried(self, *plugins: type[Plugin]) -> tuple[Tried, str]:
        """Run the cycle of the gang; return the tried pods, and the message of the group."""
        names = [each.name for each in plugins]
        line = Line(
            [profile_of(*_PLUGINS, *names)],
            plugins,
            nodes=self.nodes,
            feature_gates=_GATES,
            groups=self.groups,
        )
        for pod in (*self.running, *self.members):
            line.pods.put(pod)
        queued, _ = line.queue.pop_nowait(line.clock.now())
        assert queued is not None
        attempt = await schedule_one(line.cycle_parts, queued)
        await line.rest()
        assert isinstance(attempt, PodGroupAttempt)
        status, preemption = attempt.result.status, attempt.preemption
        tried = preemption.tried if preemption is not None else ()
        return tried, status.message if status is not None else ""


def _running(rng: random.Random, nodes: Sequence[Node]) -> Iterator[Pod]:
    for i in range(rng.randint(3, 30)):
        pod = make_pod(
            f"running-{i}",
            node_name=rng.choice(nodes).metadata.name,
            requests={"cpu": rng.choice(("100m", "500m", "1", "2")), "memory": "1Gi"},
            priority=rng.choice((0, 0, 1, 200)),
            host_ports=[80] if rng.random() < 0.1 else (),
        )
        yield _in_group(pod, "whole") if rng.random() < 0.2 else pod


def _in_group(pod: Pod, name: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup(name)))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each preemption, True if the room was counted."""
    original, answers = preempt.equal_members, list[bool]()

    def noted(*arguments: Any) -> EqualMembers | None:
        answer = original(*arguments)
        answers.append(answer is not None)
        return answer

    monkeypatch.setattr(preempt, "equal_members", noted)
    return answers


@pytest.mark.parametrize("seed", range(SEED, SEED + examples(400)))
async def test_counting_finds_the_victims_of_the_search(
    seed: int, counted: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = _Cluster(seed)
    by_counting = await cluster.tried()
    assert all(counted)
    monkeypatch.setattr(preempt, "equal_members", lambda *arguments: None)
    assert by_counting == await cluster.tried()


def _no_reason(self: Plugin, state: object, pod: PodInfo, *where: object) -> None:
    """Accept everything."""


@pytest.mark.parametrize("method", ["pre_filter", "filter", "reserve", "permit"])
async def test_with_a_plugin_that_promises_nothing_the_search_decides(
    method: str, counted: list[bool]
) -> None:
    await _Cluster(1).tried(plugin("Other", **{method: _no_reason}))
    assert counted == [False]


async def test_members_that_differ_are_not_counted(counted: list[bool]) -> None:
    cluster = _Cluster(1)
    cluster.members[0] = replace(
        cluster.members[0], metadata=replace(cluster.members[0].metadata, labels={"role": "first"})
    )
    await cluster.tried()
    assert counted == [False]
