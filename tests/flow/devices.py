"""Nodes with devices, and claims with alternatives."""

from __future__ import annotations

from msgspec.structs import replace

from scheduler.api.core import ObjectMeta, Pod, PodResourceClaim
from scheduler.api.dynamic_resources import (
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)

_DRIVER = "gpu.example.com"

_MODEL = f'device.attributes["{_DRIVER}"].model'

GPU = DeviceClass(ObjectMeta(name="gpu", uid="gpu"))


def devices_of(node_name: str, *models: str) -> ResourceSlice:
    """Return the slice of a node with a device of each of these models."""
    devices = tuple(
        Device(f"{number}-{model}", attributes={"model": DeviceAttribute(string_value=model)})
        for number, model in enumerate(models)
    )
    pool = ResourcePool(node_name, resource_slice_count=1)
    spec = ResourceSliceSpec(_DRIVER, pool, node_name=node_name, devices=devices)
    return ResourceSlice(ObjectMeta(name=node_name, uid=node_name), spec)


def claim_of(name: str, *models: str) -> ResourceClaim:
    """Return a claim for a device of the first model that is free."""
    alternatives = tuple(
        DeviceSubRequest(
            name=model,
            device_class_name="gpu",
            selectors=(
                DeviceSelector(
                    CELDeviceSelector(f'device.attributes["{_DRIVER}"].model == "{model}"')
                ),
            ),
            allocation_mode="ExactCount",
            count=1,
        )
        for model in models
    )
    spec = ResourceClaimSpec(DeviceClaim((DeviceRequest("gpu", first_available=alternatives),)))
    return ResourceClaim(ObjectMeta(name=name, namespace="default", uid=name), spec)


def claiming(pod: Pod, claim: ResourceClaim) -> Pod:
    """Return the pod with a claim of its own."""
    entry = PodResourceClaim(name="gpu", resource_claim_name=claim.metadata.name)
    return replace(pod, spec=replace(pod.spec, resource_claims=(entry,)))
