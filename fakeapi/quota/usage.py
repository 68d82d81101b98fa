"""The use of an object, by the names that quotas have for it.

Source: pkg/quota/v1/evaluator/core/{pods,services,persistent_volume_claims,resource_claims}.go of
Kubernetes v1.36.3 and apiserver pkg/quota/v1/generic/evaluator.go. Extended resources that device
classes stand for (DRAExtendedResource) are charged to pods, and not once more to their claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.kinds.persistent_volumes import claim_class
from fakeapi.types import times
from fakeapi.types.kind import CLAIMS, PODS
from fakeapi.types.objects import Json, integer, is_deleting, mapping, mappings, metadata_of, text
from fakeapi.types.pod_resources import (
    HUGE_PAGES_PREFIX,
    REQUESTS_PREFIX,
    amounts,
    is_extended_resource,
    is_native_resource,
    is_pod_level_resource,
    pod_sums,
)
from fakeapi.types.quantity import NANO, Amount

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.types.kind import ResourceKey

SERVICES: Final = ("", "services")
DEVICE_CLAIMS: Final = ("resource.k8s.io", "resourceclaims")
#: Objects that are never counted.
IGNORED: Final = frozenset({("", "events"), ("events.k8s.io", "events"), ("", "bindings")})
_ONE: Final = Amount(NANO)
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
#: Names that every container must set if a quota counts them.
_COMPULSORY: Final = frozenset(
    f"{prefix}{name}" for prefix in ("", REQUESTS_PREFIX, "limits.") for name in ("cpu", "memory")
)
_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
_POD_NAMES: Final = frozenset(
    {"count/pods", "pods"}
    | {f"{prefix}{name}" for prefix in ("", REQUESTS_PREFIX, "limits.") for name in _COMPUTE}
)
_SERVICE_NAMES: Final = frozenset(
    {"count/services", "services", "services.nodeports", "services.loadbalancers"}
)
_STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"
_CLAIM_NAMES: Final = ("persistentvolumeclaims", "requests.storage")
_PER_DEVICE_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
#: The maximum of devices of one request; the allocation mode `All` counts as that many.
_DEVICES_MAX: Final = 32
#: Kinds that were counted before there was count/.
_ALIASES: Final = {
    ("", kind): kind
    for kind in ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
}
_COUNT: Final = "count/"


def count_name(resource: ResourceKey) -> str:
    """Return the name of the number of objects of a resource."""
    group, plural = resource
    return f"{_COUNT}{plural}.{group}" if group else f"{_COUNT}{plural}"


def names_of(resource: ResourceKey, names: Iterable[str]) -> list[str]:
    """Return the names of a quota that objects of the resource may count for, in order."""
    return sorted(name for name in names if _is_for(resource, name))


def resources_of(names: Iterable[str]) -> set[ResourceKey]:
    """Return the resources whose objects may count for one of the names."""
    resources = {key for key in (PODS, SERVICES, CLAIMS, DEVICE_CLAIMS) if names_of(key, names)}
    for name in names:
        if name.startswith(_COUNT):
            plural, _, group = name.removeprefix(_COUNT).partition(".")
            resources.add((group, plural))
    resources.update(resource for resource, alias in _ALIASES.items() if alias in names)
    return resources - IGNORED


def _is_for(resource: ResourceKey, name: str) -> bool:
    if name == count_name(resource):
        return True
    if resource == PODS:
        return name in _POD_NAMES or _is_of_pods(name)
    if resource == SERVICES:
        return name in _SERVICE_NAMES
    if resource == CLAIMS:
        return name in _CLAIM_NAMES or name.endswith(
            tuple(f"{_STORAGE_CLASS}{name_end}" for name_end in _CLAIM_NAMES)
        )
    if resource == DEVICE_CLAIMS:
        return name.endswith(_PER_DEVICE_CLASS)
    return _ALIASES.get(resource) == name


def _is_of_pods(name: str) -> bool:
    if name.startswith((HUGE_PAGES_PREFIX, f"{REQUESTS_PREFIX}{HUGE_PAGES_PREFIX}")):
        return True
    if not name.startswith(REQUESTS_PREFIX):
        return False
    return not is_native_resource(name) or name.startswith(f"{REQUESTS_PREFIX}{_DEVICE_CLASS}")


def usage_of(resource: ResourceKey, obj: Json) -> dict[str, Amount]:
    """Return the use of an object; the other resources of its kind are zero."""
    if resource == PODS:
        return _of_pod(obj)
    if resource == SERVICES:
        return _of_service(obj)
    if resource == CLAIMS:
        return _of_claim(obj)
    if resource == DEVICE_CLAIMS:
        return _of_device_claim(obj)
    used = {count_name(resource): _ONE}
    if resource in _ALIASES:
        used[_ALIASES[resource]] = _ONE
    return used


def is_past_its_end(pod: Json, now_seconds: float) -> bool:
    """Return True if the grace period of a deleted pod is over: the pod no longer counts."""
    metadata = metadata_of(pod)
    grace = metadata.get("deletionGracePeriodSeconds")
    if not is_deleting(pod) or not isinstance(grace, int):
        return False
    return now_seconds > times.epoch_seconds(text(metadata["deletionTimestamp"])) + grace


def missing_in_containers(pod: Json, required: list[str]) -> dict[str, list[str]]:
    """Return required names of cpu and memory with the containers that lack them."""
    spec = mapping(pod.get("spec"))
    pod_level = mapping(spec.get("resources"))
    whole = (*mapping(pod_level.get("requests")), *mapping(pod_level.get("limits")))
    if any(is_pod_level_resource(name) for name in whole):
        return {}
    compulsory = [name for name in required if name in _COMPULSORY]
    missing: dict[str, list[str]] = {}
    for container in mappings(spec.get("containers")) + mappings(spec.get("initContainers")):
        resources = mapping(container.get("resources"))
        names = _compute(amounts(resources.get("requests")), amounts(resources.get("limits")))
        for name in compulsory:
            if name not in names:
                missing.setdefault(name, []).append(text(container.get("name")))
    return {name: sorted(set(missing[name])) for name in sorted(missing)}


def _of_pod(pod: Json) -> dict[str, Amount]:
    counted = {count_name(PODS): _ONE}
    if mapping(pod.get("status")).get("phase") in ("Succeeded", "Failed"):
        return counted
    computed = _compute(pod_sums(pod, "requests"), pod_sums(pod, "limits"))
    return {**counted, "pods": _ONE, **computed}


def _compute(requests: dict[str, Amount], limits: dict[str, Amount]) -> dict[str, Amount]:
    used: dict[str, Amount] = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(HUGE_PAGES_PREFIX):
            used[name] = used[f"{REQUESTS_PREFIX}{name}"] = amount
        elif is_extended_resource(name) or name.startswith(_DEVICE_CLASS):
            used[f"{REQUESTS_PREFIX}{name}"] = amount
    used.update({f"limits.{name}": limits[name] for name in _COMPUTE if name in limits})
    return used


def _of_service(service: Json) -> dict[str, Amount]:
    spec = mapping(service.get("spec"))
    ports, kind = mappings(spec.get("ports")), spec.get("type")
    balancers = node_ports = 0
    if kind == "NodePort":
        node_ports = len(ports)
    elif kind == "LoadBalancer":
        balancers = 1
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
        node_ports = len(ports)
    return {
        "count/services": _ONE,
        "services": _ONE,
        "services.loadbalancers": Amount(balancers * NANO),
        "services.nodeports": Amount(node_ports * NANO),
    }


def _of_claim(claim: Json) -> dict[str, Amount]:
    used = {count_name(CLAIMS): _ONE, "persistentvolumeclaims": _ONE}
    requests = mapping(mapping(mapping(claim.get("spec")).get("resources")).get("requests"))
    wanted = amounts(requests).get("storage")
    if wanted is not None:
        allocated = mapping(mapping(claim.get("status")).get("allocatedResources"))
        largest = max(wanted, amounts(allocated).get("storage", wanted))
        used["requests.storage"] = Amount(-(-largest // NANO) * NANO, largest.style)
    name = claim_class(claim)
    if name:
        for end in _CLAIM_NAMES:
            if end in used:
                used[f"{name}{_STORAGE_CLASS}{end}"] = used[end]
    return used


def _of_device_claim(claim: Json) -> dict[str, Amount]:
    """Devices by class; of alternatives the one that takes the most of a class."""
    devices: dict[str, int] = {}
    requests = mapping(mapping(claim.get("spec")).get("devices")).get("requests")
    for request in mappings(requests):
        alternatives = mappings(request.get("firstAvailable")) or [mapping(request.get("exactly"))]
        most: dict[str, int] = {}
        for alternative in alternatives:
            name = text(alternative.get("deviceClassName"))
            most[name] = max(most.get(name, 0), _device_count(alternative))
        for name, count in most.items():
            if name:
                devices[name] = devices.get(name, 0) + count
    used = {f"{name}{_PER_DEVICE_CLASS}": Amount(n * NANO) for name, n in devices.items()}
    return {count_name(DEVICE_CLAIMS): _ONE, **used}


def _device_count(request: Json) -> int:
    mode = request.get("allocationMode")
    if mode == "All":
        return _DEVICES_MAX
    return integer(request.get("count")) if mode == "ExactCount" else 0
