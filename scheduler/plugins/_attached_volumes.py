"""How many volumes each driver has attached to each node, and how many it may.

What is attached follows from pods, claims, volumes, classes and attachments, of which in a large
cluster there are hundreds of thousands, and of which few change from one pod to the next. So an
account is kept for each node, with all that was looked up for it; when any of that changes, the
node's account is made anew, and no other:

    pods of a node ----\\
    claims, volumes,    >--> account of the node --> attached[driver][slot], holders[volume]
    classes looked up  /
    attachments ------/
    CSINode ------------------------------------> limits[driver][slot]

Nodes are known by slot (`Snapshot.slots`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

import numpy as np

from scheduler.plugins._csi_volumes import (
    CLAIMS,
    CLASSES,
    VOLUMES,
    AttachableVolumeError,
    CsiVolume,
    CsiVolumes,
    Lookup,
)
from scheduler.snapshot.columns import BoolArray, IntArray, grown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from scheduler.api.storage import CSINode, VolumeAttachment
    from scheduler.framework.handle import Handle
    from scheduler.snapshot.node_table import NodeTable
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

__all__ = ["ATTACHMENTS", "CSI_NODES", "AttachedVolumes"]

K = TypeVar("K", CsiVolume, Lookup)

ATTACHMENTS: Final = "volumeattachments"
CSI_NODES: Final = "csinodes"

#: In place of a limit: the driver is on the node, and may attach as many as it likes.
_NO_LIMIT: Final = -1
#: In place of a limit: the driver is not on the node.
_NOT_INSTALLED: Final = -2

_CAPACITY_MIN: Final = 16
_NOTHING: Final[frozenset[CsiVolume]] = frozenset()


class _Account(NamedTuple):
    """The volumes of one node."""

    #: By the pods' uids; an error where a pod's volumes cannot be told.
    by_pod: Mapping[str, frozenset[CsiVolume] | AttachableVolumeError]
    #: By VolumeAttachments.
    attached: frozenset[CsiVolume]
    #: What all this was made from.
    lookups: frozenset[Lookup]

    @property
    def of_pods(self) -> frozenset[CsiVolume]:
        """Those of all pods that can be told."""
        found = (v for v in self.by_pod.values() if not isinstance(v, AttachableVolumeError))
        return _NOTHING.union(*found)

    @property
    def error(self) -> AttachableVolumeError | None:
        """Why the volumes of one of the pods cannot be told."""
        errors = (v for v in self.by_pod.values() if isinstance(v, AttachableVolumeError))
        return next(errors, None)


class AttachedVolumes:
    """The accounts of all nodes. `refresh` at the start of a cycle, then ask."""

    def __init__(self, handle: Handle, volumes: CsiVolumes) -> None:
        self._handle: Final = handle
        self._volumes: Final = volumes
        self._accounts: Final[dict[int, _Account]] = {}
        self._dependents: Final[dict[Lookup, set[int]]] = {}
        self._errors: Final[dict[int, AttachableVolumeError]] = {}
        #: By node and by name; and the node of each.
        self._attachments: Final[dict[str, dict[str, VolumeAttachment]]] = {}
        self._attached_to: Final[dict[str, str]] = {}
        self._attached: Final[dict[str, IntArray]] = {}
        self._holders: Final[dict[CsiVolume, set[int]]] = {}
        self._limits: Final[dict[str, IntArray]] = {}
        self._drivers: Final[dict[int, tuple[str, ...]]] = {}
        self._has_csi_node: BoolArray = np.zeros(_CAPACITY_MIN, dtype=np.bool_)
        self._has_limits: BoolArray = np.zeros(_CAPACITY_MIN, dtype=np.bool_)
        self._table: NodeTable | None = None
        self._name_of: dict[int, str] = {}
        self._slot_of: dict[str, int] = {}
        self._pods_version = 0
        self._cursors: Final[dict[str, int]] = {}

    # Asking. All arrays have an entry for each node in view.

    def has_csi_node(self, nodes: Nodes) -> BoolArray:
        """Which nodes have a CSINode."""
        return self._has_csi_node[self._slots(nodes)]

    def lacks_driver(self, driver: str, nodes: Nodes) -> BoolArray:
        """Which nodes' CSINodes, if there are any, do not know a driver."""
        limits = self._limits.get(driver)
        if limits is None:
            return np.ones(len(nodes), dtype=np.bool_)
        lacking: BoolArray = limits[self._slots(nodes)] == _NOT_INSTALLED
        return lacking

    def have_no_room_for(self, wanted: frozenset[CsiVolume], nodes: Nodes) -> BoolArray:
        """Which nodes would have more volumes of a driver than they may, with these on top.

        A volume that a pod has on the node already is not attached twice. One that only a
        VolumeAttachment mentions counts twice: upstream counts it so.
        Raises `AttachableVolumeError` if that cannot be told for a node with limits.
        """
        slots = self._slots(nodes)
        supposed = {
            position: self._supposed(int(slots[position]), pods)
            for position, pods in self._changed_pods(nodes)
            if self._has_limits[slots[position]]
        }
        self._raise_errors(slots, except_at=supposed)
        exceeded = np.zeros(len(nodes), dtype=np.bool_)
        for driver in {volume.driver for volume in wanted}:
            limits = self._limits.get(driver)
            if limits is None:
                continue
            volumes = {volume for volume in wanted if volume.driver == driver}
            new = np.full(len(nodes), len(volumes), dtype=np.int64)
            for volume in volumes:
                new -= np.isin(slots, list(self._holders.get(volume, ())))
            attached = self._counts(driver)[slots]
            for position, (of_pods, all_volumes) in supposed.items():
                new[position] = len(volumes - of_pods)
                attached[position] = sum(volume.driver == driver for volume in all_volumes)
            limit = limits[slots]
            exceeded |= (limit >= 0) & (new > 0) & (attached + new > limit)
        return exceeded

    def _slots(self, nodes: Nodes) -> IntArray:
        return self._handle.snapshot.slots[nodes.base_rows]

    def _changed_pods(self, nodes: Nodes) -> Iterator[tuple[int, Mapping[str, PodInfo]]]:
        """Where hypothetical nodes have other pods than the ones they are versions of, and which.

        Nodes of the snapshot are what they are.
        """
        base = self._handle.snapshot.table
        if nodes.table is base:
            return
        rows = zip(nodes.rows, nodes.base_rows.tolist(), strict=True)
        for position, (row, base_row) in enumerate(rows):
            pods = nodes.table.pods[row]
            if pods.keys() != base.pods[base_row].keys():
                yield position, pods

    def _supposed(
        self, slot: int, pods: Mapping[str, PodInfo]
    ) -> tuple[frozenset[CsiVolume], frozenset[CsiVolume]]:
        """The volumes that a node's pods would have if they were these, and all volumes there."""
        account = self._accounts.get(slot)
        known = account.by_pod if account is not None else {}
        sets: list[frozenset[CsiVolume]] = []
        for uid, pod in pods.items():
            if not pod.volumes.may_be_attached:
                continue
            found = known.get(uid)
            if found is None:
                found = self._volumes.of_running_pod(pod.pod, set())
            if isinstance(found, AttachableVolumeError):
                raise found
            sets.append(found)
        of_pods = _NOTHING.union(*sets)
        return of_pods, of_pods | account.attached if account is not None else of_pods

    def _raise_errors(self, slots: IntArray, *, except_at: Collection[int]) -> None:
        if not self._errors:
            return
        for position, slot in enumerate(slots.tolist()):
            if slot in self._errors and self._has_limits[slot] and position not in except_at:
                raise self._errors[slot]

    # Keeping up.

    def refresh(self) -> None:
        """Take in everything that has changed since the last time."""
        stale = self._changed_nodes()
        index = self._handle.snapshot.volume_index
        stale.update(index.changed_since(self._pods_version))
        self._pods_version = index.version
        for plural in (CLAIMS, VOLUMES, CLASSES):
            keys = self._changes(plural)
            if keys is None:
                stale.update(self._name_of)
            else:
                for key in keys:
                    stale.update(self._dependents.get((plural, key), ()))
        stale.update(self._changed_attachments())
        for slot in stale:
            self._account_for(slot)

    def _changes(self, plural: str) -> Collection[str] | None:
        cursor = self._cursors.get(plural, -1)
        self._cursors[plural], keys = self._handle.lister(plural).changes_since(cursor)
        return keys

    def _changed_nodes(self) -> set[int]:
        """Learn which node has which slot; returns slots that have another node, or none, now."""
        snapshot = self._handle.snapshot
        changed: set[int] = set()
        if snapshot.table is not self._table:
            self._table = snapshot.table
            before = self._name_of
            self._name_of = dict(zip(snapshot.slots.tolist(), snapshot.names, strict=True))
            self._slot_of = {name: slot for slot, name in self._name_of.items()}
            slots = before.keys() | self._name_of.keys()
            changed = {slot for slot in slots if before.get(slot) != self._name_of.get(slot)}
            self._make_room(max(slots, default=0) + 1)
        csi_nodes = self._changes(CSI_NODES)
        names = self._slot_of if csi_nodes is None else csi_nodes
        for slot in changed.union(self._slots_of(names)):
            self._learn_limits(slot)
        return changed

    def _slots_of(self, names: Iterable[str]) -> Iterator[int]:
        return (self._slot_of[name] for name in names if name in self._slot_of)

    def _make_room(self, capacity: int) -> None:
        if capacity <= len(self._has_csi_node):
            return
        capacity *= 2
        self._has_csi_node = grown(self._has_csi_node, capacity)
        self._has_limits = grown(self._has_limits, capacity)
        for driver, counts in self._attached.items():
            self._attached[driver] = grown(counts, capacity)
        for driver, limits in self._limits.items():
            self._limits[driver] = grown(limits, capacity, fill=_NOT_INSTALLED)

    def _learn_limits(self, slot: int) -> None:
        for name in self._drivers.pop(slot, ()):
            self._limits[name][slot] = _NOT_INSTALLED
        self._has_csi_node[slot] = self._has_limits[slot] = False
        node = self._name_of.get(slot)
        found = self._handle.lister(CSI_NODES).get(node) if node is not None else None
        if found is None:
            return
        self._has_csi_node[slot] = True
        drivers = cast("CSINode", found).spec.drivers
        self._drivers[slot] = tuple(driver.name for driver in drivers)
        for driver in drivers:
            count = driver.allocatable.count if driver.allocatable is not None else None
            if driver.name not in self._limits:
                capacity = len(self._has_csi_node)
                self._limits[driver.name] = np.full(capacity, _NOT_INSTALLED, dtype=np.int64)
            self._limits[driver.name][slot] = _NO_LIMIT if count is None else count
            self._has_limits[slot] |= count is not None

    def _changed_attachments(self) -> set[int]:
        """Sort VolumeAttachments by node; returns the slots of nodes where any is new or gone."""
        names = self._changes(ATTACHMENTS)
        lister = self._handle.lister(ATTACHMENTS)
        if names is None:
            listed = cast("Iterable[VolumeAttachment]", lister.list())
            names = {a.metadata.name for a in listed} | self._attached_to.keys()
        changed: set[str] = set()
        for name in names:
            old = self._attached_to.pop(name, None)
            if old is not None:
                del self._attachments[old][name]
                if not self._attachments[old]:
                    del self._attachments[old]
                changed.add(old)
            found = lister.get(name)
            if found is not None:
                attachment = cast("VolumeAttachment", found)
                node = attachment.spec.node_name
                self._attachments.setdefault(node, {})[name] = attachment
                self._attached_to[name] = node
                changed.add(node)
        return set(self._slots_of(changed))

    # Accounts.

    def _account_for(self, slot: int) -> None:
        """Make a node's account, in place of the one there was."""
        old = self._accounts.pop(slot, None)
        if old is not None:
            self._enter(slot, old, -1)
        name = self._name_of.get(slot)
        if name is None:
            return
        account = self._account(name)
        if account.by_pod or account.lookups:
            self._accounts[slot] = account
            self._enter(slot, account, 1)

    def _account(self, name: str) -> _Account:
        snapshot = self._handle.snapshot
        lookups: set[Lookup] = set()
        by_pod: dict[str, frozenset[CsiVolume] | AttachableVolumeError] = {}
        for uid, pod in snapshot.table.pods[snapshot.row(name)].items():
            if pod.volumes.may_be_attached:
                try:
                    by_pod[uid] = self._volumes.of_running_pod(pod.pod, lookups)
                except AttachableVolumeError as error:
                    by_pod[uid] = error
        attached: set[CsiVolume] = set()
        for attachment in self._attachments.get(name, {}).values():
            volume_name = attachment.spec.source.persistent_volume_name
            if volume_name is None:
                continue
            volume = self._volumes.attached(attachment.spec.attacher, volume_name, lookups)
            if volume is not None:
                attached.add(volume)
        return _Account(by_pod, frozenset(attached), frozenset(lookups))

    def _enter(self, slot: int, account: _Account, sign: int) -> None:
        """Add an account to the sums by driver and volume, or (-1) take it out of them."""
        of_pods = account.of_pods
        for volume in of_pods | account.attached:
            self._counts(volume.driver)[slot] += sign
        _change(self._holders, of_pods, slot, sign)
        _change(self._dependents, account.lookups, slot, sign)
        self._errors.pop(slot, None)
        if sign > 0 and account.error is not None:
            self._errors[slot] = account.error

    def _counts(self, driver: str) -> IntArray:
        counts = self._attached.get(driver)
        if counts is None:
            counts = self._attached[driver] = np.zeros(len(self._has_csi_node), dtype=np.int64)
        return counts


def _change(sets: dict[K, set[int]], keys: Iterable[K], slot: int, sign: int) -> None:
    """Add a slot to the sets under some keys, or (-1) take it out of them."""
    for key in keys:
        if sign > 0:
            sets.setdefault(key, set()).add(slot)
        else:
            slots = sets[key]
            slots.discard(slot)
            if not slots:
                del sets[key]
