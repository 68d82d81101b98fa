"""Gangs against as many single pods, on the same nodes and under the same feature gates.

Members and single pods are equal but for `spec.schedulingGroup`. With topology, the nodes are in
`DOMAINS` domains, and the members of a gang have to be in one of them. The first of these are full,
and the last one is the best: pods run there already.
"""

from typing import Final

from msgspec.structs import replace

from scheduler.api.core import ObjectMeta, Pod, PodSchedulingGroup
from scheduler.api.pod_groups import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    TopologyConstraint,
)
from scheduler.testing import make_node, make_pod
from tests.bench.cycles import NODE, POD, WARM_UP, Workload, cycles_per_second

__all__ = ["GANG_SIZES", "gang_rates"]

GANG_SIZES: Final = (8, 64, 1000)
DOMAINS: Final = 50
_FULL_DOMAINS: Final = 10
_FULL: Final = {"cpu": "3950m"}
_RACK: Final = "example.com/rack"


def gang_rates(
    nodes_total: int, *, size: int, members: int, with_topology: bool, repeat: int
) -> tuple[float, float]:
    """Return the members scheduled per second in gangs of a size, and that by single pods.

    The runs of both alternate, and the best of each counts: the load of the machine is then the
    same for both.
    """
    gangs = _workload(nodes_total, size, members, with_topology=with_topology)
    single = gangs._replace(name="single", pods=[_single(pod) for pod in gangs.pods])
    rates = [(cycles_per_second(gangs), cycles_per_second(single)) for _ in range(repeat)]
    of_gangs, of_single = zip(*rates, strict=True)
    return max(of_gangs), max(of_single)


def _workload(nodes_total: int, size: int, members: int, *, with_topology: bool) -> Workload:
    """Return a workload of single pods to warm up, and then of gangs with so many members."""
    nodes = [
        make_node(f"node-{i}", allocatable=NODE, labels={_RACK: f"rack-{i % DOMAINS:02}"})
        for i in range(nodes_total)
    ]
    running = [
        make_pod(f"running-{i}", node_name=f"node-{i}", requests=requests)
        for i in range(nodes_total if with_topology else 0)
        if (requests := _running_in(i % DOMAINS)) is not None
    ]
    topology = (TopologyConstraint(_RACK),) if with_topology else ()
    spec = PodGroupSpec(
        scheduling_policy=PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(size)),
        scheduling_constraints=PodGroupSchedulingConstraints(topology) if topology else None,
    )
    groups = [
        PodGroup(ObjectMeta(name=f"gang-{n}", namespace="default"), spec)
        for n in range(members // size)
    ]
    pods = [make_pod(f"warm-up-{i}", requests=POD) for i in range(WARM_UP)]
    for group in groups:
        name = PodSchedulingGroup(group.metadata.name)
        for i in range(size):
            pod = make_pod(f"{group.metadata.name}-{i}", requests=POD)
            pods.append(replace(pod, spec=replace(pod.spec, scheduling_group=name)))
    return Workload(f"gangs of {size}", nodes, running, pods, groups)


def _running_in(domain: int) -> dict[str, str] | None:
    """Return the requests of the pod on each node of a domain; None where no pod runs."""
    if domain < _FULL_DOMAINS:
        return _FULL
    return POD if domain == DOMAINS - 1 else None


def _single(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, scheduling_group=None))
