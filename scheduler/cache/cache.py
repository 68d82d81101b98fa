"""The cache: all nodes, and the pods that are assumed on them or bound to them.

A pod is added when the scheduler assumes it on a node, before it is bound, or when the informer
reports it bound:

      +-------------------------- add ---------------------------+
      |                                                          v
    Initial --assume--> Assumed --add (the informer confirms)--> Added <--+
      ^                    |                                     |   |    | update
      |<------forget-------+                                     |   +----+
      |<------------------------- remove ------------------------+

It is an error to assume a pod twice, to update or remove an assumed pod before it is confirmed or
forgotten, and to move a confirmed pod to another node. An assumed pod does not expire: if the
binding was written, the informer will report it.

A node may be unknown while pods are on it, because its event comes later or it was deleted first.
Its row is kept until its last pod is removed; the snapshot does not contain it.
Source: `pkg/scheduler/backend/cache/{interface,cache}.go`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.cache.node_tree import NodeTree
from scheduler.snapshot.images import ImageStates
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.pod_group_state import PodGroupState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.core import Node, Pod
    from scheduler.snapshot.columns import Row
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot

_log: Final = logging.getLogger(__name__)


class CacheError(Exception):
    """A pod or node is not in the state that the call needs; logged. The text is upstream's."""


class CacheCorruptedError(CacheError):
    """A bound pod has another node than before; upstream's process exits, and so does ours."""


class CacheStatistics(NamedTuple):
    """The size of the cache."""

    nodes: int
    pods: int
    assumed_pods: int


class Cache:
    """Nodes and pods. A method that raises `CacheError` has changed nothing.

    With `generic_workload` (the feature gate) it keeps the state of pod groups as well.
    """

    def __init__(self, *, generic_workload: bool = False) -> None:
        self._generic_workload: Final = generic_workload
        #: The members of each pod group, by the group's `namespace/name`.
        self._pod_groups: Final[dict[str, PodGroupState]] = {}
        #: The nodes as they are now, ahead of the snapshot. Do not write to it.
        self.table: Final = NodeTable()
        self._tree: Final = NodeTree()
        self._images: Final = ImageStates()
        self._pods: Final[dict[str, PodInfo]] = {}
        self._assumed: Final[set[str]] = set()
        # Rows that differ from the snapshot, in order of their first change.
        self._changed_rows: Final[dict[Row, None]] = {}
        self._nodes_changed = False
        # The snapshot that `update_snapshot` fills.
        self._snapshot: Snapshot | None = None

    # Pods.

    def assume_pod(self, pod: PodInfo) -> None:
        """Add a pod to the node in its spec before it is bound there."""
        if _key(pod.pod) in self._pods:
            raise CacheError(f"pod {_named(pod.pod)} is in the cache, so can't be assumed")
        self._add(pod)
        self._assumed.add(pod.uid)
        if (group := self.pod_group_of(pod)) is not None:
            group.assume_pod(pod)

    def forget_pod(self, pod: PodInfo) -> None:
        """Remove an assumed pod that was not bound."""
        cached = self._pods.get(_key(pod.pod))
        if cached is None:
            return
        if cached.spec.node_name != pod.spec.node_name:
            raise CacheError(
                f"pod {_named(pod.pod)} was assumed on {pod.spec.node_name} "
                f"but assigned to {cached.spec.node_name}"
            )
        if pod.uid not in self._assumed:
            raise CacheError(f"pod {_named(pod.pod)} wasn't assumed so cannot be forgotten")
        self._remove(cached)
        if (group := self.pod_group_of(pod)) is not None:
            group.forget_pod(pod.uid)

    def add_pod(self, pod: PodInfo) -> None:
        """Add a bound pod that the informer reported, or confirm an assumed one."""
        cached = self._pods.get(_key(pod.pod))
        if cached is not None and pod.uid not in self._assumed:
            raise CacheError(f"pod {_named(pod.pod)} was already in added state")
        if cached is not None:
            if cached.spec.node_name != pod.spec.node_name:
                _log.warning(
                    "Pod %s was added to node %s, but was assumed on %s",
                    pod.key, pod.spec.node_name, cached.spec.node_name,
                )  # fmt: skip
            self._remove(cached)
            self.remove_pod_group_member(cached)
        self._add(pod)
        self.set_pod_group_member(pod)

    def update_pod(self, old: Pod, pod: PodInfo) -> None:
        """Replace a bound pod; raises `CacheCorruptedError` if its node has changed."""
        cached = self._pods.get(_key(old))
        if cached is None:
            raise CacheError(
                f"pod {_named(old)} is not added to scheduler cache, so cannot be updated"
            )
        if cached.uid in self._assumed:
            raise CacheError(f"assumed pod {_named(old)} should not be updated")
        if cached.spec.node_name != pod.spec.node_name:
            raise CacheCorruptedError(
                f"pod {_named(old)} was updated on node {pod.spec.node_name}, "
                f"but was added to {cached.spec.node_name}"
            )
        self._remove(cached)
        self.remove_pod_group_member(cached)
        self._add(pod)
        self.set_pod_group_member(pod)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a deleted pod; raises `CacheCorruptedError` if its node has changed.

        `pod` may have no node: then its deletion was missed and this is its last known state.
        """
        cached = self._pods.get(_key(pod))
        if cached is None:
            raise CacheError(
                f"pod {_named(pod)} is not found in scheduler cache, so cannot be removed from it"
            )
        if pod.spec.node_name and cached.spec.node_name != pod.spec.node_name:
            raise CacheCorruptedError(
                f"pod {_named(pod)} was removed from node {pod.spec.node_name}, "
                f"but was added to {cached.spec.node_name}"
            )
        self._remove(cached)
        self.remove_pod_group_member(cached)

    def get_pod(self, pod: Pod) -> PodInfo | None:
        """Return the cache's copy of a pod; None if it has none."""
        return self._pods.get(_key(pod))

    def is_assumed_pod(self, pod: Pod) -> bool:
        """True if the pod is assumed and not yet confirmed."""
        return _key(pod) in self._assumed

    # Pod groups.

    def set_pod_group_member(self, pod: PodInfo) -> None:
        """Add a pod to the state of its group, or replace it there; a no-op without a group."""
        if self._generic_workload and (key := pod.pod_group_key):
            self._pod_groups.setdefault(key, PodGroupState()).set_pod(pod)

    def remove_pod_group_member(self, pod: PodInfo) -> None:
        """Remove a deleted pod from the state of its group."""
        if (group := self.pod_group_of(pod)) is not None:
            group.delete_pod(pod.uid)
            if not len(group):
                del self._pod_groups[pod.pod_group_key]

    def pod_group(self, key: str) -> PodGroupState | None:
        """Return the present state of a group, by `namespace/name`. Do not write to it."""
        return self._pod_groups.get(key)

    def pod_group_of(self, pod: PodInfo) -> PodGroupState | None:
        """Return the present state of a pod's group; None if it has no group."""
        return self._pod_groups.get(pod.pod_group_key) if self._pod_groups else None

    # Nodes.

    def add_node(self, node: Node) -> None:
        """Add a node, or update it if it is known.

        The node is compared with the cache's own copy, not with the informer's old object: cache
        and informer may have missed different events.
        """
        row = self._row(node.metadata.name)
        cached = self.table.nodes[row]
        if cached is None:
            self._nodes_changed = True
        else:
            self._images.remove_node(cached)
        self._tree.update_node(cached, node)
        self._images.add_node(node)
        self.table.set_node(row, node)
        self._changed_rows[row] = None

    def remove_node(self, node: Node) -> None:
        """Remove a node; its row is kept while pods are on it."""
        row = self.table.row_of.get(node.metadata.name)
        cached = self.table.nodes[row] if row is not None else None
        if row is None or cached is None:
            raise CacheError(f"node {node.metadata.name} is not found")
        self._tree.remove_node(cached)
        self._images.remove_node(cached)
        self.table.set_node(row, None)
        self._nodes_changed = True
        self._free_row_if_unused(row)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All known nodes, by name."""
        return {node.metadata.name: node for node in self.table.nodes if node is not None}

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """All pods by uid, assumed ones included."""
        return dict(self._pods)

    # The whole.

    def update_snapshot(self, snapshot: Snapshot) -> None:
        """Bring the snapshot up to date; called at the start of a scheduling cycle.

        Each call must pass the same snapshot. Changed rows are copied. The order of the nodes is
        computed again only when nodes were added or deleted; until then a node whose zone has
        changed keeps its position, as it does upstream.
        """
        assert self._snapshot is None or self._snapshot is snapshot, "a cache fills one snapshot"
        self._snapshot = snapshot
        order = self._tree.list() if self._nodes_changed else None
        snapshot.update(
            self.table,
            changed_rows=self._changed_rows,
            order=order,
            images=self._images.take_changes(),
        )
        self._changed_rows.clear()
        self._nodes_changed = False

    def statistics(self) -> CacheStatistics:
        """Return the numbers of nodes, pods and assumed pods."""
        return CacheStatistics(len(self._tree), len(self._pods), len(self._assumed))

    def check(self) -> None:
        """Verify every invariant; raises AssertionError. For tests: it looks at everything."""
        on_rows = {uid: pod for pods in self.table.pods for uid, pod in pods.items()}
        assert on_rows == self._pods, "pods on rows and pods by uid differ"
        assert self._assumed <= self._pods.keys(), "assumed pods that are unknown"
        for name, row in self.table.row_of.items():
            assert self.table.names[row] == name, f"row {row} is not {name}'s"
            assert self.table.nodes[row] is not None or self.table.pods[row], (
                f"unused row of {name}"
            )
        assert sorted(self._tree.list()) == sorted(self.nodes), "tree and table differ"
        self.table.check()

    def _add(self, pod: PodInfo) -> None:
        row = self._row(pod.spec.node_name)
        self.table.add_pod(row, pod)
        # Looked up pod by pod as they come: the first snapshot needs the kinds of all in one step.
        _ = pod.kind
        self._pods[pod.uid] = pod
        self._changed_rows[row] = None

    def _remove(self, pod: PodInfo) -> None:
        row = self.table.row_of[pod.spec.node_name]
        self.table.remove_pod(row, pod.uid)
        del self._pods[pod.uid]
        self._assumed.discard(pod.uid)
        self._changed_rows[row] = None
        self._free_row_if_unused(row)

    def _row(self, name: str) -> Row:
        row = self.table.row_of.get(name)
        return self.table.add_row(name) if row is None else row

    def _free_row_if_unused(self, row: Row) -> None:
        if self.table.nodes[row] is None and not self.table.pods[row]:
            self.table.free_row(row)
            self._changed_rows.pop(row, None)


def _key(pod: Pod) -> str:
    if not pod.metadata.uid:
        raise CacheError("cannot get cache key for pod with empty UID")
    return pod.metadata.uid


def _named(pod: Pod) -> str:
    return f"{pod.metadata.uid}({pod.key})"
