"""ResourceClaims, ResourceSlices and DeviceClasses, as far as the scheduler reads them.

Besides the objects: which claim an entry of `pod.spec.resourceClaims` means, whether it is the
pod's own, and which device class stands behind an extended resource.
Source: `k8s.io/api/resource/v1/types.go`, `k8s.io/dynamic-resource-allocation/resourceclaim` and
`.../deviceclass/extendedresourcecache`, v0.36.3.

    ClaimError          a pod cannot be scheduled as its claims are; the text says why
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.core import ObjectMeta, Struct
from scheduler.api.resources import is_extended_resource_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.api.core import Pod, PodResourceClaim

#: Followed by a class's name, this is an extended resource that every class stands behind.
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"

#: The annotation of claims that a scheduler has made.
_FOR_EXTENDED_RESOURCES: Final = "resource.kubernetes.io/extended-resource-claim"


class ClaimError(Exception):
    """A pod cannot be scheduled as its claims are."""


class ResourceClaimStatus(Struct, frozen=True):
    """Which devices a claim has got, and who uses them. The parts are kept as they came."""

    allocation: Mapping[str, object] | None = None
    reserved_for: tuple[Mapping[str, object], ...] = ()
    devices: tuple[Mapping[str, object], ...] = ()


class ResourceClaim(Struct, frozen=True):
    """A wish for devices."""

    metadata: ObjectMeta = ObjectMeta()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceSlice(Struct, frozen=True):
    """Devices that a driver offers."""

    metadata: ObjectMeta = ObjectMeta()


class DeviceClassSpec(Struct, frozen=True):
    """What the devices of a class have in common, and the extended resource they stand behind."""

    extended_resource_name: str | None = None


class DeviceClass(Struct, frozen=True):
    """A kind of devices that claims may ask for."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class ClaimReference(NamedTuple):
    """The claim that a pod means; one made from a template must also have been made for the pod."""

    name: str
    must_be_own: bool


def claim_referenced_by(pod: Pod, entry: PodResourceClaim) -> ClaimReference | None:
    """The claim that an entry of a pod's claims means; None if none was made, on purpose.

    Raises `ClaimError` if the claim is yet to be made from its template (`resourceclaim.Name`).
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
    """Raise `ClaimError` unless a claim of the pod's namespace was made for it (`IsForPod`)."""
    owners = claim.metadata.owner_references
    controller = next((owner for owner in owners if owner.controller), None)
    if controller is not None and controller.uid == pod.metadata.uid:
        return
    key = f"{claim.metadata.namespace}/{claim.metadata.name}"
    raise ClaimError(f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)")


def is_claim_for_extended_resources(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether a scheduler has made this claim for a pod's extended resources, in an earlier cycle.

    Source: `findExtendedResourceClaim`.
    """
    return claim.metadata.annotations.get(_FOR_EXTENDED_RESOURCES) == "true" and any(
        owner.controller and (owner.name, owner.uid) == (pod.metadata.name, pod.metadata.uid)
        for owner in claim.metadata.owner_references
    )


def is_dra_extended_resource_name(name: str) -> bool:
    """Whether devices could stand behind a resource (`IsDRAExtendedResourceName`)."""
    return is_extended_resource_name(name) or name.startswith(DEVICE_CLASS_PREFIX)


def is_backed_by(classes: Iterable[DeviceClass], resource: str) -> bool:
    """Whether one of these classes stands behind a resource (`DeviceClassResolver`)."""
    return any(
        resource == device_class.spec.extended_resource_name
        or resource == f"{DEVICE_CLASS_PREFIX}{device_class.metadata.name}"
        for device_class in classes
    )
