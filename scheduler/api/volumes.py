"""Rules about single claims and volumes, and about disks that pods mount inline.

Of the inline disks only four kinds matter: GCE disks, EBS volumes, iSCSI disks and Rados block
devices. Two pods on one node conflict over such a disk unless both only read it. Two pods with the
same EBS volume always conflict.
Source: component-helpers `storage/volume/{helpers,pv_helpers}.go`, `storage/ephemeral`;
`isVolumeConflict` in `volumerestrictions/volume_restrictions.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from scheduler.api.quantity import parse_quantity
from scheduler.api.references import reference_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scheduler.api.core import ObjectReference, Pod, Volume
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim

#: The annotation of a claim whose binding is complete.
ANN_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
#: The annotation of a volume or claim that a controller has bound, not a user.
ANN_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
#: The annotation of a claim that waits for its volume to be provisioned: the node of its pod.
ANN_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: The annotation for the class on old volumes and claims.
_ANN_BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"

#: The provisioner of a class without dynamic provisioning.
NOT_SUPPORTED_PROVISIONER: Final = "kubernetes.io/no-provisioner"

#: The phase of a volume without a claim.
AVAILABLE: Final = "Available"
#: The phase of a claim whose volume is gone.
LOST: Final = "Lost"

_STORAGE: Final = "storage"
_FILESYSTEM: Final = "Filesystem"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Return the storage class of a claim; empty for none."""
    beta = claim.metadata.annotations.get(_ANN_BETA_STORAGE_CLASS)
    return beta if beta is not None else claim.spec.storage_class_name or ""


def volume_class(volume: PersistentVolume) -> str:
    """Return the storage class of a volume; empty for none."""
    beta = volume.metadata.annotations.get(_ANN_BETA_STORAGE_CLASS)
    return beta if beta is not None else volume.spec.storage_class_name


def claim_key(claim: PersistentVolumeClaim) -> str:
    """Return `namespace/name`."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """Return the name of the claim of a pod's volume; None for a volume without one."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def claim_names(pod: Pod) -> Iterator[str]:
    """Yield the names of the claims of a pod's volumes."""
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        if name is not None:
            yield name


def is_for_pod(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Return True if a claim was created for an ephemeral volume of this pod."""
    if claim.metadata.namespace != pod.metadata.namespace:
        return False
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.metadata.uid


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Return True if a claim has a volume and its binding is complete."""
    return bool(claim.spec.volume_name) and ANN_BIND_COMPLETED in claim.metadata.annotations


def requested_storage(claim: PersistentVolumeClaim) -> int:
    """Return the requested storage of a claim, in nano-bytes (see `api.quantity`)."""
    return parse_quantity(claim.spec.resources.requests.get(_STORAGE, 0))


def storage_capacity(volume: PersistentVolume) -> int:
    """Return the capacity of a volume, in nano-bytes."""
    return parse_quantity(volume.spec.capacity.get(_STORAGE, 0))


def volume_modes_differ(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Return True if one is a file system and the other a block device."""
    wanted = claim.spec.volume_mode or _FILESYSTEM
    return wanted != (volume.spec.volume_mode or _FILESYSTEM)


def access_modes_met(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Return True if a volume has all access modes that a claim requests."""
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def is_bound_to_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return True if a volume is bound to a claim; a reference without a uid matches any."""
    reference = volume.spec.claim_ref
    if reference is None:
        return False
    metadata = claim.metadata
    if (reference.name, reference.namespace) != (metadata.name, metadata.namespace):
        return False
    return not reference.uid or reference.uid == metadata.uid


def bound_to_claim(
    volume: PersistentVolume, claim: PersistentVolumeClaim
) -> tuple[PersistentVolume, bool]:
    """Return the volume bound to a claim, and True if the volume has changed.

    Source: `GetBindVolumeToClaim`.
    """
    metadata, spec = volume.metadata, volume.spec
    if spec.claim_ref is None or not _names(spec.claim_ref, claim):
        reference = reference_to("v1", "PersistentVolumeClaim", claim.metadata)
        spec = msgspec.structs.replace(spec, claim_ref=reference)
    # The annotation must stay absent if a user has bound the volume.
    if not is_bound_to_claim(volume, claim) and ANN_BOUND_BY_CONTROLLER not in metadata.annotations:
        annotations = {**metadata.annotations, ANN_BOUND_BY_CONTROLLER: "yes"}
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
    changed = spec is not volume.spec or metadata is not volume.metadata
    return msgspec.structs.replace(volume, metadata=metadata, spec=spec), changed


def with_selected_node(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """Return the claim with the annotation to provision its volume for a node."""
    annotations = {**claim.metadata.annotations, ANN_SELECTED_NODE: node_name}
    metadata = msgspec.structs.replace(claim.metadata, annotations=annotations)
    return msgspec.structs.replace(claim, metadata=metadata)


def _names(reference: ObjectReference, claim: PersistentVolumeClaim) -> bool:
    metadata = claim.metadata
    return (reference.name, reference.namespace, reference.uid) == (
        metadata.name,
        metadata.namespace,
        metadata.uid,
    )


class Disk(NamedTuple):
    """A mounted disk; only disks with the same `identity` can conflict.

    Two mounts of a Rados device are of the same device if they have one of `monitors` in common.
    """

    identity: tuple[str, ...]
    can_be_shared: bool
    monitors: frozenset[str] | None = None


def disks_of(pod: Pod) -> tuple[Disk, ...]:
    """Return the disks that a pod mounts inline."""
    return tuple(disk for volume in pod.spec.volumes for disk in _disks(volume))


def disk_conflicts(disk: Disk, mounted: Iterable[Disk]) -> bool:
    """Return True if a disk cannot be mounted beside the `mounted` disks."""
    return any(_disks_conflict(disk, other) for other in mounted)


def _disks_conflict(disk: Disk, other: Disk) -> bool:
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
