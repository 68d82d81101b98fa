"""VolumeRestrictions: reject nodes where the pod's volumes conflict with other pods' volumes.

Two pods on a node cannot both mount certain inline disks, unless both mount them read-only. A
ReadWriteOncePod claim can be used by one pod of the whole cluster.
Mirrors `pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go`, v1.36.3.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from scheduler.api.core import Node, Pod
from scheduler.api.storage import PersistentVolumeClaim
from scheduler.api.volumes import Disk, disk_conflicts
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin
from scheduler.framework.status import (
    Rejections,
    Status,
    reject_by,
    skip,
    unresolvable,
    unschedulable,
)
from scheduler.plugins._queueing_hints import queue_for_named_claim, volumes_and_namespace
from scheduler.snapshot.claims_and_disks import volumes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.snapshot.columns import BoolArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo

_NO_AVAILABLE_DISK: Final = unschedulable("node(s) had no available disk")
_CLAIM_IN_USE: Final = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
_READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"


class _OncePodClaims:
    """The pod's ReadWriteOncePod claims, and the number of claims in use.

    `in_use` counts them in the cluster as it is. `changes`, by the `base_row` of a node, is the
    difference in a dry run that adds or removes pods of this node.
    """

    def __init__(self, names: frozenset[str], in_use: int, changes: Mapping[int, int]) -> None:
        self.names: Final = names
        self.in_use: Final = in_use
        self.changes: Final = Counter(changes)

    def clone(self) -> Self:
        return type(self)(self.names, self.in_use, self.changes)

    def change(self, node: NodeInfo, other: PodInfo, sign: int) -> None:
        """Add (1) or remove (-1) a pod. Its namespace is not checked, as upstream."""
        users = sum(name in self.names for name in other.volumes.claims)
        if users:
            self.changes[node.base_row] += sign * users

    def in_use_for(self, nodes: Nodes) -> BoolArray:
        """Return the nodes in whose dry run a claim is in use."""
        in_use = np.full(len(nodes), self.in_use, dtype=np.int64)
        if self.changes:
            in_use += np.array([self.changes[row] for row in nodes.base_rows.tolist()])
        return in_use > 0


_CLAIMS: Final = StateKey[_OncePodClaims](
    "PreFilterVolumeRestrictions", 'cannot read "{}" from cycleState'
)


class VolumeRestrictions(Plugin):
    """Keep pods off nodes where their volumes conflict with other pods' volumes."""

    ignores_resizes = True
    reads = ("persistentvolumeclaims",)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip pods with neither inline disks nor a ReadWriteOncePod claim in use."""
        names: set[str] = set()
        for name in pod.volumes.claims:
            claim = self.handle.lister(PersistentVolumeClaim).get(name, pod.namespace)
            if claim is None:
                return unresolvable(f'persistentvolumeclaim "{name}" not found')
            if _READ_WRITE_ONCE_POD in claim.spec.access_modes:
                names.add(name)
        index = self.handle.snapshot.volume_index
        in_use = sum(index.claim_users(pod.namespace, name) > 0 for name in names)
        if not in_use and not pod.volumes.disks:
            return skip()
        state.write(_CLAIMS, _OncePodClaims(frozenset(names), in_use, {}))
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes with a conflicting disk, and all nodes while a claim is in use."""
        mounted = self._conflicting(pod.volumes.disks, nodes)
        return reject_by(
            (mounted, _NO_AVAILABLE_DISK), (state.read(_CLAIMS).in_use_for(nodes), _CLAIM_IN_USE)
        )

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        state.read(_CLAIMS).change(node, added, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        state.read(_CLAIMS).change(node, removed, -1)

    def _conflicting(self, disks: Iterable[Disk], nodes: Nodes) -> BoolArray:
        """Return the nodes with a pod whose disks conflict with one of the disks."""
        if not disks:
            return np.zeros(len(nodes), dtype=np.bool_)
        snapshot = self.handle.snapshot
        if nodes.table is not snapshot.table:
            # A dry run has few nodes, and few pods have inline disks.
            return np.array([_conflict(disks, node.pods) for node in nodes], dtype=np.bool_)
        slots = snapshot.volume_index.slots_without_room_for(disks)
        return np.isin(snapshot.slots[nodes.base_rows], list(slots))

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [
            *self.on_pods(self.is_schedulable_after_pod_deleted, assigned=ActionType.DELETE),
            on(Node, ActionType.ADD),
            on(PersistentVolumeClaim, ActionType.ADD, queue_for_named_claim),
        ]

    def is_schedulable_after_pod_deleted(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the deleted pod, of the same namespace, used a disk or claim of this pod.

        Disks have no namespaces; upstream ignores pods of other namespaces all the same.
        """
        deleted, _ = as_kind(Pod, old, new)
        if deleted is None or deleted.metadata.namespace != pod.namespace:
            return QueueingHint.QUEUE_SKIP
        freed, wanted = volumes_of(deleted), pod.volumes
        if any(disk_conflicts(disk, freed.disks) for disk in wanted.disks):
            return QueueingHint.QUEUE
        return QueueingHint(any(claim in wanted.claims for claim in freed.claims))

    hints_depend_on = staticmethod(volumes_and_namespace)


def _conflict(disks: Iterable[Disk], pods: Iterable[PodInfo]) -> bool:
    mounted = [disk for pod in pods for disk in pod.volumes.disks]
    return any(disk_conflicts(disk, mounted) for disk in disks)
