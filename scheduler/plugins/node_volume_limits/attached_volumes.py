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

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

import numpy as np

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

    from scheduler.api.storage import CSINode, VolumeAttachment
    from scheduler.framework.handle import Handle
    from scheduler.snapshot.node_table import NodeTable
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

K = TypeVar("K")

_Pods = Mapping[str, "PodInfo"]

ATTACHMENTS: Final = "volumeattachments"
CSI_NODES: Final = "csinodes"

#: In place of a limit: the driver is on the node, and may attach as many as it likes.
_NO_LIMIT: Final = -1
#: In place of a limit: the driver is not on the node.
_NOT_INSTALLED: Final = -2

_CAPACITY_MIN: Final = 16


class _Account(NamedTuple):
    """The volumes of one node."""

    #: By the pods' uids, for those that have any.
    by_pod: Mapping[str, tuple[CsiVolume, ...]]
    #: By the pods' uids as well: why their volumes cannot be told.
    errors: Mapping[str, str]
    #: How many pods use each volume.
    users: Mapping[CsiVolume, int]
    #: By VolumeAttachments.
    attached: frozenset[CsiVolume]
    #: What all this was made from.
    lookups: frozenset[Lookup]


_EMPTY: Final = _Account({}, {}, {}, frozenset(), frozenset())


class _Change(NamedTuple):
    """What other pods than those on a node would change: volumes more there, and volumes less."""

    more: frozenset[CsiVolume]
    less: frozenset[CsiVolume]
    #: Those that are attached in any case, by VolumeAttachments.
    attached: frozenset[CsiVolume]

    def attached_by(self, driver: str) -> int:
        """By how many volumes of a driver the node would have more."""
        more = sum(volume.driver == driver for volume in self.more - self.attached)
        return more - sum(volume.driver == driver for volume in self.less - self.attached)


class AttachedVolumes:
    """The accounts of all nodes. `refresh` at the start of a cycle, then ask."""

    def __init__(self, handle: Handle, volumes: CsiVolumes) -> None:
        self._handle: Final = handle
        self._volumes: Final = volumes
        self._accounts: Final[dict[int, _Account]] = {}
        #: Slots by what their accounts depend on; a tuple, as there is hardly ever more than one.
        self._dependents: Final[dict[Lookup, tuple[int, ...]]] = {}
        self._errors: Final[dict[int, str]] = {}
        #: By node and by name; and the node of each.
        self._attachments: Final[dict[str, dict[str, VolumeAttachment]]] = {}
        self._attached_to: Final[dict[str, str]] = {}
        self._attached: Final[dict[str, IntArray]] = {}
        #: Slots by the volumes that their pods use, likewise.
        self._holders: Final[dict[CsiVolume, tuple[int, ...]]] = {}
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
        changes = {
            position: self._change(int(slots[position]), base_pods, pods)
            for position, base_pods, pods in self._changed_pods(nodes)
            if self._has_limits[slots[position]]
        }
        self._raise_errors(slots, except_at=changes)
        exceeded = np.zeros(len(nodes), dtype=np.bool_)
        for driver in {volume.driver for volume in wanted}:
            limits = self._limits.get(driver)
            if limits is None:
                continue
            volumes = {volume for volume in wanted if volume.driver == driver}
            new = np.full(len(nodes), len(volumes), dtype=np.int64)
            for volume in volumes:
                new -= np.isin(slots, self._holders.get(volume, ()))
            attached = self._counts(driver)[slots]
            for position, change in changes.items():
                new[position] += len(change.less & volumes) - len(change.more & volumes)
                attached[position] += change.attached_by(driver)
            limit = limits[slots]
            exceeded |= (limit >= 0) & (new > 0) & (attached + new > limit)
        return exceeded

    def _slots(self, nodes: Nodes) -> IntArray:
        return self._handle.snapshot.slots[nodes.base_rows]

    def _changed_pods(self, nodes: Nodes) -> Iterator[tuple[int, _Pods, _Pods]]:
        """Where hypothetical nodes have other pods than the nodes of the snapshot, and all pods.

        Nodes of the snapshot are what they are.
        """
        base = self._handle.snapshot.table
        if nodes.table is base:
            return
        rows = zip(nodes.rows, nodes.base_rows.tolist(), strict=True)
        for position, (row, base_row) in enumerate(rows):
            base_pods, pods = base.pods[base_row], nodes.table.pods[row]
            if pods.keys() != base_pods.keys():
                yield position, base_pods, pods

    def _change(self, slot: int, base_pods: _Pods, pods: _Pods) -> _Change:
        """What these pods in place of those would change; raises `AttachableVolumeError`."""
        account = self._accounts.get(slot, _EMPTY)
        for uid, error in account.errors.items():
            if uid in pods:
                raise AttachableVolumeError(error)
        users: Counter[CsiVolume] = Counter()
        for uid in base_pods.keys() - pods.keys():
            users.subtract(account.by_pod.get(uid, ()))
        for uid in pods.keys() - base_pods.keys():
            if pods[uid].volumes.may_be_attached:
                users.update(self._volumes.of_running_pod(pods[uid].pod, set()))
        before = account.users
        now = {volume: before.get(volume, 0) + more for volume, more in users.items()}
        return _Change(
            more=frozenset(v for v, number in now.items() if number and v not in before),
            less=frozenset(v for v, number in now.items() if not number and v in before),
            attached=account.attached,
        )

    def _raise_errors(self, slots: IntArray, *, except_at: Collection[int]) -> None:
        if not self._errors:
            return
        for position, slot in enumerate(slots.tolist()):
            if slot in self._errors and self._has_limits[slot] and position not in except_at:
                raise AttachableVolumeError(self._errors[slot])

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
        if account != _EMPTY:
            self._accounts[slot] = account
            self._enter(slot, account, 1)

    def _account(self, name: str) -> _Account:
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
        return _Account(by_pod, errors, users, frozenset(attached), frozenset(lookups))

    def _enter(self, slot: int, account: _Account, sign: int) -> None:
        """Add an account to the sums by driver and volume, or (-1) take it out of them."""
        for volume in account.attached.union(account.users):
            self._counts(volume.driver)[slot] += sign
        _enter(account.users, self._holders, slot, sign)
        _enter(account.lookups, self._dependents, slot, sign)
        self._errors.pop(slot, None)
        if sign > 0 and account.errors:
            self._errors[slot] = next(iter(account.errors.values()))

    def _counts(self, driver: str) -> IntArray:
        counts = self._attached.get(driver)
        if counts is None:
            counts = self._attached[driver] = np.zeros(len(self._has_csi_node), dtype=np.int64)
        return counts


def _enter(keys: Iterable[K], slots_by_key: dict[K, tuple[int, ...]], slot: int, sign: int) -> None:
    """Add a slot to those under some keys, or (-1) take it out of them."""
    for key in keys:
        old = slots_by_key.get(key, ())
        new = (*old, slot) if sign > 0 else tuple(other for other in old if other != slot)
        if new:
            slots_by_key[key] = new
        else:
            del slots_by_key[key]
