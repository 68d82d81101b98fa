"""Placements of a pod group: counting the room gives what searching all of them gives."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.core import Node, ObjectMeta, Pod, PodSchedulingGroup
from scheduler.api.pod_groups import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    TopologyConstraint,
)
from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
)
from scheduler.cycle.pod_group.results import PodGroupAttempt
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.framework import Plugin
from scheduler.framework.status import Status, skip, unschedulable
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.snapshot import NodeInfo, Nodes, PodInfo
from scheduler.testing import make_node, make_pod
from tests.cycle.line import Line, profile_of
from tests.runtime.profiles import plugin
from tests.thoroughness import SEED, examples

_GATES = DEFAULT_FEATURE_GATES | {
    GENERIC_WORKLOAD,
    GANG_SCHEDULING,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
}
_PLUGINS = (
    "SchedulingGates",
    "TaintToleration",
    "NodeResourcesFit",
    "NodePorts",
    "InterPodAffinity",
    "PodTopologySpread",
    "GangScheduling",
    "DefaultPreemption",
    "TopologyPlacementGenerator",
    "PodGroupPodsCount",
)
_RACK = "rack"


def _gang(min_count: int, *, constrained: bool = True) -> PodGroup:
    constraints = PodGroupSchedulingConstraints((TopologyConstraint(_RACK),))
    spec = PodGroupSpec(
        scheduling_policy=PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count)),
        scheduling_constraints=constraints if constrained else None,
    )
    return PodGroup(ObjectMeta(name="gang", namespace="default", uid="gang"), spec)


def _member(name: str, **fields: Any) -> Pod:
    pod = make_pod(name, **fields)
    return replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup("gang")))


@dataclasses.dataclass
class _Cluster:
    """Nodes in racks, running pods and a gang."""

    nodes: list[Node]
    running: Sequence[Pod]
    group: PodGroup
    members: list[Pod]

    async def attempt(
        self, *plugins: type[Plugin], searches_all: bool = False, names: Sequence[str] = _PLUGINS
    ) -> PodGroupAttempt:
        """Run the cycle of the gang."""
        line = Line(
            [profile_of(*names, *(each.name for each in plugins if each.name not in names))],
            plugins,
            nodes=self.nodes,
            feature_gates=_GATES,
            groups=[self.group],
        )
        for pod in (*self.running, *self.members):
            line.pods.put(pod)
        queued, _ = line.queue.pop_specific_pod(self.members[0].key, line.clock.now())
        assert queued is not None
        parts = dataclasses.replace(line.cycle_parts, searches_all_placements=searches_all)
        attempt = await schedule_one(parts, queued)
        await line.rest()
        assert isinstance(attempt, PodGroupAttempt)
        line.cache.check()
        return attempt


def _random_cluster(seed: int) -> _Cluster:
    rng = random.Random(seed)
    nodes = [
        make_node(
            f"node-{i}",
            allocatable={"cpu": str(rng.randint(1, 5)), "memory": "8Gi", "pods": "6"},
            taints=[{"key": "dedicated", "effect": "NoSchedule"}] if rng.random() < 0.2 else [],
            labels={_RACK: f"rack-{rng.randrange(4)}"} if rng.random() < 0.9 else {},
        )
        for i in range(rng.randint(2, 12))
    ]
    size = rng.randint(1, 6)
    port = rng.random() < 0.2
    cpu = rng.choice(("500m", "1", "2"))
    members = [
        _member(f"member-{i}", requests={"cpu": cpu}, host_ports=[80] if port else ())
        for i in range(size)
    ]
    return _Cluster(nodes, list(_running(rng, nodes)), _gang(rng.randint(1, size)), members)


def _running(rng: random.Random, nodes: Sequence[Node]) -> Iterator[Pod]:
    for i in range(rng.randint(0, 12)):
        yield make_pod(
            f"running-{i}",
            node_name=rng.choice(nodes).metadata.name,
            requests={"cpu": rng.choice(("100m", "500m", "1")), "memory": "1Gi"},
            priority=rng.choice((-1, 0, 1)),
            host_ports=[80] if rng.random() < 0.1 else (),
        )


def _racks(nodes_of_each: Sequence[int], *, size: int, min_count: int, cpu: str = "1") -> _Cluster:
    """Racks of nodes with room for one member each; rack-0 comes first."""
    nodes = [
        make_node(
            f"node-{rack}-{i}",
            allocatable={"cpu": "1", "pods": "9"},
            labels={_RACK: f"rack-{rack}"},
        )
        for rack, total in enumerate(nodes_of_each)
        for i in range(total)
    ]
    members = [_member(f"member-{i}", requests={"cpu": cpu}) for i in range(size)]
    return _Cluster(nodes, [], _gang(min_count), members)


def _outcome(attempt: PodGroupAttempt) -> Any:
    """Return all but the nodes in the placements that were not chosen."""
    result, chosen = attempt.result, attempt.placement
    return (
        chosen.name if chosen is not None else None,
        result.status,
        [
            (member.attempt.pod.key, member.host, member.status, member.permit_status)
            for member in result.members
        ],
        [(one.placement.name, one.scores) for one in attempt.placements] if chosen else None,
    )


def _searched(attempt: PodGroupAttempt) -> list[str]:
    return [one.placement.name for one in attempt.placements if one.is_searched]


@pytest.mark.parametrize("seed", range(SEED, SEED + examples(400)))
async def test_counting_chooses_what_the_search_of_all_placements_chooses(seed: int) -> None:
    cluster = _random_cluster(seed)
    counted, searched = await cluster.attempt(), await cluster.attempt(searches_all=True)
    assert _outcome(counted) == _outcome(searched)
    assert all(one.is_searched for one in searched.placements)


async def test_only_the_best_placement_is_searched() -> None:
    cluster = _racks([2, 3, 2, 1], size=2, min_count=2)
    cluster.running = [make_pod("r", node_name="node-2-0", requests={"memory": "1Mi"})]
    attempt = await cluster.attempt()
    assert attempt.placement is not None
    assert _searched(attempt) == [attempt.placement.name]
    assert [one.room for one in attempt.placements] == [2, 2, 2, 1]


async def test_without_a_placement_that_fits_the_first_one_is_explained() -> None:
    cluster = _racks([1, 2, 1, 1], size=3, min_count=3)
    attempt = await cluster.attempt()
    assert attempt.result.status is not None
    assert attempt.result.status.message == (
        "0/4 placements are available, first placement status: pod group is unschedulable"
    )
    assert _searched(attempt) == ["rack-0", "rack-1"]
    assert [member.host for member in attempt.result.members] == ["node-0-0", "", ""]


async def test_a_quorum_makes_more_placements_fit() -> None:
    cluster = _racks([2, 1, 3, 2], size=3, min_count=2)
    attempt, all_searched = await cluster.attempt(), await cluster.attempt(searches_all=True)
    assert _outcome(attempt) == _outcome(all_searched)
    assert len([one for one in attempt.placements if one.scores is not None]) == 3


async def test_without_a_quorum_in_any_placement_none_fits() -> None:
    cluster = _racks([3, 2, 3], size=3, min_count=3)
    cluster.members[2] = _member("member-2", scheduling_gates=["wait"])
    attempt, all_searched = await cluster.attempt(), await cluster.attempt(searches_all=True)
    assert attempt.placement is None
    assert _outcome(attempt) == _outcome(all_searched)


async def test_nodes_that_are_nominated_to_other_pods_have_less_room() -> None:
    cluster = _racks([2, 2, 3], size=2, min_count=2)
    other = make_pod("other", requests={"cpu": "1"}, nominated_node_name="node-1-0")
    cluster.running = [other]
    attempt = await cluster.attempt()
    assert [one.room for one in attempt.placements] == [2, 1, 2]
    assert _outcome(attempt) == _outcome(await cluster.attempt(searches_all=True))


async def test_nothing_is_counted_if_the_members_differ() -> None:
    cluster = _racks([2, 2, 2], size=2, min_count=2)
    cluster.members[1] = _member("member-1", requests={"cpu": "1"}, labels={"role": "last"})
    assert len(_searched(await cluster.attempt())) == 3


def _nothing(self: Plugin, *arguments: object) -> None:
    """Accept everything."""


def _zero(self: Plugin, *arguments: object) -> int:
    return 0


@pytest.mark.parametrize(
    ("method", "function"),
    [
        ("pre_filter", _nothing),
        ("filter", _nothing),
        ("pre_score", _nothing),
        ("score", _zero),
        ("score_placement", _zero),
        ("reserve", _nothing),
        ("permit", _nothing),
    ],
)
async def test_a_plugin_that_promises_nothing_sees_all_placements(
    method: str, function: Any
) -> None:
    def noted(self: Plugin, *arguments: Any) -> Any:
        calls.append([str(part) for part in arguments[1:]])
        return function(self, *arguments)

    cluster, calls = _racks([2, 2, 1], size=2, min_count=2), list[list[str]]()
    counted = await cluster.attempt(plugin("Other", **{method: noted}))
    calls_then, calls = calls, []
    assert _outcome(counted) == _outcome(
        await cluster.attempt(plugin("Other", **{method: noted}), searches_all=True)
    )
    assert calls_then == calls
    assert len(_searched(counted)) == 3


async def _makes_no_room(self: Plugin, *arguments: object) -> tuple[None, Status]:
    return None, unschedulable("full")


async def test_post_filter_runs_where_not_all_members_fit() -> None:
    cluster = _racks([2, 1, 2, 1], size=2, min_count=2)
    attempt = await cluster.attempt(plugin("Other", post_filter=_makes_no_room))
    assert _searched(attempt) == ["rack-0", "rack-1", "rack-3"]


async def test_an_inherited_answer_is_not_that_of_another_post_filter() -> None:
    class Own(DefaultPreemption):
        async def post_filter(self, *arguments: Any) -> tuple[None, Status]:
            return None, unschedulable("full")

    cluster = _racks([2, 1, 2, 1], size=2, min_count=2)
    names = [name for name in _PLUGINS if name != "DefaultPreemption"]
    assert _searched(await cluster.attempt(Own, names=names)) == ["rack-0", "rack-1", "rack-3"]


async def test_a_plugin_that_looks_at_other_members_is_called_in_all_placements() -> None:
    def skip_the_first(self: Plugin, state: object, pod: PodInfo, nodes: Nodes) -> Status | None:
        calls.append((pod.name, ""))
        return None if nodes.pod_count.any() else skip()

    def same_node(self: Plugin, state: object, pod: PodInfo, node: NodeInfo) -> Status | None:
        calls.append((pod.name, node.name))
        return None if node.pods else unschedulable("no member here")

    calls: list[tuple[str, str]] = []
    beside = plugin("Beside", pre_filter=skip_the_first, filter=same_node)
    cluster = _racks([2, 2, 2], size=2, min_count=1)
    outcome = _outcome(await cluster.attempt(beside))
    calls_then, calls = calls, []
    assert outcome == _outcome(await cluster.attempt(beside, searches_all=True))
    assert calls_then == calls


def _first_and_second(self: Plugin, state: object, pod: PodInfo, nodes: Nodes) -> Status | None:
    return None if nodes.pod_count.sum() == 2 else skip()


def _not_the_third(self: Plugin, state: object, pod: PodInfo, node: NodeInfo) -> Status | None:
    total = self.handle.snapshot.nodes.pod_count.sum()
    return None if total < 2 else unschedulable("two are enough")


@pytest.mark.parametrize(
    "methods",
    [{"pre_filter": _first_and_second, "filter": _nothing}, {"filter": _not_the_third}],
    ids=["another plugin takes part", "less members fit"],
)
async def test_a_search_that_contradicts_the_count_is_followed_by_all_others(
    methods: dict[str, Any],
) -> None:
    late = plugin("Late", **methods)
    late.only_takes_room = "pre_filter" not in methods
    cluster = _racks([3, 3, 3], size=3, min_count=2)
    names = ("TaintToleration", "GangScheduling", "TopologyPlacementGenerator")
    attempt = await cluster.attempt(late, names=names)
    searched = await cluster.attempt(late, names=names, searches_all=True)
    assert len(_searched(attempt)) == 3
    assert _outcome(attempt) == _outcome(searched)


def _fails_on_a_node(self: Plugin, state: object, pod: PodInfo, node: NodeInfo) -> None:
    if node.name == "node-2-0":
        raise RuntimeError("broken")


async def test_a_filter_that_fails_in_a_placement_fails_the_group() -> None:
    fails = plugin("Fails", filter=_fails_on_a_node)
    fails.only_takes_room = True
    cluster = _racks([2, 2, 2], size=2, min_count=2)
    attempt = await cluster.attempt(fails)
    assert attempt.result.status is not None
    assert "broken" in attempt.result.status.message
    assert len(_searched(attempt)) == 3
