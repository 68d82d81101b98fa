"""ResourceClaims, ResourceSlices, DeviceClasses and DeviceTaintRules, as the scheduler reads them.

Beside the objects: the claim of an entry of `pod.spec.resourceClaims`, the owner of a claim, and
the device class of an extended resource.
Source: `k8s.io/api/resource/v1/types.go`, `k8s.io/dynamic-resource-allocation/resourceclaim` and
`.../deviceclass/extendedresourcecache`, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from scheduler.api.core import NodeSelector, ObjectMeta, Quantities, Struct
from scheduler.api.resources import is_extended_resource_name

if TYPE_CHECKING:
    from scheduler.api.core import Pod, PodResourceClaim, PodResourceClaimStatus

#: With a class's name after it, the implicit extended resource of a device class.
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"

#: The annotation of claims that a scheduler has created.
EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"

#: The finalizer of allocated claims.
FINALIZER: Final = "resource.kubernetes.io/delete-protection"

#: The most devices that one claim can have.
ALLOCATION_RESULTS_MAX: Final = 32

#: A quantity as it is written in the API.
Quantity = str | int | float

#: The fault of an entry that names neither a claim nor a template.
UNSUPPORTED_CLAIM: Final = "none of the supported fields are set"

_NO_QUANTITIES: Final[Quantities] = MappingProxyType({})


class ClaimError(Exception):
    """A pod cannot be scheduled because of its claims; the text is upstream's reason."""


class DeviceTaint(Struct, frozen=True):
    """A taint keeps claims without a matching toleration away from a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceToleration(Struct, frozen=True):
    """A toleration of device taints; an empty key or effect matches all."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Return True if the toleration matches the taint (`ToleratesTaint`)."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


class CELDeviceSelector(Struct, frozen=True):
    """An expression that must be true for a device."""

    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    """A condition on devices; `cel` is None for an unknown kind of selector."""

    cel: CELDeviceSelector | None = None


class CapacityRequirements(Struct, frozen=True):
    """The capacity that a request takes of each device."""

    requests: Quantities = _NO_QUANTITIES


class DeviceDerivedAttribute(Struct, frozen=True):
    """An expression whose value constraints use as an attribute of each device."""

    name: str = ""
    expression: str = ""


class DeviceSubRequest(Struct, frozen=True):
    """One of the alternatives of a request."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class ExactDeviceRequest(Struct, frozen=True):
    """A request without alternatives."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[DeviceDerivedAttribute, ...] = ()


class DeviceRequest(Struct, frozen=True):
    """A request for devices of one class: exactly one, or the first available of several."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Struct, frozen=True):
    """A condition on all devices of some requests together."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Struct, frozen=True):
    """Parameters for the driver, for some requests or for all."""

    requests: tuple[str, ...] = ()
    opaque: Mapping[str, object] | None = None


class DeviceClaim(Struct, frozen=True):
    """The devices that a claim requests."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Struct, frozen=True):
    """The specification of a claim."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Struct, frozen=True):
    """A device that is allocated for a request."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: Quantities | None = None
    skip_node_operations: tuple[str, ...] = ()


class DeviceAllocationConfiguration(Struct, frozen=True):
    """Parameters for the driver, from a class or from the claim."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: Mapping[str, object] | None = None


class DeviceAllocationResult(Struct, frozen=True):
    """The devices of a claim and their configuration."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Struct, frozen=True):
    """The devices that a claim has, and the nodes that can reach them; None for all nodes."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: datetime | None = None


class ResourceClaimConsumerReference(Struct, frozen=True):
    """An object that uses a claim, mostly a pod."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(Struct, frozen=True):
    """A condition of an allocated device, set by its driver."""

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: str = ""
    reason: str = ""
    message: str = ""


class AllocatedDeviceStatus(Struct, frozen=True):
    """The status of an allocated device, set by its driver."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(name="shareID", default=None)
    conditions: tuple[DeviceCondition, ...] = ()
    data: object = None
    network_data: object = None


class ResourceClaimStatus(Struct, frozen=True):
    """The devices and the users of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Struct, frozen=True):
    """`resource/v1.ResourceClaim`: a request for devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def is_reserved_for(self, uid: str) -> bool:
        """Return True if the object with this uid may use the claim (`IsReservedForPod`)."""
        return any(consumer.uid == uid for consumer in self.status.reserved_for)


class DeviceAttribute(Struct, frozen=True):
    """A fact about a device; exactly one field is set. The last four are lists."""

    int_value: int | None = msgspec.field(name="int", default=None)
    bool_value: bool | None = msgspec.field(name="bool", default=None)
    string_value: str | None = msgspec.field(name="string", default=None)
    version_value: str | None = msgspec.field(name="version", default=None)
    int_values: tuple[int, ...] | None = msgspec.field(name="ints", default=None)
    bool_values: tuple[bool, ...] | None = msgspec.field(name="bools", default=None)
    string_values: tuple[str, ...] | None = msgspec.field(name="strings", default=None)
    version_values: tuple[str, ...] | None = msgspec.field(name="versions", default=None)


class CapacityRequestPolicyRange(Struct, frozen=True):
    """The amounts from `min` to `max` in multiples of `step`."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Struct, frozen=True):
    """The amounts of a capacity that may be requested."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Struct, frozen=True):
    """An amount that a device offers, for example of memory."""

    value: Quantity = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(Struct, frozen=True):
    """An amount of a counter."""

    value: Quantity = "0"


class CounterSet(Struct, frozen=True):
    """Counters that the devices of a pool share."""

    name: str = ""
    counters: Mapping[str, Counter] = MappingProxyType({})


class DeviceCounterConsumption(Struct, frozen=True):
    """The amounts that a device takes from a counter set while it is allocated."""

    counter_set: str = ""
    counters: Mapping[str, Counter] = MappingProxyType({})
    compatibility_groups: tuple[str, ...] = ()


class NodeAllocatableResourceMapping(Struct, frozen=True):
    """The amount of a node's resource that a device stands for (v1.36).

    With `capacity_key` it is the consumed capacity times the multiplier.
    """

    capacity_key: str | None = None
    allocation_multiplier: Quantity | None = None


class NodeAllocatableMapping(Struct, frozen=True):
    """The amount of a node's resource that a device stands for, or that its capacity does."""

    device_multiplier: Quantity | None = None
    capacity_key: str | None = None
    capacity_multiplier: Quantity | None = None


class NodeAllocatableOverhead(Struct, frozen=True):
    """The amount of a node's resource that the use of a device costs."""

    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResource(Struct, frozen=True):
    """The amounts of a resource of the node that a device stands for and costs."""

    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(Struct, frozen=True):
    """A device of a slice."""

    name: str = ""
    attributes: Mapping[str, DeviceAttribute] = MappingProxyType({})
    capacity: Mapping[str, DeviceCapacity] = MappingProxyType({})
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: Mapping[str, NodeAllocatableResourceMapping] = (
        MappingProxyType({})
    )
    node_allocatable_resources: Mapping[str, NodeAllocatableResource] = MappingProxyType({})


class ResourcePool(Struct, frozen=True):
    """The pool of a slice; slices of an older generation are outdated."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Struct, frozen=True):
    """The devices of a slice, and the nodes that can reach them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()


class ResourceSlice(Struct, frozen=True):
    """`resource/v1.ResourceSlice`: devices of a driver."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(Struct, frozen=True):
    """The devices of a rule. All fields that are given must be equal, and all selectors match.

    A rule can select by class and by expressions in 1.34 only.
    """

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceTaintRuleSpec(Struct, frozen=True):
    """A taint, and the devices that get it."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Struct, frozen=True):
    """`resource.DeviceTaintRule`: a taint that an administrator adds to devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


class DeviceClassConfiguration(Struct, frozen=True):
    """Parameters for the driver of each device of a class."""

    opaque: Mapping[str, object] | None = None


class DeviceClassSpec(Struct, frozen=True):
    """The devices of a class, and the extended resource that they provide."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
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
    """Return the claim of an entry of a pod's claims, as `claim_of_entry` does."""
    statuses = pod.status.resource_claim_statuses
    return claim_of_entry(entry, statuses, owner=f'pod "{pod.key}"', name=f'"{entry.name}"')


def claim_of_entry(
    entry: PodResourceClaim, statuses: Iterable[PodResourceClaimStatus], *, owner: str, name: str
) -> ClaimReference | None:
    """Return the claim of an entry of a pod or a pod group; None if it deliberately has none.

    Raises ClaimError, with the `owner` and the `name` of the entry, if the claim is not yet created
    from its template. Source: `resourceclaim.Name`.
    """
    if entry.resource_claim_name is not None:
        return ClaimReference(entry.resource_claim_name, must_be_own=False)
    if entry.resource_claim_template_name is None:
        raise ClaimError(f"{owner}, spec.resourceClaim {name}: {UNSUPPORTED_CLAIM}")
    for status in statuses:
        if status.name == entry.name:
            made = status.resource_claim_name
            return ClaimReference(made, must_be_own=True) if made is not None else None
    raise ClaimError(f"{owner}: ResourceClaim not created yet")


def names_claim(pod: Pod, claim: ResourceClaim) -> bool:
    """Return True if a pod names a claim; claims for extended resources do not count."""
    names = {entry.resource_claim_name for entry in pod.spec.resource_claims} | {
        status.resource_claim_name for status in pod.status.resource_claim_statuses
    }
    in_namespace = pod.metadata.namespace == claim.metadata.namespace
    return in_namespace and claim.metadata.name in names


def frees(original: ResourceClaim | None, modified: ResourceClaim | None) -> bool:
    """Return True if a change of a claim frees its devices. Deletions are not events."""
    return modified is not None and frees_if_deleted(original, modified)


def frees_if_deleted(original: ResourceClaim | None, modified: ResourceClaim | None) -> bool:
    """Return True if a change or the deletion of a claim frees its devices (v1.37)."""
    had_devices = original is not None and original.status.allocation is not None
    return had_devices and (modified is None or modified.status.allocation is None)


def ensure_is_for_pod(pod: Pod, claim: ResourceClaim) -> None:
    """Raise ClaimError unless a claim of the pod's namespace was created for it (`IsForPod`)."""
    if is_controlled_by(claim, pod.metadata.uid):
        return
    text = f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)"
    raise ClaimError(text)


def is_controlled_by(claim: ResourceClaim, uid: str) -> bool:
    """Return True if the object with this uid is the controller of a claim."""
    controller = claim.metadata.controller
    return controller is not None and controller.uid == uid


def is_claim_for_extended_resources(pod: Pod, claim: ResourceClaim) -> bool:
    """Return True if a scheduler has created this claim for the pod's extended resources.

    Source: `findExtendedResourceClaim`.
    """
    return claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true" and any(
        owner.controller and (owner.name, owner.uid) == (pod.metadata.name, pod.metadata.uid)
        for owner in claim.metadata.owner_references
    )


def is_dra_extended_resource_name(name: str) -> bool:
    """Return True if a resource may have a device class (`IsDRAExtendedResourceName`)."""
    return is_extended_resource_name(name) or name.startswith(DEVICE_CLASS_PREFIX)
