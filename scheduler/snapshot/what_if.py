"""What-if tables: hypothetical nodes with pods added or removed.

A what-if table is a small node table of its own, so that plugins read hypothetical rows through the
same `Nodes` as real ones, and changes do not reach the snapshot. Counts are copied column by
column; columns derived from node objects, which no pod changes, are shared.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final, SupportsIndex, TypeVar, cast, overload

import numpy as np

from scheduler.api import resources
from scheduler.snapshot.columns import Row
from scheduler.snapshot.images import ImageTable
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.nodes import NodeInfo, Nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from scheduler.api.core import Node
    from scheduler.snapshot.columns import BoolArray, IntArray, Interned, World
    from scheduler.snapshot.images import Image
    from scheduler.snapshot.node_table import PortSet
    from scheduler.snapshot.pod_info import PodInfo

E = TypeVar("E")
V = TypeVar("V", bound="Hashable")


class WhatIf:
    """Copies of some nodes, in the same order, whose pods can be changed: one world per node.

    The copies have labels, taints, images, pods and counts. They are valid until the original nodes
    change.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._table: Final = _HypotheticalTable(nodes)
        self._total: Final = nodes.total
        self._base_rows: Final = nodes.base_rows
        self._images: Final = nodes.images and _HypotheticalImages(nodes.images, nodes)

    @property
    def nodes(self) -> Nodes:
        rows = slice(0, len(self._table))
        return Nodes(
            self._table, rows, total=self._total, images=self._images, base_rows=self._base_rows
        )

    def node(self, world: World) -> NodeInfo:
        """Return the node of one world."""
        return NodeInfo(self._table, Row(world), self._base_rows)

    def add_pod(self, world: World, pod: PodInfo) -> None:
        """Add a pod in one world."""
        self._table.add_pod(Row(world), pod)

    def remove_pod(self, world: World, uid: str) -> PodInfo:
        """Remove a pod in one world and return it; raises KeyError for an unknown pod."""
        return self._table.remove_pod(Row(world), uid)

    def add_pods(self, worlds: Sequence[World] | IntArray, pods: Sequence[PodInfo]) -> None:
        """Add the first pod in the first of `worlds`, and so on."""
        self._table.add_pods(worlds, pods)

    def remove_pods(self, worlds: Sequence[World] | IntArray, pods: Sequence[PodInfo]) -> None:
        """Remove the first pod from the first of `worlds`, and so on; raises KeyError."""
        self._table.remove_pods(worlds, pods)


def as_worlds(worlds: Sequence[World] | IntArray) -> Sequence[World]:
    """Return an array of worlds as a list, which is faster to iterate over."""
    return cast("list[World]", worlds.tolist()) if isinstance(worlds, np.ndarray) else worlds


def nodes_without_pods(nodes: Nodes, objects: Sequence[Node]) -> Nodes:
    """Return the nodes in view with these objects in place of their own, without pods and images.

    Raises KeyError for an object whose name is not in view.
    """
    table = NodeTable(len(objects))
    positions = nodes.positions(node.metadata.name for node in objects)
    for node in objects:
        table.set_node(table.add_row(node.metadata.name), node)
    base_rows = nodes.base_rows[[positions[name] for name in table.names]]
    return Nodes(table, slice(0, len(table)), total=nodes.total, base_rows=base_rows)


class _HypotheticalImages(ImageTable):
    """The images of the original nodes, by the rows of the copies."""

    def __init__(self, original: ImageTable, nodes: Nodes) -> None:
        super().__init__()
        self._original: Final = original
        self._nodes: Final = nodes

    def get(self, name: str) -> Image | None:
        return self._original.get(name)

    def mask(self, name: str, row_of: Mapping[str, int], rows_total: int) -> BoolArray:
        table, rows = self._nodes.table, self._nodes.row_array
        return self._original.mask(name, table.row_of, len(table))[rows]


class _Settled(list[E]):
    """A list that is brought up to date before an item is read."""

    def __init__(self, settle: Callable[[], None]) -> None:
        super().__init__()
        self._settle: Final = settle

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> E: ...

    @overload
    def __getitem__(self, index: slice, /) -> list[E]: ...

    def __getitem__(self, index: SupportsIndex | slice, /) -> E | list[E]:
        self._settle()
        return super().__getitem__(index)


class _HypotheticalTable(NodeTable):
    """Some rows of another table, renumbered from 0: the row of a node is its world."""

    def __init__(self, nodes: Nodes) -> None:
        #: Additions and removals of pods that only the counts have: a filter that looks at counts
        #: alone, as most do, leaves them here.
        self._noted: Final[list[tuple[Sequence[World] | IntArray, Sequence[PodInfo], bool]]] = []
        pods: _Settled[dict[str, PodInfo]] = _Settled(self._settle)
        host_ports: _Settled[PortSet] = _Settled(self._settle)
        super().__init__(len(nodes), pods=pods, host_ports=host_ports)
        source, rows = nodes.table, nodes.row_array
        self._source: Final = source
        self._rows: Final = rows
        self._ports_changed: Final[set[Row]] = set()
        #: The rows whose pods are a copy.
        self._copied: Final[set[Row]] = set()
        self.names.extend(nodes.names)
        self.row_of.update(zip(self.names, cast("Iterable[Row]", range(len(rows))), strict=True))
        self.nodes.extend(map(source.nodes.__getitem__, rows.tolist()))
        if len(rows):
            self.pod_count = source.pod_count.take(rows)
            self.lowest_priority = source.lowest_priority.take(rows)
        for column, of in (
            (self.requested, source.requested),
            (self.non_zero_requested, source.non_zero_requested),
            (self.allocatable, source.allocatable),
        ):
            column.update((name, counts.take(rows)) for name, counts in of.items())

    def add_pods(self, worlds: Sequence[World] | IntArray, pods: Sequence[PodInfo]) -> None:
        """Add many pods, each to its world."""
        self._noted.append((worlds, pods, True))
        changed = np.array(worlds, dtype=np.int64)
        self._count_all(changed, pods, 1)
        # Any lower bound is right, and few readers need an exact one in a dry run.
        self.lowest_priority[changed] = _LOWEST_PRIORITY

    def remove_pods(self, worlds: Sequence[World] | IntArray, pods: Sequence[PodInfo]) -> None:
        """Remove many pods, each from its world, where it must be."""
        self._noted.append((worlds, pods, False))
        self._count_all(np.array(worlds, dtype=np.int64), pods, -1)

    def add_pod(self, row: Row, pod: PodInfo) -> None:
        self._copy_pods(row)
        super().add_pod(row, pod)

    def remove_pod(self, row: Row, uid: str) -> PodInfo:
        self._copy_pods(row)
        return super().remove_pod(row, uid)

    def _settle(self) -> None:
        """Copy the pods and ports from the source, and change them as noted."""
        if len(self.pods) < len(self):
            rows = self._rows.tolist()
            self.pods.extend(map(self._source.pods.__getitem__, rows))
            self.host_ports.extend(map(self._source.host_ports.__getitem__, rows))
        noted = [*self._noted]
        self._noted.clear()
        for worlds, pods, are_added in noted:
            for world, pod in zip(as_worlds(worlds), pods, strict=True):
                row = Row(world)
                on_row = self._copy_pods(row)
                if are_added:
                    assert pod.uid not in on_row, f"{pod} is on {self.names[row]} already"
                    on_row[pod.uid] = pod
                else:
                    del on_row[pod.uid]
                if pod.host_ports:
                    ports = (port for other in on_row.values() for port in other.host_ports)
                    self._set_ports(row, frozenset(ports))

    def _copy_pods(self, row: Row) -> dict[str, PodInfo]:
        """Return the pods of a row, copied before the first change."""
        if row not in self._copied:
            self.pods[row] = dict(self.pods[row])
            self._copied.add(row)
        return self.pods[row]

    def _count_all(self, rows: IntArray, pods: Sequence[PodInfo], sign: int) -> None:
        """Add `sign` times the requests to the columns, once per distinct request and column."""
        if len(pods) <= _FEW_PODS:
            for row, pod in zip(rows.tolist(), pods, strict=True):
                self._count(row, pod, sign)
            return
        np.add.at(self.pod_count, rows, sign)
        requested = [pod.requests for pod in pods]
        distinct = dict.fromkeys(requested)
        if len(distinct) == 1:
            (requests,) = distinct
            for name, count in requests.resources.items():
                np.add.at(self._column(self.requested, name), rows, sign * count)
            for name, of in _NON_ZERO:
                np.add.at(self.non_zero_requested[name], rows, sign * of(requests))
            return
        number_of = {requests: n for n, requests in enumerate(distinct)}
        which = np.fromiter(map(number_of.__getitem__, requested), np.int64, count=len(requested))
        for name in {name for requests in number_of for name in requests.resources}:
            counts = _counts((requests[name] for requests in number_of), sign)
            np.add.at(self._column(self.requested, name), rows, counts.take(which))
        for name, of in _NON_ZERO:
            counts = _counts(map(of, number_of), sign)
            np.add.at(self.non_zero_requested[name], rows, counts.take(which))

    def _set_ports(self, row: Row, ports: PortSet) -> None:
        self._ports_changed.add(row)
        super()._set_ports(row, ports)

    def cached(self, key: Hashable, compute: Callable[[slice | IntArray], IntArray]) -> IntArray:
        """Return `compute(rows)` of all rows, anew each time: the table is small and changes."""
        return compute(slice(0, len(self)))

    def allocatable_bounds(self, name: str) -> tuple[int, int]:
        """Return the bounds of the whole cluster, which no pod changes."""
        return self._source.allocatable_bounds(name)

    def port_column(self) -> Interned[PortSet]:
        """Return the column of the source table, with the rows whose ports have changed here."""
        self._settle()
        if self._port_column is None:
            rows = np.arange(len(self), dtype=np.int64)
            column = self._source.port_column().rearranged(rows, self._rows, self._capacity)
            for row in self._ports_changed:
                column.set(row, self.host_ports[row] or None)
            self._port_column = column
        return self._port_column

    def derive(self, value_of: Callable[[Node], V | None]) -> Interned[V]:
        """Return the column of the source table: the node objects are the same."""
        column = self._derived.touch(value_of)
        if column is None:
            source = self._source.derive(cast("Callable[[Node], Hashable]", value_of))
            column = source.gathered(self._rows)
            self._derived.put(value_of, column)
        return cast("Interned[V]", column)


#: Up to this many pods are counted faster one by one.
_FEW_PODS: Final = 16
#: A lower bound of all priorities.
_LOWEST_PRIORITY: Final = -(2**31)


_NON_ZERO: Final = (
    (resources.CPU, operator.attrgetter("non_zero_cpu")),
    (resources.MEMORY, operator.attrgetter("non_zero_memory")),
)


def _counts(numbers: Iterable[int], sign: int) -> IntArray:
    return np.fromiter(numbers, dtype=np.int64) * sign
