"""Extended resources of pods as requests of a claim, where devices provide them.

Source: `createRequestsAndMappings` in
`pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from scheduler.api.core import ContainerExtendedResourceRequest, ObjectMeta, OwnerReference
from scheduler.api.dynamic_resources import (
    EXTENDED_RESOURCE_CLAIM,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from scheduler.api.quantity import as_int64
from scheduler.api.resources import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduler.api.core import Container, Pod

#: The name of a claim for extended resources until it is created; it is no valid name.
IN_MEMORY = "<extended-resources>"


class ExtendedRequests(NamedTuple):
    """The requests of the claim, and which container's resource each serves."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


#: Makes the requests of a pod for resources, by their classes.
MakesRequests: TypeAlias = (
    "Callable[[Pod, Iterable[str], Callable[[str], str | None]], ExtendedRequests]"
)


def claim_in_memory(pod: Pod) -> ResourceClaim:
    """Return a claim for the extended resources of a pod, still without requests and uid."""
    metadata = pod.metadata
    owner = OwnerReference("v1", "Pod", metadata.name, metadata.uid, controller=True)
    return ResourceClaim(
        ObjectMeta(
            namespace=metadata.namespace,
            name=IN_MEMORY,
            generate_name=f"{metadata.name}-extended-resources-",
            owner_references=(owner,),
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        )
    )


def extended_requests(
    pod: Pod, resources: Iterable[str], class_of: Callable[[str], str | None]
) -> ExtendedRequests:
    """Return the requests for resources that devices provide on a node.

    A short-lived init container uses the devices of later containers, and all such containers share
    one request for what they need beyond that. `class_of` gives the class of a resource.
    """
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        class_name = class_of(resource)
        if class_name is not None:
            new_requests = _requests_for(pod, resource, class_name)
            requests += new_requests.requests
            mappings += new_requests.mappings
    return ExtendedRequests(tuple(sorted(requests, key=_name)), tuple(mappings))


def requests_by_container(
    pod: Pod, resources: Iterable[str], class_of: Callable[[str], str | None]
) -> ExtendedRequests:
    """Return a request for each container and resource, short-lived or not (v1.34)."""
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        class_name = class_of(resource)
        containers = (*pod.spec.init_containers, *pod.spec.containers) if class_name else ()
        for index, container in enumerate(containers):
            request, more = _container_request(index, container, resource, class_name or "", ())
            requests += [request] if request is not None else []
            mappings += more
    return ExtendedRequests(tuple(requests), tuple(mappings))


def _name(request: DeviceRequest) -> str:
    return request.name


def _requests_for(pod: Pod, resource: str, class_name: str) -> ExtendedRequests:
    init = pod.spec.init_containers
    containers = (*init, *pod.spec.containers)
    long_lived: list[DeviceRequest | None] = [None] * len(containers)
    short_lived: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    short_mappings: list[ContainerExtendedResourceRequest] = []
    for index, container in enumerate(containers):
        if index >= len(init) or is_sidecar(container):
            request, more = _container_request(index, container, resource, class_name, ())
            long_lived[index] = request
            mappings += more
    for index, container in enumerate(init):
        if not is_sidecar(container):
            reusable = [each for each in long_lived[index:] if each is not None]
            request, more = _container_request(index, container, resource, class_name, reusable)
            short_mappings += more
            if request is not None:
                short_lived.append(request)
    kept = [each for each in long_lived if each is not None]
    if short_lived:
        largest = max(short_lived, key=_count)
        names = {request.name for request in short_lived}
        short_mappings = [
            _renamed(each, largest.name) if each.request_name in names else each
            for each in short_mappings
        ]
        kept.insert(0, largest)
    return ExtendedRequests(tuple(kept), (*mappings, *short_mappings))


def _renamed(
    mapping: ContainerExtendedResourceRequest, request_name: str
) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(
        mapping.container_name, mapping.resource_name, request_name
    )


def _count(request: DeviceRequest) -> int:
    assert request.exactly is not None
    return request.exactly.count


def _container_request(
    index: int,
    container: Container,
    resource: str,
    class_name: str,
    reusable: Sequence[DeviceRequest],
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    """Return the request of a container beyond the reusable ones, and the requests it uses."""
    wanted = container.resources.requests
    count = as_int64(wanted.get(resource, 0))
    if not count:
        return None, []
    names: list[str] = []
    for each in reusable:
        names.append(each.name)
        count -= _count(each)
        if count <= 0:
            break
    request: DeviceRequest | None = None
    if count > 0 or not names:
        name = f"container-{index}-request-{sorted(wanted).index(resource)}"
        exactly = ExactDeviceRequest(class_name, allocation_mode="ExactCount", count=count)
        request = DeviceRequest(name, exactly)
        names.append(name)
    mappings = [ContainerExtendedResourceRequest(container.name, resource, each) for each in names]
    return request, mappings
