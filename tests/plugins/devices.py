"""Claims, device classes, and a DynamicResources plugin that reads them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from msgspec.structs import replace

from scheduler.api import core
from scheduler.api.dynamic_resources import (
    AllocationResult,
    Device,
    DeviceAllocationResult,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from scheduler.client import ApiObject, Store
from scheduler.config import (
    DEFAULT_SCHEDULER_VERSION,
    FeatureGates,
    SchedulerVersion,
    default_feature_gates,
)
from scheduler.devices.classes import DRA_EXTENDED_RESOURCE
from scheduler.plugins.dynamic_resources.dynamic_resources import (
    DynamicResources,
    DynamicResourcesArgs,
)
from scheduler.runtime.registry import Registry
from scheduler.snapshot import Snapshot
from scheduler.testing import FakeHandle, VirtualClock, make_pod

#: Some devices, as a driver's allocator would write them down.
ALLOCATION = AllocationResult(
    DeviceAllocationResult((DeviceRequestAllocationResult("r", "d", "p", "0"),))
)


def dynamic_resources(
    claims: Iterable[ResourceClaim] = (),
    classes: Iterable[DeviceClass] = (),
    args: DynamicResourcesArgs | None = None,
    slices: Iterable[ResourceSlice] = (),
    clock: VirtualClock | None = None,
    snapshot: Snapshot | None = None,
    version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION,
) -> DynamicResources:
    """The plugin in a cluster with these claims, classes and slices; extended resources are on."""
    listers = {
        "resourceclaims": lister(claims),
        "deviceclasses": lister(classes),
        "resourceslices": lister(slices),
        "devicetaintrules": lister(()),
    }
    gates = FeatureGates({*default_feature_gates(version), DRA_EXTENDED_RESOURCE})
    handle = FakeHandle(
        snapshot, listers=listers, clock=clock, version=version, feature_gates=gates
    )
    registry = Registry([DynamicResources])
    return cast(
        "DynamicResources",
        registry.create("DynamicResources", args, handle),
    )


def lister(objects: Iterable[ApiObject]) -> Store[Any]:
    """Return a lister of these objects."""
    return Store(objects)


def make_claim(
    name: str = "claim",
    *,
    owner_uid: str = "",
    allocation: AllocationResult | None = None,
    annotations: Mapping[str, str] | None = None,
    is_deleted: bool = False,
) -> ResourceClaim:
    """A claim in the namespace `default`; `owner_uid` is the pod it was made for."""
    owners = (
        (core.OwnerReference(kind="Pod", name="pod", uid=owner_uid, controller=True),)
        if owner_uid
        else ()
    )
    metadata = core.ObjectMeta(
        name=name,
        namespace="default",
        uid=f"uid-{name}",
        owner_references=owners,
        annotations=dict(annotations or {}),
        deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC) if is_deleted else None,
    )
    return ResourceClaim(metadata, ResourceClaimSpec(), ResourceClaimStatus(allocation=allocation))


def make_class(name: str = "class", *, extended_resource_name: str | None = None) -> DeviceClass:
    """Return a device class, optionally with the extended resource that it provides."""
    return DeviceClass(
        core.ObjectMeta(name=name), DeviceClassSpec(extended_resource_name=extended_resource_name)
    )


def slice_of(node_name: str, *names: str) -> ResourceSlice:
    """Return a slice with these devices of a node."""
    spec = ResourceSliceSpec(
        "gpu.example.com",
        ResourcePool(node_name, resource_slice_count=1),
        node_name=node_name,
        devices=tuple(map(Device, names)),
    )
    return ResourceSlice(core.ObjectMeta(name=node_name), spec)


def with_claims(
    *claims: core.PodResourceClaim,
    made: Mapping[str, str | None] | None = None,
    pod: core.Pod | None = None,
) -> core.Pod:
    """A pod that names these claims; `made` has those made from templates, by their entry."""
    pod = make_pod() if pod is None else pod
    statuses = tuple(
        core.PodResourceClaimStatus(name=entry, resource_claim_name=claim)
        for entry, claim in (made or {}).items()
    )
    return replace(
        pod,
        spec=replace(pod.spec, resource_claims=claims),
        status=replace(pod.status, resource_claim_statuses=statuses),
    )


def by_name(name: str = "claim", *, entry: str = "devices") -> core.PodResourceClaim:
    """An entry that names a claim."""
    return core.PodResourceClaim(name=entry, resource_claim_name=name)


def by_template(*, entry: str = "devices") -> core.PodResourceClaim:
    """An entry whose claim is made from a template."""
    return core.PodResourceClaim(name=entry, resource_claim_template_name="template")
