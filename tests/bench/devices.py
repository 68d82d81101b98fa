"""Pods with resource claims: scheduler_perf's shape, one slice of ten devices on each node."""

from collections.abc import Sequence

from msgspec.structs import replace

from scheduler.api.core import ObjectMeta, Pod, PodResourceClaim
from scheduler.api.dynamic_resources import (
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from scheduler.client import ApiObject
from tests.bench.cycles import Workload, basic_workload

_DEVICES = 10
_DRIVER = "gpu.example.com"


def devices_workload(
    nodes_total: int, pods_total: int, *, devices: int, with_cel: bool
) -> Workload:
    """Each pod has a claim of its own for so many devices of the model that nine of ten are."""
    workload = basic_workload(nodes_total, pods_total)
    class_selectors = (_selector(f'device.driver == "{_DRIVER}"'),) if with_cel else ()
    model = f'device.attributes["{_DRIVER}"].model == "a100"'
    exactly = ExactDeviceRequest(
        "gpu", (_selector(model),) if with_cel else (), "ExactCount", devices
    )
    spec = ResourceClaimSpec(DeviceClaim((DeviceRequest("devices", exactly),)))
    claims = [ResourceClaim(_named(f"claim-{i}", "default"), spec) for i in range(pods_total)]
    others: dict[str, Sequence[ApiObject]] = {
        "resourceclaims": claims,
        "resourceslices": [_slice(number) for number in range(nodes_total)],
        "deviceclasses": [DeviceClass(_named("gpu"), DeviceClassSpec(class_selectors))],
    }
    pods = [_with_claim(pod, f"claim-{i}") for i, pod in enumerate(workload.pods)]
    return workload._replace(name="devices", pods=pods, others=others)


def _named(name: str, namespace: str = "") -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, uid=name, resource_version="1")


def _selector(expression: str) -> DeviceSelector:
    return DeviceSelector(CELDeviceSelector(expression))


def _slice(number: int) -> ResourceSlice:
    name = f"node-{number}"
    devices = tuple(
        Device(
            f"device-{index}",
            attributes={"model": DeviceAttribute(string_value="a100" if index else "t4")},
            capacity={"memory": DeviceCapacity("40Gi")},
        )
        for index in range(_DEVICES)
    )
    pool = ResourcePool(name, 1, 1)
    spec = ResourceSliceSpec(_DRIVER, pool, node_name=name, devices=devices)
    return ResourceSlice(_named(name), spec)


def _with_claim(pod: Pod, claim: str) -> Pod:
    entry = PodResourceClaim("devices", resource_claim_name=claim)
    return replace(pod, spec=replace(pod.spec, resource_claims=(entry,)))
