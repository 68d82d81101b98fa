"""Dry runs of one class of pods: its candidate nodes, what its pods cost there, and the room.

    feasible nodes --> first costs --> the best ones are candidates --> slots of each candidate

The cost of a pod is that of the cost model. All costs of a batch have one scale: scores are
normalised over the feasible nodes as the batch finds them, and change from there with the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import numpy as np

from scheduler.flow.classes import with_claims_of
from scheduler.framework.cycle_state import CycleState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.flow.classes import PodClass
    from scheduler.flow.cost_models import CostModel
    from scheduler.framework.handle import Handle, Worlds
    from scheduler.snapshot.columns import IntArray, World
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo


class FeasibleClass:
    """A class with the nodes that fit its first pod, as the profile's filters see them."""

    def __init__(self, handle: Handle, model: CostModel, pod_class: PodClass) -> None:
        self.pod_class: Final = pod_class
        self.model: Final = model
        self._handle: Final = handle
        self._state: Final = CycleState()
        self._nodes: Final = handle.feasible_nodes(self._state, pod_class.first)

    def within(self, nodes: Nodes) -> Nodes:
        """Return the nodes that fit, out of some."""
        return self._nodes.take(np.isin(self._nodes.row_array, nodes.row_array))

    def dry_run(self, nodes: Nodes) -> Worlds:
        return self._handle.worlds(self._state, self.pod_class.first, nodes)

    def has_devices(self, pod: PodInfo, others: Sequence[PodInfo], node_name: str) -> bool:
        """True if the devices of a node suffice for a pod of this class and others on the node."""
        together = with_claims_of(pod, others)
        return self._handle.feasible_nodes(CycleState(), together).position(node_name) is not None


class Trial:
    """The dry runs of a class on its candidates among some nodes, for a batch of `num_pods`."""

    def __init__(self, of: FeasibleClass, nodes: Nodes, *, num_pods: int, candidates: int) -> None:
        self.pod_class: Final = of.pod_class
        self.of: Final = of
        self._num_pods: Final = num_pods
        feasible = of.within(nodes)
        costs = of.model(of.pod_class.first, of.dry_run(feasible)) if len(feasible) else _NONE
        best = np.argsort(costs, kind="stable")
        count = candidates
        while True:
            self._choose(feasible, np.sort(best[:count]), costs)
            self._first_slots = self._count_slots(())
            room = sum(map(len, self._first_slots.values()))
            if count >= len(best) or room >= num_pods:
                break
            count += num_pods - room

    def _choose(self, feasible: Nodes, which: IntArray, costs: IntArray) -> None:
        self.nodes = feasible.take(which)
        self.names = self.nodes.names
        self._position_of = {name: number for number, name in enumerate(self.names)}
        # Scores of the candidates alone may be normalised in another way than those of all nodes.
        self._offset = costs[which] - self.of.model(self.pod_class.first, self.dry_run())

    def dry_run(self) -> Worlds:
        """Return a dry run on the candidates as they are."""
        return self.of.dry_run(self.nodes)

    def costs(self, worlds: Worlds) -> IntArray:
        """Return the cost of the next pod in each world."""
        return self.of.model(self.pod_class.first, worlds) + self._offset

    def add(self, worlds: Worlds, placed: Iterable[tuple[PodInfo, str]]) -> IntArray:
        """Add pods to their nodes; return the positions of the candidates that have changed."""
        here = [(self._position_of[n], pod) for pod, n in placed if n in self._position_of]
        positions = [position for position, _ in here]
        worlds.add_pods(cast("list[World]", positions), [pod for _, pod in here])
        return np.unique(np.array(positions, dtype=np.int64))

    def slots(self, placed: Sequence[tuple[PodInfo, str]]) -> dict[str, list[int]]:
        """Return the costs of the first pod, the second and so on, by node; they never fall.

        A node gets a further slot while its last one is among the cheapest that the batch can use.
        For pods with claims it has one: a round gives the devices of a node to one pod.
        """
        return self._count_slots(placed) if placed else self._first_slots

    def _count_slots(self, placed: Sequence[tuple[PodInfo, str]]) -> dict[str, list[int]]:
        worlds = self.dry_run()
        self.add(worlds, placed)
        slots: list[list[int]] = [[] for _ in self.names]
        found: list[int] = []
        left = np.arange(len(self.names))
        for number in range(1 if self.pod_class.has_claims else self._num_pods):
            rejections = worlds.run_filters(left) if len(left) else None
            if rejections is not None:
                left = left[rejections.passed]
            if not len(left):
                break
            costs = self.costs(worlds)[left]
            for position, cost in zip(left.tolist(), costs.tolist(), strict=True):
                slots[position].append(cost)
            found = sorted([*found, *costs.tolist()])[: self._num_pods]
            if len(found) == self._num_pods:
                left = left[costs < found[-1]]
            filler = self.pod_class.filler(number)
            worlds.add_pods(cast("list[World]", left.tolist()), [filler] * len(left))
        return {n: rising(some) for n, some in zip(self.names, slots, strict=True) if some}


_NONE: Final = np.zeros(0, dtype=np.int64)


def rising(costs: list[int]) -> list[int]:
    """Return costs that never fall, with the sums of the first k costs nowhere above the given.

    Where a next pod is cheaper than the one before, neighbours get their mean: a flow fills the
    cheap slot first, and would pay too little for one pod. (Pool adjacent violators.)
    """
    blocks: list[tuple[float, int]] = []
    for cost in costs:
        mean, count = float(cost), 1
        while blocks and blocks[-1][0] > mean:
            before, number = blocks.pop()
            mean = (mean * count + before * number) / (count + number)
            count += number
        blocks.append((mean, count))
    return [round(mean) for mean, count in blocks for _ in range(count)]
