"""Which claims and disks the pods on the nodes use: asked by name, without looking at every pod."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.api.disks import Disk, conflicts, disks_of
from scheduler.snapshot.columns import IntArray, grown
from scheduler.snapshot.slot_index import SlotIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.api.core import Pod, Volume
    from scheduler.snapshot.pod_info import PodInfo

_CAPACITY_MIN: Final = 16


class PodVolumes(NamedTuple):
    """What of a pod's volumes other pods may feel. Most pods have nothing of the kind."""

    #: The claims the pod names itself, once for each volume that does; not those made for it.
    claims: tuple[str, ...] = ()
    disks: tuple[Disk, ...] = ()
    #: Whether a volume may have to be attached to the node.
    may_be_attached: bool = False


NO_VOLUMES: Final = PodVolumes()


def volumes_of(pod: Pod) -> PodVolumes:
    """What of a pod's volumes other pods may feel; `NO_VOLUMES` itself if that is nothing."""
    volumes = pod.spec.volumes
    if not volumes or not any(
        _may_be_attached(volume) or volume.iscsi or volume.rbd for volume in volumes
    ):
        return NO_VOLUMES
    claims = (volume.persistent_volume_claim for volume in volumes)
    return PodVolumes(
        tuple(claim.claim_name for claim in claims if claim is not None),
        disks_of(pod),
        any(_may_be_attached(volume) for volume in volumes),
    )


def _may_be_attached(volume: Volume) -> bool:
    return bool(
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.azure_disk is not None
        or volume.azure_file is not None
        or volume.cinder is not None
        or volume.vsphere_volume is not None
        or volume.portworx_volume is not None
    )


class VolumeIndex(SlotIndex):
    """The claims and disks in use, and which slots have lately changed."""

    def __init__(self) -> None:
        super().__init__()
        self._claim_users: Final[Counter[tuple[str, str]]] = Counter()
        #: By a disk's identity and by slot: how it is mounted there, and how often.
        self._mounts: Final[dict[tuple[str, ...], dict[int, Counter[Disk]]]] = {}
        self._version = 0
        self._versions: IntArray = np.zeros(_CAPACITY_MIN, dtype=np.int64)

    # Reading.

    @property
    def version(self) -> int:
        """Goes up with every change of any slot's volumes."""
        return self._version

    def changed_since(self, version: int) -> list[int]:
        """The slots whose pods' volumes are not what they were at an earlier version."""
        if version == self._version:
            return []
        return (self._versions > version).nonzero()[0].tolist()

    def claim_users(self, namespace: str, name: str) -> int:
        """How many volumes of the pods on all nodes are this claim."""
        return self._claim_users.get((namespace, name), 0)

    def slots_without_room_for(self, disks: Iterable[Disk]) -> set[int]:
        """The slots with a pod that keeps one of these disks from being mounted there."""
        return {
            slot
            for disk in disks
            for slot, mounted in self._mounts.get(disk.identity, {}).items()
            if conflicts(disk, mounted)
        }

    # Writing.

    def set_pods(self, slot: int, pods: Mapping[str, PodInfo]) -> bool:
        """Likewise, of those pods only that have volumes which others may feel."""
        with_volumes = {uid: pod for uid, pod in pods.items() if pod.volumes is not NO_VOLUMES}
        has_changed = super().set_pods(slot, with_volumes)
        if has_changed:
            self._version += 1
            self._versions[slot] = self._version
        return has_changed

    def _make_room(self, slot: int) -> None:
        if slot >= len(self._versions):
            self._versions = grown(self._versions, max(2 * len(self._versions), slot + 1))

    def _add(self, slot: int, pod: PodInfo) -> None:
        for claim in pod.volumes.claims:
            self._claim_users[pod.namespace, claim] += 1
        for disk in pod.volumes.disks:
            self._mounts.setdefault(disk.identity, {}).setdefault(slot, Counter())[disk] += 1

    def _remove(self, slot: int, pod: PodInfo) -> None:
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
        """Verify that all counts are those of the pods; raises AssertionError. For tests."""
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
