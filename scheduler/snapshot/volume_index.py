"""An index of the claims and disks that the pods on the nodes use."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from scheduler.api.volumes import Disk, disk_conflicts
from scheduler.snapshot.claims_and_disks import NO_VOLUMES
from scheduler.snapshot.columns import IntArray, Slot, grown
from scheduler.snapshot.pod_index import PodsBySlot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.snapshot.pod_info import PodInfo

_CAPACITY_MIN: Final = 16


class VolumeIndex(PodsBySlot):
    """The number of uses of each claim and disk, and a version per slot that grows on changes."""

    def __init__(self) -> None:
        super().__init__()
        self._claim_users: Final[Counter[tuple[str, str]]] = Counter()
        #: By a disk's identity and by slot: the number of mounts of each sort.
        self._mounts: Final[dict[tuple[str, ...], dict[Slot, Counter[Disk]]]] = {}
        #: A number that grows with every change of a slot's volumes.
        self.version = 0
        self._versions: IntArray = np.zeros(_CAPACITY_MIN, dtype=np.int64)

    # Reading.

    def changed_since(self, version: int) -> list[Slot]:
        """Return the slots whose volumes have changed after an earlier version."""
        if version == self.version:
            return []
        return cast("list[Slot]", (self._versions > version).nonzero()[0].tolist())

    def claim_users(self, namespace: str, name: str) -> int:
        """Return the number of volumes on all nodes that use this claim."""
        return self._claim_users.get((namespace, name), 0)

    def slots_without_room_for(self, disks: Iterable[Disk]) -> set[Slot]:
        """Return the slots with a mount that conflicts with one of these disks."""
        return {
            slot
            for disk in disks
            for slot, mounted in self._mounts.get(disk.identity, {}).items()
            if disk_conflicts(disk, mounted)
        }

    # Writing.

    def set_pods(self, slot: Slot, pods: Mapping[str, PodInfo]) -> bool:
        """Set the pods on a slot; only pods whose volumes can conflict are kept and compared."""
        with_volumes = {uid: pod for uid, pod in pods.items() if pod.volumes is not NO_VOLUMES}
        has_changed = super().set_pods(slot, with_volumes)
        if has_changed:
            self.version += 1
            self._versions[slot] = self.version
        return has_changed

    def _ensure_capacity(self, slot: Slot) -> None:
        if slot >= len(self._versions):
            self._versions = grown(self._versions, max(2 * len(self._versions), slot + 1))

    def _add(self, slot: Slot, pod: PodInfo) -> None:
        for claim in pod.volumes.claims:
            self._claim_users[pod.namespace, claim] += 1
        for disk in pod.volumes.disks:
            self._mounts.setdefault(disk.identity, {}).setdefault(slot, Counter())[disk] += 1

    def _remove(self, slot: Slot, pod: PodInfo) -> None:
        for claim in pod.volumes.claims:
            key = (pod.namespace, claim)
            self._claim_users[key] -= 1
            if not self._claim_users[key]:
                del self._claim_users[key]
        for disk in pod.volumes.disks:
            by_slot = self._mounts[disk.identity]
            by_slot[slot][disk] -= 1
            if not by_slot[slot][disk]:
                del by_slot[slot][disk]
            if not by_slot[slot]:
                del by_slot[slot]
            if not by_slot:
                del self._mounts[disk.identity]

    def check(self) -> None:
        """Verify all counts against the pods; raises AssertionError. For tests."""
        pods = [(slot, pod) for slot, by_uid in self._pods.items() for pod in by_uid.values()]
        users = Counter((pod.namespace, name) for _, pod in pods for name in pod.volumes.claims)
        assert dict(self._claim_users) == dict(users), "claims"
        mounts = Counter((slot, disk) for slot, pod in pods for disk in pod.volumes.disks)
        kept = {
            (slot, disk): number
            for by_slot in self._mounts.values()
            for slot, mounted in by_slot.items()
            for disk, number in mounted.items()
        }
        assert kept == dict(mounts), "disks"
