"""Claims and the volumes they are bound to: the rules on single objects, each written once.

Source: component-helpers `storage/volume/{helpers,pv_helpers}.go`, `storage/ephemeral`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api.core import ObjectReference
from scheduler.api.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduler.api.core import Pod, Volume
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim

#: On a claim whose binding is complete.
ANN_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
#: On a volume or claim that a controller, not a user, has bound.
ANN_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
#: On a claim that waits for a volume to be made for it: the node its pod goes to.
ANN_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: Names the class in place of the field, on volumes and claims from long ago.
_ANN_BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"

#: The provisioner of a class whose volumes nobody makes.
NOT_SUPPORTED_PROVISIONER: Final = "kubernetes.io/no-provisioner"

#: The phase of a volume that nobody has claimed.
AVAILABLE: Final = "Available"
#: The phase of a claim whose volume is gone.
LOST: Final = "Lost"

_STORAGE: Final = "storage"
_FILESYSTEM: Final = "Filesystem"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The storage class a claim names; empty if it names none."""
    beta = claim.metadata.annotations.get(_ANN_BETA_STORAGE_CLASS)
    return beta if beta is not None else claim.spec.storage_class_name or ""


def volume_class(volume: PersistentVolume) -> str:
    """The storage class a volume belongs to; empty if to none."""
    beta = volume.metadata.annotations.get(_ANN_BETA_STORAGE_CLASS)
    return beta if beta is not None else volume.spec.storage_class_name


def claim_key(claim: PersistentVolumeClaim) -> str:
    """`namespace/name`."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The claim behind a pod's volume; None if there is none. Ephemeral ones are named after it."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def claim_names(pod: Pod) -> Iterator[str]:
    """The claims behind a pod's volumes, one for each volume that has one."""
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        if name is not None:
            yield name


def is_for_pod(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Whether a claim was made for this very pod: for its ephemeral volume, that is."""
    if claim.metadata.namespace != pod.metadata.namespace:
        return False
    owner = next((ref for ref in claim.metadata.owner_references if ref.controller), None)
    return owner is not None and owner.uid == pod.metadata.uid


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim has its volume, and the volume controller is done with it."""
    return bool(claim.spec.volume_name) and ANN_BIND_COMPLETED in claim.metadata.annotations


def requested_storage(claim: PersistentVolumeClaim) -> int:
    """How much a claim asks for, in nano-bytes (see `api.quantity`)."""
    return parse_quantity(claim.spec.resources.requests.get(_STORAGE, 0))


def storage_capacity(volume: PersistentVolume) -> int:
    """How much a volume holds, in nano-bytes."""
    return parse_quantity(volume.spec.capacity.get(_STORAGE, 0))


def volume_modes_differ(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether one is a file system and the other a block device."""
    wanted = claim.spec.volume_mode or _FILESYSTEM
    return wanted != (volume.spec.volume_mode or _FILESYSTEM)


def access_modes_met(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether a volume can be used in all ways that a claim asks for."""
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def is_bound_to_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is kept for this claim. A reference without a uid means any of that name."""
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
    """The volume as it is once it is kept for a claim, and whether that is any change.

    Source: `GetBindVolumeToClaim`.
    """
    metadata, spec = volume.metadata, volume.spec
    if spec.claim_ref is None or not _names(spec.claim_ref, claim):
        spec = msgspec.structs.replace(spec, claim_ref=_reference_to(claim))
    # The annotation's absence says that a user has bound the volume, and that must stay known.
    if not is_bound_to_claim(volume, claim) and ANN_BOUND_BY_CONTROLLER not in metadata.annotations:
        annotations = {**metadata.annotations, ANN_BOUND_BY_CONTROLLER: "yes"}
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
    changed = spec is not volume.spec or metadata is not volume.metadata
    return msgspec.structs.replace(volume, metadata=metadata, spec=spec), changed


def with_selected_node(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """The claim as it is once a volume is to be made for it, within reach of a node."""
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


def _reference_to(claim: PersistentVolumeClaim) -> ObjectReference:
    metadata = claim.metadata
    return ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )
