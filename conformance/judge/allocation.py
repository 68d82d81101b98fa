"""The allocation of a cluster: the used part of each resource, fragmentation, and spread.

Nodes and pods are rows of whole numbers, one column for each resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


class PodShape(NamedTuple):
    """Pods that are alike: their requests, the nodes that they may use, and their number."""

    demand: NDArray[np.int64]
    nodes: NDArray[np.bool_]
    pods: int


class Allocation:
    """The free resources of nodes, as an array of nodes by resources.

    `capacity` has a row of `columns` numbers for each node. `scarce` is the column of the resource
    that limits the cluster. Fragmentation is the free part of this resource on nodes that do not
    fit a pod that requests it, averaged over the pods of `shapes` (fragmentation gradient descent,
    USENIX ATC 2023).
    """

    def __init__(
        self,
        capacity: Iterable[Sequence[int]],
        *,
        columns: int,
        scarce: int,
        shapes: Iterable[PodShape],
    ) -> None:
        self._capacity: Final = np.array(list(capacity), dtype=np.int64).reshape(-1, columns)
        self._total: Final = self._capacity.sum(axis=0)
        self._free: Final = self._capacity.copy()
        self._pods: Final = np.zeros(len(self._capacity), dtype=np.int64)
        self._scarce: Final = scarce
        self._shapes: Final = [shape for shape in shapes if shape.demand[scarce]]

    def add(self, row: int, demand: Sequence[int]) -> None:
        """Put a pod on a node."""
        self._free[row] -= demand
        self._pods[row] += 1

    def remove(self, row: int, demand: Sequence[int]) -> None:
        """Take a pod off a node."""
        self._free[row] += demand
        self._pods[row] -= 1

    @property
    def nodes_used(self) -> int:
        """The number of nodes with a pod."""
        return int(np.count_nonzero(self._pods))

    def used_percent(self) -> list[float]:
        """Return the allocated part of the cluster for each resource."""
        used = self._total - self._free.sum(axis=0)
        return [
            percent(float(part), float(whole))
            for part, whole in zip(used, self._total, strict=True)
        ]

    def fragmentation_percent(self) -> float:
        """Return the free part of the scarce resource that an average pod cannot use."""
        free = np.maximum(self._free[:, self._scarce], 0)
        pods = sum(shape.pods for shape in self._shapes)
        unusable = sum(
            shape.pods / pods * float(free[~self._fits(shape)].sum()) for shape in self._shapes
        )
        return percent(unusable, float(self._total[self._scarce]))

    def spread_percent(self) -> float:
        """Return the standard deviation of the nodes' allocated parts of the scarce resource."""
        capacity = self._capacity[:, self._scarce]
        has = capacity > 0
        if not has.any():
            return 0.0
        used = (capacity - self._free[:, self._scarce])[has] / capacity[has]
        return float(100.0 * used.std())

    def _fits(self, shape: PodShape) -> NDArray[np.bool_]:
        wanted = shape.demand > 0
        fits: NDArray[np.bool_] = shape.nodes & (self._free[:, wanted] >= shape.demand[wanted]).all(
            axis=1
        )
        return fits


def percent(part: float, whole: float) -> float:
    """Return a part in percent of the whole; 0 if the whole is 0."""
    return 100.0 * part / whole if whole else 0.0
