"""What the API server adds to a pod before a scheduler sees it, as far as placement is concerned.

The scheduler itself never needs this: it reads pods that have been through an API server. Whoever
reads pods from files does.
Source: `pkg/apis/core/v1/defaults.go` (`SetDefaults_Pod`, `SetDefaults_PodSpec`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from scheduler.api import resources
from scheduler.api.core import ContainerPort, ResourceRequirements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.api.core import Container, Pod, PodSpec, Quantities


def with_api_defaults(pod: Pod) -> Pod:
    """The pod with requests taken from limits, host ports from container ports, and the rest."""
    spec = pod.spec
    spec = replace(
        spec,
        scheduler_name=spec.scheduler_name or "default-scheduler",
        containers=tuple(_container(c, spec) for c in spec.containers),
        init_containers=tuple(_container(c, spec) for c in spec.init_containers),
    )
    pod = replace(pod, spec=spec)
    if spec.resources is not None and (spec.resources.limits or spec.resources.requests):
        pod = replace(pod, spec=replace(spec, resources=_pod_level(pod, spec.resources)))
    return pod


def _container(container: Container, spec: PodSpec) -> Container:
    wanted = container.resources
    requests = {**wanted.limits, **wanted.requests}
    ports = tuple(_port(port, spec) for port in container.ports)
    return replace(container, resources=replace(wanted, requests=requests), ports=ports)


def _port(port: ContainerPort, spec: PodSpec) -> ContainerPort:
    host_port = port.host_port
    if spec.host_network and not host_port:
        host_port = port.container_port
    return replace(port, protocol=port.protocol or "TCP", host_port=host_port)


def _pod_level(pod: Pod, wanted: ResourceRequirements) -> ResourceRequirements:
    """Requests and limits of the pod as a whole, filled in from its containers.

    Hugepages cannot be overcommitted: their pod-level limit follows the containers' limits, and the
    request the limit. What can be overcommitted takes its request from the containers' requests.
    """
    limits: dict[str, str | int | float] = dict(wanted.limits)
    for name, text in _summed(pod, "limits").items():
        if name.startswith("hugepages-") and name not in wanted.requests:
            limits.setdefault(name, text)
    requests: dict[str, str | int | float] = dict(wanted.requests)
    if limits:
        for name, text in _summed(pod, "requests").items():
            if name in (resources.CPU, resources.MEMORY):
                requests.setdefault(name, text)
        for name, limit in limits.items():
            if resources.is_pod_level_resource(name):
                requests.setdefault(name, limit)
    return replace(wanted, limits=limits, requests=requests)


def _summed(pod: Pod, field: str) -> Mapping[str, str]:
    """What the containers ask for together, or may take together."""

    def as_requests(container: Container) -> Container:
        quantities: Quantities = getattr(container.resources, field)
        return replace(container, resources=ResourceRequirements(requests=quantities))

    spec = replace(
        pod.spec,
        containers=tuple(as_requests(c) for c in pod.spec.containers),
        init_containers=tuple(as_requests(c) for c in pod.spec.init_containers),
        overhead={},
    )
    summed = resources.pod_requests(replace(pod, spec=spec), use_pod_level=False)
    return {name: f"{nanos}n" for name, nanos in summed.items()}
