"""NodeResourcesFit: `noderesources/{fit,resource_allocation,least_allocated,...}.go`."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import NamedTuple

from scheduler.api.core import Node, Pod
from tests.reference.cluster import UNRESOLVABLE, UNSCHEDULABLE, Cluster, Verdict
from tests.reference.go_integers import divide, int64
from tests.reference.pod_requests import (
    NON_ZERO,
    counted,
    is_counted,
    is_extended,
    is_scalar,
    offered,
    pod_requests,
    taken,
    taken_non_zero,
    wanted,
)


class Strategy(NamedTuple):
    type: str = "LeastAllocated"
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    #: Utilization and score, from 0 to 10.
    shape: tuple[tuple[int, int], ...] = ()


LEAST_ALLOCATED = Strategy()


def filter_node(
    pod: Pod,
    node: Node,
    cluster: Cluster,
    ignored: frozenset[str] = frozenset(),
    ignored_groups: frozenset[str] = frozenset(),
) -> Verdict | None:
    reasons = []
    hopeless = False
    on_node = cluster.pods_on(node)
    if len(on_node) + 1 > offered(node, "pods"):
        reasons.append("Too many pods")
    requests = wanted(pod)
    native = ["cpu", "memory", "ephemeral-storage"]
    for name in native + sorted(set(requests) - set(native)):
        request = requests.get(name, 0)
        if request <= 0:
            continue
        if is_extended(name) and (name in ignored or name.split("/")[0] in ignored_groups):
            continue
        used = sum(taken(other).get(name, 0) for other in on_node)
        if request > offered(node, name) - used:
            reasons.append(f"Insufficient {name}")
            hopeless = hopeless or request > offered(node, name)
    if not reasons:
        return None
    return UNRESOLVABLE if hopeless else UNSCHEDULABLE, tuple(reasons)


def score(pod: Pod, node: Node, cluster: Cluster, strategy: Strategy = LEAST_ALLOCATED) -> int:
    total = weights = 0
    request = pod_requests(pod, status=False, pod_level=False, non_zero=NON_ZERO)
    for name, weight in strategy.resources:
        asked = counted(name, request.get(name, Fraction()))
        if not is_counted(name) or (asked == 0 and is_scalar(name)):
            continue
        capacity = offered(node, name)
        if capacity == 0:
            continue
        used = asked + sum(
            taken_non_zero(other, name) if name in NON_ZERO else taken(other).get(name, 0)
            for other in cluster.pods_on(node)
        )
        points = resource_score(used, capacity, strategy)
        if strategy.type == "RequestedToCapacityRatio" and points <= 0:
            continue
        total += points * weight
        weights += weight
    if weights == 0:
        return 0
    if strategy.type == "RequestedToCapacityRatio":
        return math.floor(Fraction(total, weights) + Fraction(1, 2))
    return divide(total, weights)


def resource_score(used: int, capacity: int, strategy: Strategy) -> int:
    if strategy.type == "LeastAllocated":
        return 0 if used > capacity else divide(int64((capacity - used) * 100), capacity)
    if strategy.type == "MostAllocated":
        return divide(int64(min(used, capacity) * 100), capacity)
    utilization = 100 if used > capacity else divide(int64(used * 100), capacity)
    return on_line(utilization, [(u, s * 10) for u, s in strategy.shape])


def on_line(at: int, points: list[tuple[int, int]]) -> int:
    if at <= points[0][0]:
        return points[0][1]
    for (u0, s0), (u1, s1) in itertools.pairwise(points):
        if at <= u1:
            return s0 + divide((s1 - s0) * (at - u0), u1 - u0)
    return points[-1][1]
