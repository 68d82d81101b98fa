"""The cache: all nodes, and the pods that are on them or will be.

A pod enters it when the scheduler assumes it on a node, before the API server has heard of it, or
when the informer reports it bound:

      +-------------------------- add ---------------------------+
      |                                                          v
    Initial --assume--> Assumed --add (the informer confirms)--> Added <--+
      ^                    |                                     |   |    | update
      |<------forget-------+                                     |   +----+
      |<------------------------- remove ------------------------+

This rests on three assumptions: no pod is assumed twice; an assumed pod sees no update or removal
before it is confirmed or forgotten; a confirmed pod never changes its node. An assumed pod does not
expire: if the binding was written, the informer will say so.

A node may be unknown while pods are on it, because its event comes later or has come already; such
a ghost is kept until its last pod is gone, and no snapshot shows it.
Source: `pkg/scheduler/backend/cache/{interface,cache}.go`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.cache.errors import CacheCorruptedError, CacheError
from scheduler.cache.node_tree import NodeTree
from scheduler.snapshot.images import ImageStates
from scheduler.snapshot.node_table import NodeTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.core import Node, Pod
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot

_log: Final = logging.getLogger(__name__)


class CacheStatistics(NamedTuple):
    """How much the cache holds."""

    nodes: int
    pods: int
    assumed_pods: int


class Cache:
    """Every method is one step: it either happens or raises `CacheError` and changes nothing."""

    def __init__(self) -> None:
        self._table: Final = NodeTable()
        self._tree: Final = NodeTree()
        self._images: Final = ImageStates()
        self._pods: Final[dict[str, PodInfo]] = {}
        self._assumed: Final[set[str]] = set()
        # Rows that differ from the snapshot, in the order in which they first did.
        self._changed_rows: Final[dict[int, None]] = {}
        self._nodes_changed = False
        # The one that all this is the difference to.
        self._snapshot: Snapshot | None = None

    # Pods.

    def assume_pod(self, pod: PodInfo) -> None:
        """Count a pod on the node in its spec, though it is not bound there yet."""
        if _key(pod.pod) in self._pods:
            raise CacheError(f"pod {_named(pod.pod)} is in the cache, so can't be assumed")
        self._add(pod)
        self._assumed.add(pod.uid)

    def forget_pod(self, pod: PodInfo) -> None:
        """Stop counting an assumed pod: it was not bound after all."""
        known = self._pods.get(_key(pod.pod))
        if known is None:
            return
        if known.spec.node_name != pod.spec.node_name:
            raise CacheError(
                f"pod {_named(pod.pod)} was assumed on {pod.spec.node_name} "
                f"but assigned to {known.spec.node_name}"
            )
        if pod.uid not in self._assumed:
            raise CacheError(f"pod {_named(pod.pod)} wasn't assumed so cannot be forgotten")
        self._remove(known)

    def add_pod(self, pod: PodInfo) -> None:
        """Take in a bound pod that the informer has reported, assumed before or not."""
        known = self._pods.get(_key(pod.pod))
        if known is not None and pod.uid not in self._assumed:
            raise CacheError(f"pod {_named(pod.pod)} was already in added state")
        if known is not None:
            if known.spec.node_name != pod.spec.node_name:
                _log.warning(
                    "Pod %s was added to node %s, but was assumed on %s",
                    pod.key, pod.spec.node_name, known.spec.node_name,
                )  # fmt: skip
            self._remove(known)
        self._add(pod)

    def update_pod(self, old: Pod, pod: PodInfo) -> None:
        """Take in a change of a bound pod; raises `CacheCorruptedError` if it has moved."""
        known = self._pods.get(_key(old))
        if known is None:
            raise CacheError(
                f"pod {_named(old)} is not added to scheduler cache, so cannot be updated"
            )
        if known.uid in self._assumed:
            raise CacheError(f"assumed pod {_named(old)} should not be updated")
        if known.spec.node_name != pod.spec.node_name:
            raise CacheCorruptedError(
                f"pod {_named(old)} was updated on node {pod.spec.node_name}, "
                f"but was added to {known.spec.node_name}"
            )
        self._remove(known)
        self._add(pod)

    def remove_pod(self, pod: Pod) -> None:
        """Stop counting a pod that is gone; raises `CacheCorruptedError` if it had moved.

        A last known state without a node (its deletion was missed) is no contradiction.
        """
        known = self._pods.get(_key(pod))
        if known is None:
            raise CacheError(
                f"pod {_named(pod)} is not found in scheduler cache, so cannot be removed from it"
            )
        if pod.spec.node_name and known.spec.node_name != pod.spec.node_name:
            raise CacheCorruptedError(
                f"pod {_named(pod)} was removed from node {pod.spec.node_name}, "
                f"but was added to {known.spec.node_name}"
            )
        self._remove(known)

    def get_pod(self, pod: Pod) -> PodInfo | None:
        """The cache's view of a pod, None if it holds none."""
        return self._pods.get(_key(pod))

    def is_assumed_pod(self, pod: Pod) -> bool:
        """Whether the pod is counted but not yet confirmed."""
        return _key(pod) in self._assumed

    # Nodes.

    def add_node(self, node: Node) -> None:
        """Take in a new node, or one whose pods came first; one already known is updated."""
        self._set_node(node)

    def update_node(self, node: Node) -> None:
        """Take in a change of a node; one that was unknown, or a ghost, is added.

        What counts as changed is what differs from the cache's own record, not from what an
        informer held before: the two may have missed different events.
        """
        self._set_node(node)

    def remove_node(self, node: Node) -> None:
        """Forget a node; while pods are left on it, it stays as a ghost."""
        row = self._table.row_of.get(node.metadata.name)
        known = self._table.nodes[row] if row is not None else None
        if row is None or known is None:
            raise CacheError(f"node {node.metadata.name} is not found")
        self._tree.remove_node(known)
        self._images.remove_node(known)
        self._table.set_node(row, None)
        self._nodes_changed = True
        self._drop_ghost_without_pods(row)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes known, by name."""
        return {node.metadata.name: node for node in self._table.nodes if node is not None}

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """The pods counted, by uid, those assumed included."""
        return dict(self._pods)

    # The whole.

    def update_snapshot(self, snapshot: Snapshot) -> None:
        """Bring the snapshot up to date; called at the start of a scheduling cycle.

        It must be the same snapshot each time. Costs little when little has changed: changed rows
        are copied; only nodes that come or go cause the order to be worked out again, and until
        then a node that has changed its zone keeps its place (likewise upstream).
        """
        assert self._snapshot is None or self._snapshot is snapshot, "a cache fills one snapshot"
        self._snapshot = snapshot
        order = self._tree.list() if self._nodes_changed else None
        snapshot.update(
            self._table,
            changed_rows=self._changed_rows,
            order=order,
            images=self._images.take_changes(),
        )
        self._changed_rows.clear()
        self._nodes_changed = False

    def statistics(self) -> CacheStatistics:
        """How much there is."""
        return CacheStatistics(len(self._tree), len(self._pods), len(self._assumed))

    def check(self) -> None:
        """Verify every invariant; raises AssertionError. For tests: it looks at everything."""
        on_rows = {uid: pod for pods in self._table.pods for uid, pod in pods.items()}
        assert on_rows == self._pods, "pods on rows and pods by uid differ"
        assert self._assumed <= self._pods.keys(), "assumed pods that are unknown"
        for name, row in self._table.row_of.items():
            assert self._table.names[row] == name, f"row {row} is not {name}'s"
            assert self._table.nodes[row] is not None or self._table.pods[row], f"idle ghost {name}"
        assert sorted(self._tree.list()) == sorted(self.nodes), "tree and table differ"
        self._table.check()

    def _set_node(self, node: Node) -> None:
        row = self._row(node.metadata.name)
        known = self._table.nodes[row]
        if known is None:
            self._nodes_changed = True
        else:
            self._images.remove_node(known)
        self._tree.update_node(known, node)
        self._images.add_node(node)
        self._table.set_node(row, node)
        self._changed_rows[row] = None

    def _add(self, pod: PodInfo) -> None:
        row = self._row(pod.spec.node_name)
        self._table.add_pod(row, pod)
        self._pods[pod.uid] = pod
        self._changed_rows[row] = None

    def _remove(self, pod: PodInfo) -> None:
        row = self._table.row_of[pod.spec.node_name]
        self._table.remove_pod(row, pod.uid)
        del self._pods[pod.uid]
        self._assumed.discard(pod.uid)
        self._changed_rows[row] = None
        self._drop_ghost_without_pods(row)

    def _row(self, name: str) -> int:
        row = self._table.row_of.get(name)
        return self._table.add_row(name) if row is None else row

    def _drop_ghost_without_pods(self, row: int) -> None:
        if self._table.nodes[row] is None and not self._table.pods[row]:
            self._table.free_row(row)
            self._changed_rows.pop(row, None)


def _key(pod: Pod) -> str:
    if not pod.metadata.uid:
        raise CacheError("cannot get cache key for pod with empty UID")
    return pod.metadata.uid


def _named(pod: Pod) -> str:
    return f"{pod.metadata.uid}({pod.key})"
