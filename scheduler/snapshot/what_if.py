"""Hypothetical nodes: what a node would be with pods added or taken away.

A what-if is a small node table of its own, so that plugins look at hypothetical rows through the
same `Nodes` as at real ones, and nothing they see can leak into the snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.nodes import NodeInfo, Nodes

if TYPE_CHECKING:
    from scheduler.snapshot.pod_info import PodInfo

__all__ = ["WhatIf"]


class WhatIf:
    """Copies of some nodes, hypothetical ones maybe, in the same order, to be changed at will.

    They know their labels, taints, pods and counts, but nothing of images.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._table: Final = NodeTable(len(nodes))
        self._total: Final = nodes.total
        self._base_rows: Final = nodes.base_rows
        for name, row in zip(nodes.names, nodes.rows, strict=True):
            self._table.copy_row(self._table.add_row(name), nodes.table, row)

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
