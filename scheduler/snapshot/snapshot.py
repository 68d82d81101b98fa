"""The snapshot: the state of the cluster during one scheduling cycle.

Its table holds the nodes in scheduling order, so that a run of nodes is a slice of every column and
reading all of them copies nothing. Only `update` changes it; the cache calls it at the start of a
cycle.
Source: `pkg/scheduler/backend/cache/snapshot.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.snapshot.columns import Row, Slot
from scheduler.snapshot.images import Image, ImageTable
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.nodes import NodeInfo, Nodes
from scheduler.snapshot.pod_index import PodIndex
from scheduler.snapshot.volume_index import VolumeIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.pod_kind import PodWeight


class NodeNotFoundError(KeyError):
    """The snapshot has no node of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name: Final = name

    def __str__(self) -> str:
        return f'nodeinfo not found for node name "{self.name}"'


class Snapshot:
    """All nodes with their pods, frozen for the length of a scheduling cycle."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self.images: Final = ImageTable()
        self.pod_index: Final = PodIndex()
        self.volume_index: Final = VolumeIndex()
        #: The slot of each node, in scheduling order.
        self._slots: IntArray = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.table)

    def __contains__(self, name: object) -> bool:
        return name in self.table.row_of

    @property
    def names(self) -> Sequence[str]:
        """The names of all nodes, in scheduling order (one of each zone in turn)."""
        return self.table.names

    @property
    def nodes(self) -> Nodes:
        """All nodes, in scheduling order."""
        return Nodes(self.table, slice(0, len(self)), total=len(self), images=self.images)

    def get(self, name: str) -> NodeInfo:
        """Return a node by name; raises `NodeNotFoundError`."""
        return NodeInfo(self.table, self.row(name))

    def row(self, name: str) -> Row:
        """Return the position of a node in scheduling order; raises `NodeNotFoundError`."""
        row = self.table.row_of.get(name)
        if row is None:
            raise NodeNotFoundError(name)
        return row

    @property
    def slots(self) -> IntArray:
        """The slot of each node in the pod indexes, in scheduling order. Do not write to it."""
        return self._slots

    def count_pods(self, weight: PodWeight) -> IntArray:
        """Return the sum of the pods' weights per node, in scheduling order.

        A repeated query costs one copy, whatever the number of pods.
        """
        return self.pod_index.counts(weight).take(self._slots)

    def update(
        self,
        source: NodeTable,
        *,
        changed_rows: Iterable[Row],
        order: Sequence[str] | None,
        images: Mapping[str, Image | None],
    ) -> None:
        """Make the snapshot equal to the cache's table.

        `changed_rows` are rows of `source`. `order` has the names of all nodes if nodes were added
        or deleted, else it is None.
        """
        if order is not None:
            self.table = self.table.rearranged(source, order)
            self.images.forget_rows()
            slots = [Slot(source.row_of[name]) for name in order]
            self.pod_index.keep_only(slots)
            self.volume_index.keep_only(slots)
            for slot, pods in zip(slots, self.table.pods, strict=True):
                self.pod_index.set_pods(slot, pods)
                self.volume_index.set_pods(slot, pods)
            self._slots = np.array(slots, dtype=np.int64)
        else:
            for source_row in changed_rows:
                row = self.table.row_of.get(source.names[source_row])
                if row is not None:
                    slot = Slot(source_row)
                    self.table.copy_row(row, source, source_row)
                    self.pod_index.set_pods(slot, self.table.pods[row])
                    self.volume_index.set_pods(slot, self.table.pods[row])
        self.images.apply(images)
