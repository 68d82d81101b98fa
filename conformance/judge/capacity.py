"""Check that the pods on each node fit the node, from the objects on the API server.

The rules are the guarantees of kube-scheduler's NodeResourcesFit and NodePorts: allocatable
resources, number of pods, host ports. Pods that have ended use nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ..format.reading import is_over, node_of, short_name_of
from ..format.resources import NANO, amounts, objects, part, pod_requests, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..api import Json

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - a value of the API


class HostPort(NamedTuple):
    """A port of the node that a pod takes."""

    protocol: str
    number: int
    address: str

    def conflicts_with(self, other: HostPort) -> bool:
        alike = (self.protocol, self.number) == (other.protocol, other.number)
        return alike and (
            self.address == other.address or _ANY_ADDRESS in (self.address, other.address)
        )


def overcommitments(nodes: Iterable[Json], pods: Iterable[Json]) -> list[str]:
    """Return a line for each overcommitted resource or port of a node; empty if there is none."""
    by_node: dict[str, list[Json]] = {}
    for pod in pods:
        if node_of(pod) and not is_over(pod):
            by_node.setdefault(node_of(pod), []).append(pod)
    problems: list[str] = []
    for node in nodes:
        name = short_name_of(node)
        on_it = by_node.get(name, [])
        problems += _resource_problems(name, node, on_it)
        problems += _port_problems(name, on_it)
    return problems


def _resource_problems(name: str, node: Json, pods: list[Json]) -> list[str]:
    allocatable = amounts(part(node, "status").get("allocatable"))
    requested: dict[str, int] = {"pods": len(pods) * NANO}
    for pod in pods:
        for resource, amount in pod_requests(pod).items():
            requested[resource] = requested.get(resource, 0) + amount
    return [
        f"node {name}: pods request {shown(amount)} of {resource}, "
        f"{shown(allocatable.get(resource, 0))} is allocatable"
        for resource, amount in requested.items()
        if amount > allocatable.get(resource, 0)
    ]


def _port_problems(name: str, pods: list[Json]) -> list[str]:
    problems: list[str] = []
    held: list[tuple[str, HostPort]] = []
    for pod in pods:
        pod_name = str(part(pod, "metadata").get("name"))
        own = host_ports(pod)
        problems += [
            f"node {name}: pods {other} and {pod_name} both have host port {port.number}"
            for other, taken in held
            for port in own
            if port.conflicts_with(taken)
        ]
        held += [(pod_name, port) for port in own]
    return problems


def host_ports(pod: Json) -> list[HostPort]:
    """Return the ports of the node that a pod takes, its sidecars included."""
    spec = part(pod, "spec")
    containers = objects(spec.get("containers"))
    containers += [
        container
        for container in objects(spec.get("initContainers"))
        if container.get("restartPolicy") == "Always"
    ]
    return [
        HostPort(
            str(port.get("protocol") or "TCP"), number, str(port.get("hostIP") or _ANY_ADDRESS)
        )
        for container in containers
        for port in objects(container.get("ports"))
        if isinstance(number := port.get("hostPort"), int) and number > 0
    ]
