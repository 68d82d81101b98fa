"""Attached volumes and their limits per node and CSI driver.

Attached volumes follow from pods, claims, volumes, classes and attachments. A large cluster has
hundreds of thousands of such objects, few of which change between two pods. So the volumes of each
node are cached with all objects looked up for them, and recomputed when one of these changes:

    pods of a node ----\\
    claims, volumes,    >--> _NodeVolumes --> _Usage: counts[driver][slot], slots_by_volume[volume]
    classes looked up  /
    _Attachments -----/
    CSINode ----------------------------> _Limits: by_driver[driver][slot]

Nodes are indexed by slot (`Snapshot.slots`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

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
    Migrated,
    migration_rule,
)
from scheduler.snapshot.columns import BoolArray, IntArray, grown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scheduler.framework.handle import Handle
    from scheduler.snapshot.node_table import NodeTable
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

K = TypeVar("K")

Slot: TypeAlias = int
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
        self._cluster: Final = _Cluster(handle)
        self._limits: Final = _Limits(self._cluster)
        self._usage: Final = _Usage(self._cluster, self._limits, volumes)

    def refresh(self) -> None:
        """Recompute the nodes that are affected by changes since the last call."""
        changed_nodes = self._cluster.refresh()
        self._usage.refresh(changed_nodes | self._limits.refresh(changed_nodes))

    # Results. All arrays have an entry for each of `nodes`.

    def by_migration(self, nodes: Nodes) -> Iterator[tuple[Migrated, BoolArray]]:
        """Yield the nodes by the plugins whose volumes count there: none without a CSINode."""
        numbers = self._limits.migration[self._slots(nodes)]
        for number, migrated in enumerate(self._limits.migrations):
            if np.count_nonzero(which := numbers == number):
                yield migrated, which

    def lacks_driver(self, driver: str, nodes: Nodes) -> BoolArray:
        """Return the nodes without a CSINode or whose CSINode does not have the driver."""
        limits = self._limits.by_driver.get(driver)
        if limits is None:
            return np.ones(len(nodes), dtype=np.bool_)
        lacking: BoolArray = limits[self._slots(nodes)] == _NOT_INSTALLED
        return lacking

    def have_no_room_for(
        self, wanted: frozenset[CsiVolume], nodes: Nodes, which: BoolArray
    ) -> BoolArray:
        """Return the nodes among `which` where these volumes would exceed a driver's limit.

        A volume that a pod on the node uses is not attached twice. A volume that only a
        VolumeAttachment attaches counts twice, as upstream.
        Raises `AttachableVolumeError` if a pod's volumes on a node with limits are unknown.
        """
        slots = self._slots(nodes)
        has_limits = which & (self._limits.has_any[slots] > 0)
        differences = {
            position: self._difference(int(slots[position]), base_pods, pods)
            for position, base_pods, pods in self._changed_pods(nodes)
            if has_limits[position]
        }
        has_limits[list(differences)] = False
        for slot in slots[has_limits].tolist() if self._usage.errors else ():
            if slot in self._usage.errors:
                raise AttachableVolumeError(self._usage.errors[slot])
        exceeded = np.zeros(len(nodes), dtype=np.bool_)
        for driver in {volume.driver for volume in wanted}:
            limits = self._limits.by_driver.get(driver)
            if limits is None:
                continue
            volumes = {volume for volume in wanted if volume.driver == driver}
            new = np.full(len(nodes), len(volumes), dtype=np.int64)
            for volume in volumes:
                new -= np.isin(slots, self._usage.slots_by_volume.get(volume, ()))
            attached = self._usage.counts[driver][slots]
            for position, difference in differences.items():
                new[position] += len(difference.removed & volumes)
                new[position] -= len(difference.added & volumes)
                attached[position] += difference.attached_by(driver)
            limit = limits[slots]
            exceeded |= (limit >= 0) & (new > 0) & (attached + new > limit)
        return which & exceeded

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
        cached = self._usage.by_slot.get(slot, _EMPTY)
        for uid, error in cached.errors.items():
            if uid in pods:
                raise AttachableVolumeError(error)
        users: Counter[CsiVolume] = Counter()
        for uid in base_pods.keys() - pods.keys():
            users.subtract(cached.by_pod.get(uid, ()))
        for uid in pods.keys() - base_pods.keys():
            if pods[uid].volumes.may_be_attached:
                migrated = self._limits.migrated_on(slot)
                users.update(self._volumes.of_running_pod(pods[uid].pod, migrated, set()))
        before = cached.users
        after = {volume: before.get(volume, 0) + more for volume, more in users.items()}
        return _Difference(
            added=frozenset(v for v, number in after.items() if number and v not in before),
            removed=frozenset(v for v, number in after.items() if not number and v in before),
            attached=cached.attached,
        )


class _Cluster:
    """The nodes of the snapshot by slot, and the changes of objects."""

    def __init__(self, handle: Handle) -> None:
        self.handle: Final = handle
        self._table: NodeTable | None = None
        self.name_of: dict[Slot, str] = {}
        self._slot_of: dict[str, Slot] = {}
        self._cursors: Final[dict[str, int]] = {}

    def refresh(self) -> set[Slot]:
        """Return the slots with another node than before, or none."""
        snapshot = self.handle.snapshot
        if snapshot.table is self._table:
            return set()
        self._table = snapshot.table
        before = self.name_of
        self.name_of = dict(zip(snapshot.slots.tolist(), snapshot.names, strict=True))
        self._slot_of = {name: slot for slot, name in self.name_of.items()}
        slots = before.keys() | self.name_of.keys()
        return {slot for slot in slots if before.get(slot) != self.name_of.get(slot)}

    def changes(self, plural: str) -> Collection[str] | None:
        """Return the keys of the objects that have changed; None if any may have."""
        cursor = self._cursors.get(plural, -1)
        self._cursors[plural], keys = self.handle.lister(plural).changes_since(cursor)
        return keys

    def slots(self, names: Iterable[str] | None) -> set[Slot]:
        """Return the slots of the nodes with these names; None stands for all names."""
        names = self._slot_of if names is None else names
        return {self._slot_of[name] for name in names if name in self._slot_of}


class _BySlot:
    """A number for each slot."""

    def __init__(self, default: int = 0) -> None:
        self._default: Final = default
        self._numbers: IntArray = np.full(_CAPACITY_MIN, default, dtype=np.int64)

    def __getitem__(self, slots: IntArray) -> IntArray:
        return self.up_to(int(slots.max(initial=0)))[slots]

    def up_to(self, slot: Slot) -> IntArray:
        """Return the numbers of the slots up to this one at least, to read or change them."""
        if slot >= len(self._numbers):
            self._numbers = grown(self._numbers, 2 * (slot + 1), fill=self._default)
        return self._numbers


class _Limits:
    """The limits of each node's CSINode."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster: Final = cluster
        self.by_driver: Final[dict[str, _BySlot]] = {}
        #: 1 for a node with a limit.
        self.has_any: Final = _BySlot()
        #: The in-tree plugins whose volumes count, and the position of a node's in this list.
        self.migrations: Final[list[Migrated]] = [frozenset()]
        self.migration: Final = _BySlot()
        self._migration_rule: Final = migration_rule(cluster.handle)
        self._drivers: Final[dict[Slot, tuple[str, ...]]] = {}

    def refresh(self, changed_nodes: set[Slot]) -> set[Slot]:
        """Return the slots where volumes of other in-tree plugins count than before."""
        cluster = self._cluster
        slots = changed_nodes | cluster.slots(cluster.changes(CSI_NODES))
        return {slot for slot in slots if self._update(slot)}

    def migrated_on(self, slot: Slot) -> Migrated:
        return self.migrations[int(self.migration.up_to(slot)[slot])]

    def _update(self, slot: Slot) -> bool:
        """Read the node's CSINode; return True if volumes of other plugins count than before."""
        before = self.migrated_on(slot)
        for name in self._drivers.pop(slot, ()):
            self.by_driver[name].up_to(slot)[slot] = _NOT_INSTALLED
        node = self._cluster.name_of.get(slot)
        csi_node = self._cluster.handle.lister(CSINode).get(node) if node is not None else None
        drivers = csi_node.spec.drivers if csi_node is not None else ()
        counts = [d.allocatable.count if d.allocatable is not None else None for d in drivers]
        migrated = self._migration_rule(csi_node)
        if migrated not in self.migrations:
            self.migrations.append(migrated)
        self.migration.up_to(slot)[slot] = self.migrations.index(migrated)
        self.has_any.up_to(slot)[slot] = any(count is not None for count in counts)
        if drivers:
            self._drivers[slot] = tuple(driver.name for driver in drivers)
        for driver, count in zip(drivers, counts, strict=True):
            limits = self.by_driver.setdefault(driver.name, _BySlot(_NOT_INSTALLED))
            limits.up_to(slot)[slot] = _NO_LIMIT if count is None else count
        return migrated != before


class _Attachments:
    """The VolumeAttachments of each node."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster: Final = cluster
        #: By node and by name; then the node of each by name.
        self.by_node: Final[dict[str, dict[str, VolumeAttachment]]] = {}
        self._node_of: Final[dict[str, str]] = {}

    def refresh(self) -> set[Slot]:
        names = self._cluster.changes(ATTACHMENTS)
        lister = self._cluster.handle.lister(VolumeAttachment)
        if names is None:
            names = {a.metadata.name for a in lister.list()} | self._node_of.keys()
        changed: set[str] = set()
        for name in names:
            old = self._node_of.pop(name, None)
            if old is not None:
                del self.by_node[old][name]
                if not self.by_node[old]:
                    del self.by_node[old]
                changed.add(old)
            attachment = lister.get(name)
            if attachment is not None:
                node = attachment.spec.node_name
                self.by_node.setdefault(node, {})[name] = attachment
                self._node_of[name] = node
                changed.add(node)
        return self._cluster.slots(changed)


class _Usage:
    """The volumes of each node: their numbers, and the nodes of each volume."""

    def __init__(self, cluster: _Cluster, limits: _Limits, volumes: CsiVolumes) -> None:
        self._cluster: Final = cluster
        self._limits: Final = limits
        self._volumes: Final = volumes
        self._attachments: Final = _Attachments(cluster)
        self._pods_version = 0
        self.by_slot: Final[dict[Slot, _NodeVolumes]] = {}
        #: The error of the first pod whose volumes are unknown.
        self.errors: Final[dict[Slot, str]] = {}
        #: By driver: the numbers of attached volumes.
        self.counts: Final[defaultdict[str, _BySlot]] = defaultdict(_BySlot)
        #: The nodes whose pods use a volume, and the nodes that depend on an object. Tuples, as
        #: they rarely have more than one slot.
        self.slots_by_volume: Final[dict[CsiVolume, tuple[Slot, ...]]] = {}
        self._slots_by_lookup: Final[dict[Lookup, tuple[Slot, ...]]] = {}

    def refresh(self, changed_nodes: set[Slot]) -> None:
        index = self._cluster.handle.snapshot.volume_index
        stale = changed_nodes | self._attachments.refresh()
        stale.update(index.changed_since(self._pods_version))
        self._pods_version = index.version
        for plural in (CLAIMS, VOLUMES, CLASSES):
            keys = self._cluster.changes(plural)
            if keys is None:
                stale.update(self._cluster.name_of)
            else:
                for key in keys:
                    stale.update(self._slots_by_lookup.get((plural, key), ()))
        for slot in stale:
            self._recompute(slot)

    def _recompute(self, slot: Slot) -> None:
        old = self.by_slot.pop(slot, None)
        if old is not None:
            self._count(slot, old, -1)
        name = self._cluster.name_of.get(slot)
        new = self._node_volumes(name, slot) if name is not None else _EMPTY
        if new != _EMPTY:
            self.by_slot[slot] = new
            self._count(slot, new, 1)

    def _node_volumes(self, name: str, slot: Slot) -> _NodeVolumes:
        migrated = self._limits.migrated_on(slot)
        snapshot = self._cluster.handle.snapshot
        lookups: set[Lookup] = set()
        by_pod: dict[str, tuple[CsiVolume, ...]] = {}
        errors: dict[str, str] = {}
        for uid, pod in snapshot.table.pods[snapshot.row(name)].items():
            if not pod.volumes.may_be_attached:
                continue
            try:
                found = self._volumes.of_running_pod(pod.pod, migrated, lookups)
            except AttachableVolumeError as error:
                errors[uid] = str(error)
                continue
            if found:
                by_pod[uid] = tuple(found)
        users = Counter(volume for volumes in by_pod.values() for volume in volumes)
        attached: set[CsiVolume] = set()
        for attachment in self._attachments.by_node.get(name, {}).values():
            volume_name = attachment.spec.source.persistent_volume_name
            if volume_name is None:
                continue
            volume = self._volumes.attached(attachment.spec.attacher, volume_name, lookups)
            if volume is not None:
                attached.add(volume)
        return _NodeVolumes(by_pod, errors, users, frozenset(attached), frozenset(lookups))

    def _count(self, slot: Slot, volumes: _NodeVolumes, sign: int) -> None:
        """Add (1) a node's volumes to the sums and indices, or remove (-1) them."""
        for volume in volumes.attached.union(volumes.users):
            self.counts[volume.driver].up_to(slot)[slot] += sign
        _index(volumes.users, self.slots_by_volume, slot, sign)
        _index(volumes.lookups, self._slots_by_lookup, slot, sign)
        self.errors.pop(slot, None)
        if sign > 0 and volumes.errors:
            self.errors[slot] = next(iter(volumes.errors.values()))


def _index(keys: Iterable[K], slots_by_key: dict[K, tuple[int, ...]], slot: int, sign: int) -> None:
    """Add (1) a slot under each key, or remove (-1) it."""
    for key in keys:
        old = slots_by_key.get(key, ())
        new = (*old, slot) if sign > 0 else tuple(other for other in old if other != slot)
        if new:
            slots_by_key[key] = new
        else:
            del slots_by_key[key]
