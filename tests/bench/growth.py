"""Growth of the time of a cycle with the number of nodes."""

import math
from collections.abc import Callable, Sequence

from tests.bench.cycles import Workload, cycles_per_second

__all__ = ["growth_exponent"]


def growth_exponent(
    workload_of: Callable[[int], Workload], *, node_counts: Sequence[int], repeat: int
) -> float:
    """The slope between the logarithms of nodes and of the time of a cycle; 1 is linear."""
    points = []
    for nodes in node_counts:
        best = max(cycles_per_second(workload_of(nodes)) for _ in range(repeat))
        points.append((math.log(nodes), -math.log(best)))
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return covariance / sum((x - mean_x) ** 2 for x, _ in points)
