"""Hypothetical nodes: what a node would be with pods added or taken away.

A what-if is a small node table of its own, so that plugins look at hypothetical rows through the
same `Nodes` as at real ones, and nothing they see can leak into the snapshot. What is counted is
copied column by column; what follows from the node objects, which no pod changes, is shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar, cast

import numpy as np

from scheduler.api import resources
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.nodes import NodeInfo, Nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from scheduler.api.core import Node
    from scheduler.snapshot.columns import IntArray, Interned
    from scheduler.snapshot.node_table import PortSet
    from scheduler.snapshot.pod_info import PodInfo, PodRequests

V = TypeVar("V", bound="Hashable")


class WhatIf:
    """Copies of some nodes, hypothetical ones maybe, in the same order, to be changed at will.

    They know their labels, taints, pods and counts, but nothing of images. Good for as long as the
    nodes they were made of do not change.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._table: Final = _HypotheticalTable(nodes)
        self._total: Final = nodes.total
        self._base_rows: Final = nodes.base_rows

    @property
    def nodes(self) -> Nodes:
        """The hypothetical nodes, as plugins see them."""
        rows = slice(0, len(self._table))
        return Nodes(self._table, rows, total=self._total, base_rows=self._base_rows)

    def node(self, row: int) -> NodeInfo:
        """One of them, as it now is."""
        return NodeInfo(self._table, row, self._base_rows)

    def add_pod(self, row: int, pod: PodInfo) -> None:
        """Put a pod on a hypothetical node."""
        self._table.add_pod(row, pod)

    def remove_pod(self, row: int, uid: str) -> PodInfo:
        """Take a pod off a hypothetical node; raises KeyError if it is not there."""
        return self._table.remove_pod(row, uid)

    def add_pods(self, rows: Sequence[int], pods: Sequence[PodInfo]) -> None:
        """Put many pods where they belong at once: the first on the first of `rows`, and so on."""
        self._table.add_pods(rows, pods)

    def remove_pods(self, rows: Sequence[int], pods: Sequence[PodInfo]) -> None:
        """Take many pods away at once, likewise; raises KeyError if one is not there."""
        self._table.remove_pods(rows, pods)


class _HypotheticalTable(NodeTable):
    """Some rows of another table, under new numbers."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__(len(nodes))
        self._source: Final = nodes.table
        self._rows: Final = nodes.row_array
        self._ports_changed: Final[set[int]] = set()
        source, rows = self._source, self._rows
        self.names.extend(nodes.names)
        self.row_of.update((name, row) for row, name in enumerate(self.names))
        for row in rows.tolist():
            self.nodes.append(source.nodes[row])
            self.pods.append(dict(source.pods[row]))
            self.host_ports.append(source.host_ports[row])
        if len(rows):
            self.pod_count = source.pod_count.take(rows)
            self.lowest_priority = source.lowest_priority.take(rows)
        for column, of in (
            (self.requested, source.requested),
            (self.non_zero_requested, source.non_zero_requested),
            (self.allocatable, source.allocatable),
        ):
            column.update((name, counts.take(rows)) for name, counts in of.items())

    def add_pods(self, rows: Sequence[int], pods: Sequence[PodInfo]) -> None:
        """Count many pods, each on its row."""
        for row, pod in zip(rows, pods, strict=True):
            on_row = self.pods[row]
            assert pod.uid not in on_row, f"{pod} is on {self.names[row]} already"
            on_row[pod.uid] = pod
            if pod.host_ports:
                self._set_ports(row, self.host_ports[row].union(pod.host_ports))
        changed = np.array(rows, dtype=np.int64)
        self._count_all(changed, pods, 1)
        # Mostly they are pods that were there before; a bound that is too low does no harm.
        self.lowest_priority[changed] = _LOWEST_PRIORITY

    def remove_pods(self, rows: Sequence[int], pods: Sequence[PodInfo]) -> None:
        """Stop counting many pods, each on its row; raises KeyError if one is not there."""
        for row, pod in zip(rows, pods, strict=True):
            on_row = self.pods[row]
            del on_row[pod.uid]
            if pod.host_ports:
                left = (port for other in on_row.values() for port in other.host_ports)
                self._set_ports(row, frozenset(left))
        self._count_all(np.array(rows, dtype=np.int64), pods, -1)

    def _count_all(self, rows: IntArray, pods: Sequence[PodInfo], sign: int) -> None:
        """Add to or subtract from the columns; pods that ask for the same are looked at once."""
        np.add.at(self.pod_count, rows, sign)
        asked_for = [pod.requests for pod in pods]
        distinct = dict.fromkeys(asked_for)
        if len(distinct) == 1:
            (requests,) = distinct
            for name, count in requests.resources.items():
                np.add.at(self._column(self.requested, name), rows, sign * count)
            for name, of in _NON_ZERO:
                np.add.at(self.non_zero_requested[name], rows, sign * of(requests))
            return
        number_of = {requests: n for n, requests in enumerate(distinct)}
        which = np.fromiter(map(number_of.__getitem__, asked_for), np.int64, count=len(asked_for))
        for name in {name for requests in number_of for name in requests.resources}:
            counts = _counts((requests[name] for requests in number_of), sign)
            np.add.at(self._column(self.requested, name), rows, counts.take(which))
        for name, of in _NON_ZERO:
            counts = _counts(map(of, number_of), sign)
            np.add.at(self.non_zero_requested[name], rows, counts.take(which))

    def _set_ports(self, row: int, ports: PortSet) -> None:
        self._ports_changed.add(row)
        super()._set_ports(row, ports)

    def allocatable_bounds(self, name: str) -> tuple[int, int]:
        """Return the bounds of the whole cluster, which no pod changes."""
        return self._source.allocatable_bounds(name)

    def port_column(self) -> Interned[PortSet]:
        """The ports of the nodes these are versions of, but for those rows that have changed."""
        if self._port_column is None:
            rows = np.arange(len(self), dtype=np.int64)
            column = self._source.port_column().rearranged(rows, self._rows, self._capacity)
            for row in self._ports_changed:
                column.set(row, self.host_ports[row] or None)
            self._port_column = column
        return self._port_column

    def derive(self, rule: Callable[[Node], V | None]) -> Interned[V]:
        """What `rule` says of the nodes these are versions of: the node objects are the same."""
        column = self._derived.get(rule)
        if column is None:
            column = self._source.derive(cast("Callable[[Node], Hashable]", rule))
            self._derived[rule] = column = column.gathered(self._rows)
        return cast("Interned[V]", column)


#: Below any priority that a pod can have.
_LOWEST_PRIORITY: Final = -(2**31)


def _non_zero_cpu(requests: PodRequests) -> int:
    return requests.non_zero_cpu


def _non_zero_memory(requests: PodRequests) -> int:
    return requests.non_zero_memory


_NON_ZERO: Final = ((resources.CPU, _non_zero_cpu), (resources.MEMORY, _non_zero_memory))


def _counts(numbers: Iterable[int], sign: int) -> IntArray:
    return np.fromiter(numbers, dtype=np.int64) * sign
