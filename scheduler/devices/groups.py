"""Nodes in groups: one group for nodes with equal devices and equal usage.

The allocator then answers once for a group. Groups are numbers, in an array with an entry per node;
only the entries of nodes whose devices or usage changed are computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.devices.pools import NodePools, PoolId, PoolsError
from scheduler.snapshot.columns import grown

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from scheduler.api.core import Node
    from scheduler.devices.allocated import AllocatedState
    from scheduler.devices.pools import Slices
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes

_CAPACITY_MIN: Final = 64
#: The number of groups at which all are numbered anew.
_GROUPS_MAX: Final = 100_000


class NodeGroups:
    """The pools and the group of each node."""

    def __init__(self, state: AllocatedState) -> None:
        self._state: Final = state
        self._slices: Slices | None = None
        #: By number of the node, which never changes: its object, pools and group.
        self._number_of: Final[dict[str, int]] = {}
        self._nodes: Final[list[Node]] = []
        self._node_pools: Final[list[NodePools | PoolsError | None]] = []
        self._groups: IntArray = np.zeros(_CAPACITY_MIN, dtype=np.int64)
        self._group_of: Final[dict[Hashable, int]] = {}
        self._shapes: Final[dict[bytes, int]] = {}
        self._numbers_of_pool: Final[dict[PoolId, set[int]]] = {}
        self._outdated: Final[set[int]] = set()

    def use_slices(self, slices: Slices, nodes: Iterable[str] | None) -> None:
        """Use new slices, which differ for these nodes; None for all."""
        self._slices = slices
        if nodes is None:
            numbers: Iterable[int] = range(len(self._nodes))
            self._numbers_of_pool.clear()
        else:
            numbers = [self._number_of[name] for name in nodes if name in self._number_of]
        for number in numbers:
            self._node_pools[number] = None
            self._outdated.add(number)

    def use_changes(self, pools: Iterable[PoolId]) -> None:
        """Note the pools of which more or fewer devices are allocated than before."""
        for pool in pools:
            self._outdated.update(self._numbers_of_pool.get(pool, ()))

    def of(self, nodes: Nodes) -> IntArray:
        """Return the groups of nodes, an array of shape `(len(nodes),)`."""
        numbers = nodes.derive(self.number).map(_same)
        if len(self._group_of) > _GROUPS_MAX:
            self._group_of.clear()
            self._outdated.update(range(len(self._nodes)))
        for number in self._outdated:
            self._groups[number] = self._group(number)
        self._outdated.clear()
        return self._groups[numbers]

    def node_pools(self, node: Node) -> NodePools:
        """Return the pools of a node; raises `PoolsError`."""
        pools = self._pools_of(self.number(node))
        if isinstance(pools, PoolsError):
            raise pools
        return pools

    def number(self, node: Node) -> int:
        """Return the number of a node; its pools are gathered anew for a new object."""
        name = node.metadata.name
        number = self._number_of.get(name)
        if number is None:
            number = self._number_of[name] = len(self._nodes)
            self._nodes.append(node)
            self._node_pools.append(None)
            if number >= len(self._groups):
                self._groups = grown(self._groups, 2 * len(self._groups))
            self._outdated.add(number)
        elif self._nodes[number] is not node:
            self._nodes[number] = node
            self._node_pools[number] = None
            self._outdated.add(number)
        return number

    def _pools_of(self, number: int) -> NodePools | PoolsError:
        pools = self._node_pools[number]
        if pools is None:
            assert self._slices is not None, "slices come first"
            node = self._nodes[number]
            try:
                pools = NodePools(node, self._slices.pools(node))
                for pool in pools.pools:
                    self._numbers_of_pool.setdefault(pool.id, set()).add(number)
            except PoolsError as error:
                pools = error
            self._node_pools[number] = pools
        return pools

    def _group(self, number: int) -> int:
        node_pools = self._pools_of(number)
        if isinstance(node_pools, PoolsError):
            key: Hashable = number
        else:
            shape = self._shapes.setdefault(node_pools.shape, len(self._shapes))
            key = (shape, self._state.usage(node_pools.counted))
        return self._group_of.setdefault(key, len(self._group_of))


def _same(number: int | None) -> int:
    return -1 if number is None else number
