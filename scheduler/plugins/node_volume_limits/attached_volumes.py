"""Attached volumes and their limits per node and CSI driver.

They follow from pods, claims, volumes, classes and attachments. A large cluster has hundreds of
thousands of these, few of which change between two pods. So the volumes of each node are cached
together with all objects looked up for them, and recomputed only when one of these changes:

    pods of a node ----\\
    claims, volumes,    >--> _NodeVolumes --> attached[driver][slot], slots_by_volume[volume]
    classes looked up  /
    attachments ------/
    CSINode ---------------------------> limits[driver][slot]

Nodes are indexed by slot (`Snapshot.slots`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from scheduler.api.storage import CSINode, VolumeAttachment
from scheduler.plugins.node_volume_limits.csi_volumes import (
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
    from collections.abc import Collection, Iterable, Iterator

    from scheduler.framework.handle import Handle
    from scheduler.snapshot.node_table import NodeTable
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

K = TypeVar("K")

_Pods = Mapping[str, "PodInfo"]

ATTACHMENTS: Final = "volumeattachments"
CSI_NODES: Final = "csinodes"

#: Limit of a driver that is installed on the node without a limit.
_NO_LIMIT: Final = -1
#: Limit of a driver that is not installed on the node.
_NOT_INSTALLED: Final = -2

_CAPACITY_MIN: Final = 16


class _NodeVolumes(NamedTuple):
    """The volumes of one node."""

    #: By the uids of pods with volumes.
    by_pod: Mapping[str, tuple[CsiVolume, ...]]
    #: By the uids of pods whose volumes are unknown.
    errors: Mapping[str, str]
    #: Number of pods that use each volume.
    users: Mapping[CsiVolume, int]
    #: By VolumeAttachments.
    attached: frozenset[CsiVolume]
    #: The cache key: all objects looked up.
    lookups: frozenset[Lookup]


_EMPTY: Final = _NodeVolumes({}, {}, {}, frozenset(), frozenset())


class _Difference(NamedTuple):
    """The difference in attached volumes between the hypothetical and the real pods of a node."""

    added: frozenset[CsiVolume]
    removed: frozenset[CsiVolume]
    #: Attached anyway, by VolumeAttachments.
    attached: frozenset[CsiVolume]

    def attached_by(self, driver: str) -> int:
        """Return the difference in the number of a driver's attached volumes."""
        added = sum(volume.driver == driver for volume in self.added - self.attached)
        return added - sum(volume.driver == driver for volume in self.removed - self.attached)


class AttachedVolumes:
    """The attached volumes and limits of all nodes, up to date after `refresh`."""

    def __init__(self, handle: Handle, volumes: CsiVolumes) -> None:
        self._handle: Final = handle
        self._volumes: Final = volumes
        self._by_slot: Final[dict[int, _NodeVolumes]] = {}
        #: Slots of the nodes that depend on an object; a tuple, as it is rarely more than one.
        self._slots_by_lookup: Final[dict[Lookup, tuple[int, ...]]] = {}
        self._errors: Final[dict[int, str]] = {}
        #: By node and by name; then the node of each by name.
        self._attachments: Final[dict[str, dict[str, VolumeAttachment]]] = {}
        self._attached_to: Final[dict[str, str]] = {}
        self._attached: Final[dict[str, IntArray]] = {}
        #: Slots of the nodes whose pods use a volume.
        self._slots_by_volume: Final[dict[CsiVolume, tuple[int, ...]]] = {}
        self._limits: Final[dict[str, IntArray]] = {}
        self._drivers: Final[dict[int, tuple[str, ...]]] = {}
        self._has_csi_node: BoolArray = np.zeros(_CAPACITY_MIN, dtype=np.bool_)
        self._has_limits: BoolArray = np.zeros(_CAPACITY_MIN, dtype=np.bool_)
        self._table: NodeTable | None = None
        self._name_of: dict[int, str] = {}
        self._slot_of: dict[str, int] = {}
        self._pods_version = 0
        self._cursors: Final[dict[str, int]] = {}

    # Results. All arrays have an entry for each of `nodes`.

    def has_csi_node(self, nodes: Nodes) -> BoolArray:
        return self._has_csi_node[self._slots(nodes)]

    def lacks_driver(self, driver: str, nodes: Nodes) -> BoolArray:
        """Return the nodes without a CSINode or whose CSINode does not have the driver."""
        limits = self._limits.get(driver)
        if limits is None:
            return np.ones(len(nodes), dtype=np.bool_)
        lacking: BoolArray = limits[self._slots(nodes)] == _NOT_INSTALLED
        return lacking

    def have_no_room_for(self, wanted: frozenset[CsiVolume], nodes: Nodes) -> BoolArray:
        """Return the nodes where these volumes would exceed a driver's limit.

        A volume that a pod on the node uses is not attached twice. A volume that only a
        VolumeAttachment attaches counts twice, as upstream.
        Raises `AttachableVolumeError` if a pod's volumes on a node with limits are unknown.
        """
        slots = self._slots(nodes)
        differences = {
            position: self._difference(int(slots[position]), base_pods, pods)
            for position, base_pods, pods in self._changed_pods(nodes)
            if self._has_limits[slots[position]]
        }
        self._raise_errors(slots, except_at=differences)
        exceeded = np.zeros(len(nodes), dtype=np.bool_)
        for driver in {volume.driver for volume in wanted}:
            limits = self._limits.get(driver)
            if limits is None:
                continue
            volumes = {volume for volume in wanted if volume.driver == driver}
            new = np.full(len(nodes), len(volumes), dtype=np.int64)
            for volume in volumes:
                new -= np.isin(slots, self._slots_by_volume.get(volume, ()))
            attached = self._counts(driver)[slots]
            for position, difference in differences.items():
                new[position] += len(difference.removed & volumes)
                new[position] -= len(difference.added & volumes)
                attached[position] += difference.attached_by(driver)
            limit = limits[slots]
            exceeded |= (limit >= 0) & (new > 0) & (attached + new > limit)
        return exceeded

    def _slots(self, nodes: Nodes) -> IntArray:
        return self._handle.snapshot.slots[nodes.base_rows]

    def _changed_pods(self, nodes: Nodes) -> Iterator[tuple[int, _Pods, _Pods]]:
        """Yield position, real pods and hypothetical pods of nodes where these differ."""
        base = self._handle.snapshot.table
        if nodes.table is base:
            return
        rows = zip(nodes.rows, nodes.base_rows.tolist(), strict=True)
        for position, (row, base_row) in enumerate(rows):
            base_pods, pods = base.pods[base_row], nodes.table.pods[row]
            if pods.keys() != base_pods.keys():
                yield position, base_pods, pods

    def _difference(self, slot: int, base_pods: _Pods, pods: _Pods) -> _Difference:
        """Compare hypothetical with real pods; raises `AttachableVolumeError`."""
        cached = self._by_slot.get(slot, _EMPTY)
        for uid, error in cached.errors.items():
            if uid in pods:
                raise AttachableVolumeError(error)
        users: Counter[CsiVolume] = Counter()
        for uid in base_pods.keys() - pods.keys():
            users.subtract(cached.by_pod.get(uid, ()))
        for uid in pods.keys() - base_pods.keys():
            if pods[uid].volumes.may_be_attached:
                users.update(self._volumes.of_running_pod(pods[uid].pod, set()))
        before = cached.users
        after = {volume: before.get(volume, 0) + more for volume, more in users.items()}
        return _Difference(
            added=frozenset(v for v, number in after.items() if number and v not in before),
            removed=frozenset(v for v, number in after.items() if not number and v in before),
            attached=cached.attached,
        )

    def _raise_errors(self, slots: IntArray, *, except_at: Collection[int]) -> None:
        if not self._errors:
            return
        for position, slot in enumerate(slots.tolist()):
            if slot in self._errors and self._has_limits[slot] and position not in except_at:
                raise AttachableVolumeError(self._errors[slot])

    # Updates.

    def refresh(self) -> None:
        """Recompute the nodes that are affected by changes since the last call."""
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
                    stale.update(self._slots_by_lookup.get((plural, key), ()))
        stale.update(self._changed_attachments())
        for slot in stale:
            self._recompute(slot)

    def _changes(self, plural: str) -> Collection[str] | None:
        cursor = self._cursors.get(plural, -1)
        self._cursors[plural], keys = self._handle.lister(plural).changes_since(cursor)
        return keys

    def _changed_nodes(self) -> set[int]:
        """Update nodes and limits; return the slots with another node than before, or none."""
        snapshot = self._handle.snapshot
        changed: set[int] = set()
        if snapshot.table is not self._table:
            self._table = snapshot.table
            before = self._name_of
            self._name_of = dict(zip(snapshot.slots.tolist(), snapshot.names, strict=True))
            self._slot_of = {name: slot for slot, name in self._name_of.items()}
            slots = before.keys() | self._name_of.keys()
            changed = {slot for slot in slots if before.get(slot) != self._name_of.get(slot)}
            self._grow(max(slots, default=0) + 1)
        csi_nodes = self._changes(CSI_NODES)
        names = self._slot_of if csi_nodes is None else csi_nodes
        for slot in changed.union(self._slots_of(names)):
            self._update_limits(slot)
        return changed

    def _slots_of(self, names: Iterable[str]) -> Iterator[int]:
        return (self._slot_of[name] for name in names if name in self._slot_of)

    def _grow(self, capacity: int) -> None:
        if capacity <= len(self._has_csi_node):
            return
        capacity *= 2
        self._has_csi_node = grown(self._has_csi_node, capacity)
        self._has_limits = grown(self._has_limits, capacity)
        for driver, counts in self._attached.items():
            self._attached[driver] = grown(counts, capacity)
        for driver, limits in self._limits.items():
            self._limits[driver] = grown(limits, capacity, fill=_NOT_INSTALLED)

    def _update_limits(self, slot: int) -> None:
        for name in self._drivers.pop(slot, ()):
            self._limits[name][slot] = _NOT_INSTALLED
        self._has_csi_node[slot] = self._has_limits[slot] = False
        node = self._name_of.get(slot)
        found = self._handle.lister(CSINode).get(node) if node is not None else None
        if found is None:
            return
        self._has_csi_node[slot] = True
        drivers = found.spec.drivers
        self._drivers[slot] = tuple(driver.name for driver in drivers)
        for driver in drivers:
            count = driver.allocatable.count if driver.allocatable is not None else None
            if driver.name not in self._limits:
                capacity = len(self._has_csi_node)
                self._limits[driver.name] = np.full(capacity, _NOT_INSTALLED, dtype=np.int64)
            self._limits[driver.name][slot] = _NO_LIMIT if count is None else count
            self._has_limits[slot] |= count is not None

    def _changed_attachments(self) -> set[int]:
        """Group VolumeAttachments by node; return the slots of nodes with a change."""
        names = self._changes(ATTACHMENTS)
        lister = self._handle.lister(VolumeAttachment)
        if names is None:
            names = {a.metadata.name for a in lister.list()} | self._attached_to.keys()
        changed: set[str] = set()
        for name in names:
            old = self._attached_to.pop(name, None)
            if old is not None:
                del self._attachments[old][name]
                if not self._attachments[old]:
                    del self._attachments[old]
                changed.add(old)
            attachment = lister.get(name)
            if attachment is not None:
                node = attachment.spec.node_name
                self._attachments.setdefault(node, {})[name] = attachment
                self._attached_to[name] = node
                changed.add(node)
        return set(self._slots_of(changed))

    def _recompute(self, slot: int) -> None:
        old = self._by_slot.pop(slot, None)
        if old is not None:
            self._count(slot, old, -1)
        name = self._name_of.get(slot)
        if name is None:
            return
        new = self._node_volumes(name)
        if new != _EMPTY:
            self._by_slot[slot] = new
            self._count(slot, new, 1)

    def _node_volumes(self, name: str) -> _NodeVolumes:
        snapshot = self._handle.snapshot
        lookups: set[Lookup] = set()
        by_pod: dict[str, tuple[CsiVolume, ...]] = {}
        errors: dict[str, str] = {}
        for uid, pod in snapshot.table.pods[snapshot.row(name)].items():
            if not pod.volumes.may_be_attached:
                continue
            try:
                found = self._volumes.of_running_pod(pod.pod, lookups)
            except AttachableVolumeError as error:
                errors[uid] = str(error)
                continue
            if found:
                by_pod[uid] = tuple(found)
        users = Counter(volume for volumes in by_pod.values() for volume in volumes)
        attached: set[CsiVolume] = set()
        for attachment in self._attachments.get(name, {}).values():
            volume_name = attachment.spec.source.persistent_volume_name
            if volume_name is None:
                continue
            volume = self._volumes.attached(attachment.spec.attacher, volume_name, lookups)
            if volume is not None:
                attached.add(volume)
        return _NodeVolumes(by_pod, errors, users, frozenset(attached), frozenset(lookups))

    def _count(self, slot: int, volumes: _NodeVolumes, sign: int) -> None:
        """Add (1) a node's volumes to the sums and indices, or remove (-1) them."""
        for volume in volumes.attached.union(volumes.users):
            self._counts(volume.driver)[slot] += sign
        _index(volumes.users, self._slots_by_volume, slot, sign)
        _index(volumes.lookups, self._slots_by_lookup, slot, sign)
        self._errors.pop(slot, None)
        if sign > 0 and volumes.errors:
            self._errors[slot] = next(iter(volumes.errors.values()))

    def _counts(self, driver: str) -> IntArray:
        counts = self._attached.get(driver)
        if counts is None:
            counts = self._attached[driver] = np.zeros(len(self._has_csi_node), dtype=np.int64)
        return counts


def _index(keys: Iterable[K], slots_by_key: dict[K, tuple[int, ...]], slot: int, sign: int) -> None:
    """Add (1) a slot under each key, or remove (-1) it."""
    for key in keys:
        old = slots_by_key.get(key, ())
        new = (*old, slot) if sign > 0 else tuple(other for other in old if other != slot)
        if new:
            slots_by_key[key] = new
        else:
            del slots_by_key[key]
