"""The snapshot: the state of the cluster during one scheduling cycle.

Its table holds the nodes in scheduling order, so that a run of nodes is a slice of every column and
reading all of them copies nothing. `update` makes it equal to the cache, at the start of a cycle.
The cycle of a pod group then assumes members in the snapshot alone, and forgets all of them before
it ends.
Source: `pkg/scheduler/backend/cache/snapshot.go`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.snapshot.columns import Row, Slot
from scheduler.snapshot.images import Image, ImageTable
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.nodes import NodeInfo, Nodes
from scheduler.snapshot.pod_index import PodIndex
from scheduler.snapshot.volume_index import VolumeIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.pod_group_state import PodGroupState
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.pod_kind import PodWeight


class NodeNotFoundError(KeyError):
    """The snapshot has no node of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name: Final = name

    def __str__(self) -> str:
        return f'nodeinfo not found for node name "{self.name}"'


class Snapshot:
    """All nodes with their pods, as of the start of a scheduling cycle."""

    def __init__(self) -> None:
        #: The state of the pod group that is being scheduled, by `namespace/name`.
        self.pod_groups: Final[dict[str, PodGroupState]] = {}
        #: The rows that the current placement consists of; None for all.
        self._placement: IntArray | None = None
        self.table = NodeTable()
        self.images: Final = ImageTable()
        self.pod_index: Final = PodIndex()
        self.volume_index: Final = VolumeIndex()
        #: The slot of each node in the pod indexes, in scheduling order. Do not write to it.
        self.slots: IntArray = np.zeros(0, dtype=np.int64)

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

    @property
    def nodes_in_placement(self) -> Nodes:
        """The nodes to search: the nodes of the placement, in scheduling order, or all nodes."""
        if self._placement is None:
            return self.nodes
        return self.nodes.take(self._placement)

    def rows_in_placement(self, names: Iterable[str]) -> list[Row]:
        """Return the rows of the nodes of these names that are in the current placement."""
        rows = [self.table.row_of[name] for name in names if name in self.table.row_of]
        if self._placement is None:
            return rows
        return [row for row in rows if row in self._placement]

    @contextlib.contextmanager
    def placement(self, nodes: Nodes) -> Iterator[None]:
        """Narrow the search to these nodes, for the length of a `with` block."""
        self._placement = nodes.row_array if len(nodes) < len(self) else None
        try:
            yield
        finally:
            self._placement = None

    def get(self, name: str) -> NodeInfo:
        """Return a node by name; raises `NodeNotFoundError`."""
        return NodeInfo(self.table, self.row(name))

    def row(self, name: str) -> Row:
        """Return the position of a node in scheduling order; raises `NodeNotFoundError`."""
        row = self.table.row_of.get(name)
        if row is None:
            raise NodeNotFoundError(name)
        return row

    def count_pods(self, weight: PodWeight) -> IntArray:
        """Return the sum of the pods' weights per node, in scheduling order.

        A repeated query costs one copy, whatever the number of pods.
        """
        return self.pod_index.counts(weight).take(self.slots)

    # The cycle of a pod group.

    def assume_pod(self, pod: PodInfo) -> None:
        """Add a pod to its node, until `forget_pod`. Raises `NodeNotFoundError`."""
        self.add_pod(pod)
        if (group := self.pod_groups.get(pod.pod_group_key)) is not None:
            group.assume_pod(pod)

    def forget_pod(self, pod: PodInfo) -> None:
        """Remove a pod that was assumed here."""
        self.remove_pod(pod)
        if (group := self.pod_groups.get(pod.pod_group_key)) is not None:
            group.forget_pod(pod.uid)

    def add_pod(self, pod: PodInfo) -> None:
        """Put a pod that `remove_pod` has removed back on its node."""
        row = self._own_pods(pod.spec.node_name)
        self.table.add_pod(row, pod)
        self._index_pods(row)

    def remove_pod(self, pod: PodInfo) -> None:
        """Remove a pod from its node, to see if a group fits without it."""
        self.remove_pods(pod.spec.node_name, (pod,))

    def remove_pods(self, node_name: str, pods: Iterable[PodInfo]) -> None:
        """Remove pods from their node, one after another."""
        row = self._own_pods(node_name)
        for pod in pods:
            self.table.remove_pod(row, pod.uid)
        self._index_pods(row)

    @contextlib.contextmanager
    def unchanged_pods(self) -> Iterator[None]:
        """Put all pods back on their nodes, in their order, at the end of a `with` block."""
        before = self.pods_by_row()
        try:
            yield
        finally:
            for _ in self.restoring(before):
                pass

    def pods_by_row(self) -> list[dict[str, PodInfo]]:
        """Return the pods of all nodes as they are now, for `restoring`."""
        return list(self.table.pods)

    def restoring(self, before: Sequence[dict[str, PodInfo]]) -> Iterator[None]:
        """Put all pods back on their nodes, in their order; yields after each node."""
        for row, pods in enumerate(before):
            if self.table.pods[row] is not pods:
                self._restore(Row(row), pods)
                yield

    def _restore(self, row: Row, pods: dict[str, PodInfo]) -> None:
        self._own_pods(self.names[row])
        for uid in reversed([*self.table.pods[row]]):
            self.table.remove_pod(row, uid)
        for pod in pods.values():
            self.table.add_pod(row, pod)
        self._index_pods(row)

    def _own_pods(self, node_name: str) -> Row:
        """Give a node's row a dictionary of pods that may be changed; return the row."""
        row = self.row(node_name)
        self.table.pods[row] = dict(self.table.pods[row])
        return row

    def _index_pods(self, row: Row) -> None:
        """Update the indexes of pods after a change of a row."""
        slot, pods = Slot(self.slots.item(row)), self.table.pods[row]
        self.pod_index.set_pods(slot, pods)
        self.volume_index.set_pods(slot, pods)

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
            self.slots = np.array(slots, dtype=np.int64)
            for number in range(len(slots)):
                self._index_pods(Row(number))
        else:
            for source_row in changed_rows:
                row = self.table.row_of.get(source.names[source_row])
                if row is not None:
                    self.table.copy_row(row, source, source_row)
                    self._index_pods(row)
        self.images.apply(images)
