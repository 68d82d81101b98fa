"""Resource requests of pods, and allocatable resources of nodes.

All arithmetic is in exact nano-units (see `quantity`); `counted` rounds once, at the end.
Source: component-helpers `resource/helpers.go`, `pkg/scheduler/framework/types.go`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from scheduler.api.names import label_key_errors
from scheduler.api.quantity import milli_value, parse_quantity, value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scheduler.api.core import (
        Container,
        ContainerStatus,
        NodeAllocatableResourceClaimStatus,
        Pod,
        Quantities,
    )

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

#: The assumed requests of a container without any (`pkg/scheduler/util/pod_resources.go`).
DEFAULT_MILLI_CPU_REQUEST: Final = 100
DEFAULT_MEMORY_REQUEST_BYTES: Final = 200 * 1024 * 1024

#: Requests in nano-units, by resource name.
Requests = dict[str, int]

#: The two defaults as requests, for scores: pods without requests are not free there.
NON_ZERO_REQUESTS: Final[Mapping[str, int]] = {
    CPU: DEFAULT_MILLI_CPU_REQUEST * 10**6,
    MEMORY: DEFAULT_MEMORY_REQUEST_BYTES * 10**9,
}

_HUGE_PAGES_PREFIX: Final = "hugepages-"
_ATTACHABLE_VOLUMES_PREFIX: Final = "attachable-volumes-"
_NATIVE_DOMAIN: Final = "kubernetes.io/"
_QUOTA_PREFIX: Final = "requests."


@functools.lru_cache(maxsize=4096)
def is_extended_resource_name(name: str) -> bool:
    """Return True for a resource with a domain of its own, such as a vendor's device."""
    if "/" not in name or _NATIVE_DOMAIN in name or name.startswith(_QUOTA_PREFIX):
        return False
    return not label_key_errors(_QUOTA_PREFIX + name)


@functools.lru_cache(maxsize=4096)
def is_scalar_resource_name(name: str) -> bool:
    """Return True for a resource that is counted beside the built-in ones."""
    return (
        is_extended_resource_name(name)
        or name.startswith((_HUGE_PAGES_PREFIX, _ATTACHABLE_VOLUMES_PREFIX))
        or _NATIVE_DOMAIN in name
    )


def is_huge_page_resource_name(name: str) -> bool:
    """Return True for huge pages of any size."""
    return name.startswith(_HUGE_PAGES_PREFIX)


def is_pod_level_resource(name: str) -> bool:
    """Return True for a resource that `pod.spec.resources` may request."""
    return name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES_PREFIX)


def is_sidecar(container: Container) -> bool:
    """Return True for an init container that keeps running beside the regular ones."""
    return container.restart_policy == "Always"


def pod_level_requests_set(pod: Pod) -> bool:
    """Return True if `pod.spec.resources` requests something."""
    return pod.spec.resources is not None and any(
        is_pod_level_resource(name) for name in pod.spec.resources.requests
    )


def pod_requests(
    pod: Pod,
    *,
    use_status: bool = False,
    use_pod_level: bool = True,
    use_claims: bool = False,
    non_missing: Mapping[str, int] | None = None,
) -> Requests:
    """Return the requests of a pod in nano-units, with overhead.

    `use_status` includes the resources that the kubelet has given each container (in-place resize),
    with `use_claims` what the pod's claims take of the node's resources, with `use_pod_level` the
    requests of the whole pod replace the sum of the containers', and `non_missing` are defaults for
    requests that a container does not have. Source: `PodRequests`.
    """
    statuses = pod.status.node_allocatable_resource_claim_statuses if use_claims else ()
    claims = claim_requests(statuses)
    if use_status and pod.sums_resources:
        requests = _summed_requests(pod, claims, non_missing)
    else:
        requests = _container_requests(pod, use_status=use_status, non_missing=non_missing)
        _add(requests, claims)
    if use_pod_level and pod.spec.resources is not None:
        requests |= _pod_level_requests(pod, pod.spec.resources.requests, use_status=use_status)
    if pod.spec.overhead:
        _add(requests, _parsed(pod.spec.overhead))
    return requests


def _pod_level_requests(pod: Pod, spec: Quantities, *, use_status: bool) -> Requests:
    """Return the requests of the whole pod: the greatest of spec and status in a resize."""
    if not any(map(is_pod_level_resource, spec)):
        return {}
    status = pod.status.resources if use_status else None
    if status is None:
        requests = _parsed(spec)
    else:
        allocated = pod.status.allocated_resources
        requests = _effective_requests(pod, spec, status.requests, allocated)
        if not pod.sums_resources:
            requests = {name: requests.get(name, 0) for name in spec}
    return {name: nanos for name, nanos in requests.items() if is_pod_level_resource(name)}


def claim_requests(statuses: Iterable[NodeAllocatableResourceClaimStatus]) -> Requests:
    """Return what claims take of the node (`addDRANodeAllocatableClaimResources`)."""
    requests: Requests = {}
    for status in statuses:
        _add(requests, _parsed(status.resources))
        for mapping in status.mapping:
            _add(requests, {mapping.name: parse_quantity(mapping.quantity or 0)})
        for overhead in status.overhead:
            per_container = parse_quantity(overhead.per_container or 0) * len(status.containers)
            _add(requests, {overhead.name: parse_quantity(overhead.per_pod or 0) + per_container})
    return requests


def _summed_requests(pod: Pod, claims: Requests, non_missing: Mapping[str, int] | None) -> Requests:
    """Return the maximum of three sums over the containers: spec, allocated and actuated.

    The rule since 1.37. Up to 1.36 the maximum of each container counts (`_container_requests`), so
    that a pod needs more while one container shrinks and another one grows.
    """
    of_pod, is_infeasible = pod.status, _resize_is_infeasible(pod)
    statuses = _container_statuses(pod)

    def sum_up(quantities: Callable[[Container], Quantities]) -> Requests:
        defaults = non_missing or {}
        return _aggregate(pod, lambda container: {**defaults, **_parsed(quantities(container))})

    def allocated(container: Container) -> Quantities:
        status = statuses.get(container.name)
        without: Quantities = {} if is_infeasible else container.resources.requests
        return (status.allocated_resources if status else None) or without

    def actuated(container: Container) -> Quantities:
        status = statuses.get(container.name)
        resources = status.resources if status else None
        return (resources.requests if resources else None) or allocated(container)

    if of_pod.allocated_resources and of_pod.resources is not None and of_pod.resources.requests:
        requests = _parsed(of_pod.allocated_resources)
        _raise_to(requests, _parsed(of_pod.resources.requests))
    else:
        requests = sum_up(allocated)
        _add(requests, claims)
        _raise_to(requests, sum_up(actuated))
    if not is_infeasible:
        wanted = sum_up(lambda container: container.resources.requests)
        _add(wanted, claims)
        _raise_to(requests, wanted)
    return requests


def _container_requests(
    pod: Pod, *, use_status: bool, non_missing: Mapping[str, int] | None
) -> Requests:
    statuses: dict[str, ContainerStatus] = {}
    if use_status and (pod.status.container_statuses or pod.status.init_container_statuses):
        statuses = _container_statuses(pod)
        for container in pod.spec.init_containers:
            if not is_sidecar(container):
                statuses.pop(container.name, None)
    return _aggregate(pod, lambda c: _requests_of(c, pod, statuses.get(c.name), non_missing))


def _container_statuses(pod: Pod) -> dict[str, ContainerStatus]:
    """Return the statuses of all containers by name, which is unique among them."""
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return {status.name: status for status in statuses}


def pod_limits(pod: Pod) -> Requests:
    """Return the limits of a pod in nano-units, overhead included where there is a limit.

    Source: `PodLimits`.
    """
    limits = _aggregate(pod, lambda container: _parsed(container.resources.limits))
    if pod.spec.resources is not None:
        for name, text in pod.spec.resources.limits.items():
            if is_pod_level_resource(name):
                limits[name] = parse_quantity(text)
    for name, nanos in _parsed(pod.spec.overhead).items():
        if limits.get(name):
            limits[name] += nanos
    return limits


def _aggregate(pod: Pod, amounts: Callable[[Container], Requests]) -> Requests:
    """Return the resources of a pod from the `amounts` of its containers.

    Regular containers and sidecars run together, init containers one after another before them.
    The pod needs the larger of the two, resource by resource. An init container runs beside the
    sidecars that were started before it. Source: `AggregateContainerRequests`, KEP-753.
    """
    requests: Requests = {}
    for container in pod.spec.containers:
        _add(requests, amounts(container))
    sidecars: Requests = {}
    initializing: Requests = {}
    for container in pod.spec.init_containers:
        wanted = amounts(container)
        if is_sidecar(container):
            _add(requests, wanted)
            _add(sidecars, wanted)
            wanted = sidecars
        else:
            _add(wanted, sidecars)
        _raise_to(initializing, wanted)
    _raise_to(requests, initializing)
    return requests


def _requests_of(
    container: Container,
    pod: Pod,
    status: ContainerStatus | None,
    non_missing: Mapping[str, int] | None,
) -> Requests:
    if status is None or status.resources is None:
        requests = _parsed(container.resources.requests)
    else:
        requests = _effective_requests(
            pod,
            container.resources.requests,
            status.resources.requests,
            status.allocated_resources,
        )
    return {**non_missing, **requests} if non_missing else requests


def reports_resources(pod: Pod) -> bool:
    """Return True if the status has the resources that the kubelet gives, or refuses."""
    status = pod.status
    return bool(
        status.container_statuses
        or status.init_container_statuses
        or status.allocated_resources
        or status.resources
        or _resize_is_infeasible(pod)
    )


def _effective_requests(
    pod: Pod, spec: Quantities, actuated: Quantities, allocated: Quantities
) -> Requests:
    """Return the maximum of spec (unless its resize is infeasible), actuated and allocated."""
    requests = _parsed(actuated)
    _raise_to(requests, _parsed(allocated))
    if not _resize_is_infeasible(pod):
        _raise_to(requests, _parsed(spec))
    return requests


def _resize_is_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _parsed(quantities: Quantities) -> Requests:
    return {name: parse_quantity(text) for name, text in quantities.items()}


def _add(requests: Requests, more: Mapping[str, int]) -> None:
    for name, nanos in more.items():
        requests[name] = requests.get(name, 0) + nanos


def _raise_to(requests: Requests, floor: Mapping[str, int]) -> None:
    for name, nanos in floor.items():
        if name not in requests or nanos > requests[name]:
            requests[name] = nanos


def count(name: str, nanos: int) -> int:
    """Return an amount in the scheduler's unit: thousandths for cpu, else whole units."""
    return milli_value(nanos) if name == CPU else value(nanos)


def counted(requests: Mapping[str, int], *, also: Iterable[str] = ()) -> dict[str, int]:
    """Return requests in the scheduler's units, without resources that are not counted.

    `also` names further resources to keep, such as a node's number of pods.
    Source: `Resource.Add`.
    """
    return {
        name: count(name, nanos)
        for name, nanos in requests.items()
        if name in (CPU, MEMORY, EPHEMERAL_STORAGE) or name in also or is_scalar_resource_name(name)
    }


def count_text(name: str, number: int) -> str:
    """Format an amount for people: `500m` or `2` of cpu, `69.8Gi` of memory, `3` of a device.

    An amount of bytes that is not a tenth of its unit is rounded up to the next tenth.
    """
    if name == CPU:
        return f"{number}m" if number % 1000 else str(number // 1000)
    if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith(_HUGE_PAGES_PREFIX):
        for power, suffix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
            if number >= 1024**power:
                tenths = -(-number * 10 // 1024**power)
                return f"{tenths // 10}{f'.{tenths % 10}' if tenths % 10 else ''}{suffix}"
    return str(number)


def node_allocatable(allocatable: Quantities) -> dict[str, int]:
    """Return a node's allocatable resources in the scheduler's units, with the number of pods."""
    return counted(_parsed(allocatable), also=(PODS,))
