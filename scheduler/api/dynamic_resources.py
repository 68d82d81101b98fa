"""ResourceClaims, ResourceSlices and DeviceClasses, as far as the scheduler reads them.

Beside the objects: the claim of an entry of `pod.spec.resourceClaims`, the owner of a claim, and
the device class of an extended resource.
Source: `k8s.io/api/resource/v1/types.go`, `k8s.io/dynamic-resource-allocation/resourceclaim` and
`.../deviceclass/extendedresourcecache`, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.core import ObjectMeta, Struct
from scheduler.api.resources import is_extended_resource_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.api.core import Pod, PodResourceClaim

#: With a class's name after it, the implicit extended resource of a device class.
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"

#: The annotation of claims that a scheduler has created.
_FOR_EXTENDED_RESOURCES: Final = "resource.kubernetes.io/extended-resource-claim"


class ClaimError(Exception):
    """A pod cannot be scheduled because of its claims; the text is upstream's reason."""


class ResourceClaimStatus(Struct, frozen=True):
    """The devices and the users of a claim, not decoded further."""

    allocation: Mapping[str, object] | None = None
    reserved_for: tuple[Mapping[str, object], ...] = ()
    devices: tuple[Mapping[str, object], ...] = ()


class ResourceClaim(Struct, frozen=True):
    """`resource/v1.ResourceClaim`: a request for devices."""

    metadata: ObjectMeta = ObjectMeta()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceSlice(Struct, frozen=True):
    """`resource/v1.ResourceSlice`: devices of a driver."""

    metadata: ObjectMeta = ObjectMeta()


class DeviceClassSpec(Struct, frozen=True):
    """The extended resource of a device class, if it has one."""

    extended_resource_name: str | None = None


class DeviceClass(Struct, frozen=True):
    """`resource/v1.DeviceClass`: a kind of devices for claims."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class ClaimReference(NamedTuple):
    """The name of a pod's claim; the pod must own a claim that was created from a template."""

    name: str
    must_be_own: bool


def claim_referenced_by(pod: Pod, entry: PodResourceClaim) -> ClaimReference | None:
    """Return the claim of an entry of a pod's claims; None if it deliberately has none.

    Raises ClaimError if the claim is not yet created from its template (`resourceclaim.Name`).
    """
    if entry.resource_claim_name is not None:
        return ClaimReference(entry.resource_claim_name, must_be_own=False)
    if entry.resource_claim_template_name is None:
        raise ClaimError(
            f'pod "{pod.key}", spec.resourceClaim "{entry.name}": '
            "none of the supported fields are set"
        )
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            name = status.resource_claim_name
            return ClaimReference(name, must_be_own=True) if name is not None else None
    raise ClaimError(f'pod "{pod.key}": ResourceClaim not created yet')


def ensure_is_for_pod(pod: Pod, claim: ResourceClaim) -> None:
    """Raise ClaimError unless a claim of the pod's namespace was created for it (`IsForPod`)."""
    owners = claim.metadata.owner_references
    controller = next((owner for owner in owners if owner.controller), None)
    if controller is not None and controller.uid == pod.metadata.uid:
        return
    key = f"{claim.metadata.namespace}/{claim.metadata.name}"
    raise ClaimError(f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)")


def is_claim_for_extended_resources(pod: Pod, claim: ResourceClaim) -> bool:
    """Return True if a scheduler has created this claim for the pod's extended resources.

    Source: `findExtendedResourceClaim`.
    """
    return claim.metadata.annotations.get(_FOR_EXTENDED_RESOURCES) == "true" and any(
        owner.controller and (owner.name, owner.uid) == (pod.metadata.name, pod.metadata.uid)
        for owner in claim.metadata.owner_references
    )


def is_dra_extended_resource_name(name: str) -> bool:
    """Return True if a resource may have a device class (`IsDRAExtendedResourceName`)."""
    return is_extended_resource_name(name) or name.startswith(DEVICE_CLASS_PREFIX)


def is_backed_by(classes: Iterable[DeviceClass], resource: str) -> bool:
    """Return True if a resource belongs to one of these classes (`DeviceClassResolver`)."""
    return any(
        resource == device_class.spec.extended_resource_name
        or resource == f"{DEVICE_CLASS_PREFIX}{device_class.metadata.name}"
        for device_class in classes
    )
