"""The traits of claims, slices and classes in a history, and the objects made from them."""

from typing import Any

import msgspec

from scheduler.api.core import ObjectMeta
from scheduler.api.dynamic_resources import (
    DeviceClass,
    DeviceClassSpec,
    ResourceClaimSpec,
    ResourceSlice,
    ResourceSliceSpec,
)

DRIVER = "gpu.example.com"
#: The extended resource of the class `gpu`.
EXTENDED = "example.com/gpu"
READY, BROKEN = "Ready", "Broken"
#: Units of the counter and of the capacity that one pool or one device has.
UNITS = 4


def device_class_of(name: str, *, fast: bool = False, extended: bool = False) -> DeviceClass:
    """A class of all devices, or of those that are fast."""
    cel = "device.attributes['gpu.example.com'].model == 'fast'"
    selectors = [{"cel": {"expression": cel}}] if fast else []
    spec: dict[str, Any] = {"selectors": selectors}
    if extended:
        spec["extendedResourceName"] = EXTENDED
    return DeviceClass(ObjectMeta(name=name), msgspec.convert(spec, DeviceClassSpec))


def slice_of(
    name: str,
    *,
    generation: int,
    node: str = "",
    devices: int = 2,
    kind: str = "plain",
    driver: str = DRIVER,
) -> ResourceSlice:
    """The only slice of the pool of its name; for all nodes without `node`.

    The kinds: `fast` has another model; `counters` has devices that share a counter, of which the
    first takes all; `capacity` has devices for several claims; `conditions` has devices that must
    become ready; `tainted` has devices that no claim tolerates.
    """
    spec: dict[str, Any] = {
        "driver": driver,
        "pool": {"name": name, "generation": generation, "resourceSliceCount": 1},
        "devices": [_device(number, kind) for number in range(devices)],
        **({"nodeName": node} if node else {"allNodes": True}),
    }
    if kind == "counters":
        counter = {"name": "units", "counters": {"units": {"value": str(UNITS)}}}
        spec["sharedCounters"] = [counter]
    return ResourceSlice(
        ObjectMeta(name=f"{driver}-{name}"), msgspec.convert(spec, ResourceSliceSpec)
    )


def _device(number: int, kind: str) -> dict[str, Any]:
    device: dict[str, Any] = {
        "name": f"d{number}",
        "attributes": {"model": {"string": "fast" if kind == "fast" else "slow"}},
    }
    if kind == "counters":
        units = UNITS if number == 0 else UNITS // 2
        device["consumesCounters"] = [
            {"counterSet": "units", "counters": {"units": {"value": str(units)}}}
        ]
    elif kind == "capacity":
        device["allowMultipleAllocations"] = True
        device["capacity"] = {
            "units": {
                "value": str(UNITS),
                "requestPolicy": {"default": "1", "validRange": {"min": "1"}},
            }
        }
    elif kind == "conditions":
        device["bindingConditions"] = [READY]
        device["bindingFailureConditions"] = [BROKEN]
    elif kind == "tainted":
        device["taints"] = [{"key": "worn", "effect": "NoSchedule"}]
    return device


def claim_spec_of(
    *,
    device_class: str = "gpu",
    count: int = 1,
    everything: bool = False,
    instead: str = "",
    units: int = 0,
    one_model: bool = False,
) -> ResourceClaimSpec:
    """The request of a claim: `count` devices of a class, or `everything`; `instead` is another
    class, which is used if there is no device of the first.
    """
    request: dict[str, Any] = {"deviceClassName": device_class}
    if everything:
        request["allocationMode"] = "All"
    else:
        request |= {"allocationMode": "ExactCount", "count": count}
    if units:
        request["capacity"] = {"requests": {"units": str(units)}}
    if instead:
        choices = [{"name": "first", **request}]
        choices.append({**request, "name": "second", "deviceClassName": instead})
        requests: list[dict[str, Any]] = [{"name": "r", "firstAvailable": choices}]
    else:
        requests = [{"name": "r", "exactly": request}]
    devices: dict[str, Any] = {"requests": requests}
    if one_model:
        devices["constraints"] = [{"matchAttribute": f"{DRIVER}/model"}]
    return msgspec.convert({"devices": devices}, ResourceClaimSpec)
