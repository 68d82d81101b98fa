"""Clusters in memory whose scheduler places pods one by one, or by flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
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
from scheduler.assembly.simulated_cluster import SimulatedCluster
from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    KubeSchedulerConfiguration,
)
from scheduler.config.load import load_text
from scheduler.cycle.schedule_pod import FirstInOrder
from scheduler.cycle.scheduling_loop import schedule_one
from scheduler.plugins import SCHEME
from scheduler.testing import make_node, make_pod

GROUPS = DEFAULT_FEATURE_GATES | {GENERIC_WORKLOAD, GANG_SCHEDULING}
DOMAINS = GROUPS | {TOPOLOGY_AWARE_WORKLOAD_SCHEDULING}


def cluster_config(
    *,
    flow: bool = True,
    gates: frozenset[str] = DEFAULT_FEATURE_GATES,
    args: Mapping[str, Any] | None = None,
) -> KubeSchedulerConfiguration:
    """Return the default profile; `flow` adds FlowPlacement to it."""
    profile: dict[str, Any] = {}
    if flow:
        profile["plugins"] = {
            "multiPoint": {"enabled": [{"name": "FlowPlacement"}]},
            "placementGenerate": {"disabled": [{"name": "TopologyPlacementGenerator"}]},
        }
        profile["pluginConfig"] = [{"name": "FlowPlacement", "args": dict(args or {})}]
    text = yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
            "profiles": [profile],
        }
    )
    return load_text(text, SCHEME._replace(gates=gates))


def cluster_of(
    nodes: Sequence[Node],
    pods: Sequence[Pod] = (),
    groups: Sequence[PodGroup] = (),
    *,
    flow: bool = True,
    gates: frozenset[str] = DEFAULT_FEATURE_GATES,
    args: Mapping[str, Any] | None = None,
) -> SimulatedCluster:
    """Return a cluster in which the pods wait."""
    cluster = SimulatedCluster(
        cluster_config(flow=flow, gates=gates, args=args),
        feature_gates=gates,
        tie_break=FirstInOrder(),
    )
    for obj in (*nodes, *groups, *pods):
        cluster.apply(obj)
    return cluster


async def nodes_of(cluster: SimulatedCluster) -> dict[str, str]:
    """Schedule for ten seconds; return the node of each pod by name, empty without one.

    A gang that does not fit is tried again and again.
    """
    await cluster.run_until(cluster.clock.now() + 10)
    await cluster.close()
    cluster.core.queue.check()
    return {pod.metadata.name: pod.spec.node_name for pod in cluster.pods}


async def first_cycle(cluster: SimulatedCluster) -> None:
    """Schedule the first pod of the queue."""
    queued = cluster.core.cycle.queue.pop_nowait()
    assert queued is not None
    await schedule_one(cluster.core.cycle, queued)


def gang(min_count: int, *, domain_label: str = "") -> PodGroup:
    """Return the PodGroup `gang`."""
    constraints = PodGroupSchedulingConstraints((TopologyConstraint(domain_label),))
    spec = PodGroupSpec(
        scheduling_policy=PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count)),
        scheduling_constraints=constraints if domain_label else None,
    )
    return PodGroup(ObjectMeta(name="gang", namespace="default", uid="gang"), spec)


def member(name: str, **fields: Any) -> Pod:
    """Return a pod of the group `gang`."""
    pod = make_pod(name, **fields)
    return replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup("gang")))


def on_nodes(*names: str) -> dict[str, Any]:
    """Return an affinity to some nodes."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [*names]}]}]
    if len(names) > 1:
        values = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*names]}
        terms = [{"matchExpressions": [values]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def nested(size: int) -> tuple[list[Node], list[Pod]]:
    """Return nodes with room for one pod each, and a gang with exactly one perfect matching.

    Member i fits on the first nodes only, all but i of them; so the one that comes first is the
    least choosy one, and takes the node that the last one needs.
    """
    names = [f"node-{number:03}" for number in range(size)]
    nodes = [make_node(name, allocatable={"cpu": "1", "pods": "9"}) for name in names]
    pods = [
        member(
            f"member-{number:03}",
            requests={"cpu": "1"},
            affinity=on_nodes(*names[: size - number]),
        )
        for number in range(size)
    ]
    return nodes, pods
