"""NodeResourcesBalancedAllocation: `noderesources/balanced_allocation.go`, float by float."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from scheduler.api.core import Node, Pod
from tests.reference.cluster import Cluster
from tests.reference.go_integers import divide
from tests.reference.pod_requests import (
    counted,
    is_counted,
    is_scalar,
    offered,
    pod_requests,
    taken,
)


def requests_of(pod: Pod, names: Sequence[str]) -> dict[str, int]:
    found = pod_requests(pod, status=True)
    return {name: counted(name, found.get(name, Fraction())) for name in names}


def skips(pod: Pod, names: Sequence[str] = ("cpu", "memory")) -> bool:
    return not any(requests_of(pod, names).values())


def score(pod: Pod, node: Node, cluster: Cluster, names: Sequence[str] = ("cpu", "memory")) -> int:
    requests = requests_of(pod, names)
    with_pod: list[tuple[int, int]] = []
    without: list[tuple[int, int]] = []
    for name in names:
        if not is_counted(name) or (is_scalar(name) and requests[name] == 0):
            continue
        capacity = offered(node, name)
        if capacity == 0:
            continue
        used = sum(taken(other).get(name, 0) for other in cluster.pods_on(node))
        with_pod.append((used + requests[name], capacity))
        without.append((used, capacity))
    return 50 + divide(50 + evenness(with_pod) - evenness(without), 2)


def evenness(parts: list[tuple[int, int]]) -> int:
    fractions = []
    total = 0.0
    for used, capacity in parts:
        fraction = float(used) / float(capacity)
        if fraction > 1:
            fraction = 1.0
        total += fraction
        fractions.append(fraction)
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = total / float(len(fractions))
        squares = 0.0
        for fraction in fractions:
            squares = squares + (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / float(len(fractions)))
    return int((1 - deviation) * 100.0)
