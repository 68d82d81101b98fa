"""VolumeRestrictions: `volumerestrictions/volume_restrictions.go`."""

from __future__ import annotations

from scheduler.api.core import Node, Pod, Volume
from tests.reference.cluster import UNRESOLVABLE, UNSCHEDULABLE, Cluster, Verdict
from tests.reference.volume_objects import VolumeObjects

DISK_CONFLICT = "node(s) had no available disk"
RWOP_CONFLICT = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)


def same_disk(one: Volume, other: Volume) -> bool:
    if one.gce_persistent_disk and other.gce_persistent_disk:
        gce, gce_2 = one.gce_persistent_disk, other.gce_persistent_disk
        if gce.pd_name == gce_2.pd_name and not (gce.read_only and gce_2.read_only):
            return True
    if one.aws_elastic_block_store and other.aws_elastic_block_store:
        ebs, ebs_2 = one.aws_elastic_block_store, other.aws_elastic_block_store
        if ebs.volume_id == ebs_2.volume_id:
            return True
    if one.iscsi and other.iscsi:
        iscsi, iscsi_2 = one.iscsi, other.iscsi
        if iscsi.iqn == iscsi_2.iqn and not (iscsi.read_only and iscsi_2.read_only):
            return True
    if one.rbd and other.rbd:
        rbd, rbd_2 = one.rbd, other.rbd
        overlap = any(monitor in rbd_2.monitors for monitor in rbd.monitors)
        same = rbd.pool == rbd_2.pool and rbd.image == rbd_2.image
        if overlap and same and not (rbd.read_only and rbd_2.read_only):
            return True
    return False


def claims_of(pod: Pod) -> list[str]:
    claims = [volume.persistent_volume_claim for volume in pod.spec.volumes]
    return [claim.claim_name for claim in claims if claim is not None]


def pre_filter(pod: Pod, cluster: Cluster, objects: VolumeObjects) -> Verdict | int:
    """The rejection, or how many of the pod's claims for one pod only are in use."""
    namespace = pod.metadata.namespace
    once = set()
    for name in claims_of(pod):
        claim = objects.claim(namespace, name)
        if claim is None:
            return UNRESOLVABLE, (f'persistentvolumeclaim "{name}" not found',)
        if "ReadWriteOncePod" in claim.spec.access_modes:
            once.add(name)
    used = {
        name
        for other in cluster.pods
        if other.metadata.namespace == namespace
        for name in claims_of(other)
    }
    return len(once & used)


def users(pod: Pod, other: Pod, objects: VolumeObjects) -> int:
    """Return the number of `pod`'s claims for one pod only that `other` uses, in any namespace."""
    once = set()
    for name in claims_of(pod):
        claim = objects.claim(pod.metadata.namespace, name)
        if claim is not None and "ReadWriteOncePod" in claim.spec.access_modes:
            once.add(name)
    return sum(name in once for name in claims_of(other))


def filter_node(pod: Pod, node: Node, cluster: Cluster, in_use: int) -> Verdict | None:
    for volume in pod.spec.volumes:
        for other in cluster.pods_on(node):
            if any(same_disk(volume, mounted) for mounted in other.spec.volumes):
                return UNSCHEDULABLE, (DISK_CONFLICT,)
    return (UNSCHEDULABLE, (RWOP_CONFLICT,)) if in_use > 0 else None


def is_skipped(pod: Pod, in_use: int) -> bool:
    disks = any(
        v.gce_persistent_disk or v.aws_elastic_block_store or v.iscsi or v.rbd
        for v in pod.spec.volumes
    )
    return not disks and in_use == 0
