"""Disks that pods mount inline, and which two pods cannot both mount on one node.

Only four kinds are looked at, of the time before claims: GCE disks, EBS volumes, iSCSI disks and
Rados block devices. Two pods clash over a disk unless both only read it; over an EBS volume always.
Source: `isVolumeConflict` in `volumerestrictions/volume_restrictions.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scheduler.api.core import Pod, Volume


class Disk(NamedTuple):
    """A disk as a pod mounts it. `identity` is the same for all mounts that can clash.

    `monitors` are the ways to a Rados device; two mounts are of one device if they share one.
    """

    identity: tuple[str, ...]
    can_be_shared: bool
    monitors: frozenset[str] | None = None


def disks_of(pod: Pod) -> tuple[Disk, ...]:
    """The disks that a pod mounts inline."""
    return tuple(disk for volume in pod.spec.volumes for disk in _disks(volume))


def conflicts(disk: Disk, mounted: Iterable[Disk]) -> bool:
    """Whether a disk cannot be mounted where these are."""
    return any(_clash(disk, other) for other in mounted)


def _clash(disk: Disk, other: Disk) -> bool:
    if disk.identity != other.identity or (disk.can_be_shared and other.can_be_shared):
        return False
    if disk.monitors is None or other.monitors is None:
        return True
    return not disk.monitors.isdisjoint(other.monitors)


def _disks(volume: Volume) -> Iterator[Disk]:
    if (gce := volume.gce_persistent_disk) is not None:
        yield Disk(("gce", gce.pd_name), gce.read_only)
    if (ebs := volume.aws_elastic_block_store) is not None:
        yield Disk(("ebs", ebs.volume_id), can_be_shared=False)
    if (iscsi := volume.iscsi) is not None:
        yield Disk(("iscsi", iscsi.iqn), iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        yield Disk(("rbd", rbd.pool, rbd.image), rbd.read_only, frozenset(rbd.monitors))
