"""The cluster to explain: read from an API server, and completed with its defaults.

Pods from files have not been through an API server, so its defaults are filled in here.
Source of the defaults: `pkg/apis/core/v1/defaults.go` (`SetDefaults_Pod`, `SetDefaults_PodSpec`).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from scheduler.api import resources
from scheduler.api.core import ContainerPort, Node, Pod, ResourceRequirements
from scheduler.client import NODES, PODS, ApiObject, Forbidden, NotFound, RestClient, connect
from scheduler.client.discovery import DiscoveredKind
from scheduler.client.errors import KindNotFound
from scheduler.client.kinds import GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scheduler.api.core import Container, PodSpec, Quantities
    from scheduler.assembly.watched_kinds import WatchedKind
    from scheduler.clock import Clock

#: Phases of pods that have ended and occupy no resources.
ENDED: Final = frozenset({"Succeeded", "Failed"})


class ClusterError(ValueError):
    """Input that is not a cluster. The text names the place and the mistake."""


class Cluster(NamedTuple):
    """The objects that decisions depend on. `others` maps the key of a kind to its objects."""

    nodes: list[Node]
    pods: list[Pod]
    others: dict[str, list[ApiObject]]


async def read_api_server(
    kubeconfig: str,
    master: str,
    clock: Clock,
    kinds: Iterable[WatchedKind],
    *,
    user_agent: str,
    keeps_json: bool,
    on_refused: Callable[[WatchedKind, Forbidden], None],
) -> Cluster:
    """Read nodes, pods and all objects of `kinds` from an API server once.

    A kind that the server does not have has no objects, nor has one that the account may not list:
    `on_refused` is called for it. With `keeps_json` nodes and pods keep their JSON, for extenders.
    Raises the client's errors.
    """
    connection = connect(kubeconfig=kubeconfig, master=master, clock=clock)
    async with RestClient(connection, clock=clock, user_agent=user_agent) as client:
        nodes = await client.list_all(dataclasses.replace(NODES, keeps_json=keeps_json))
        pods = await client.list_all(dataclasses.replace(PODS, keeps_json=keeps_json))
        others: dict[str, list[ApiObject]] = {}
        for kind in kinds:
            resource = kind.resource
            try:
                if isinstance(resource, GroupVersionResource):
                    resource = await DiscoveredKind(client, resource).discover()
                others[resource.key] = list((await client.list_all(resource)).items)
            except Forbidden as refusal:
                on_refused(kind, refusal)
            except (KindNotFound, NotFound):
                continue
    running = [pod for pod in pods.items if pod.status.phase not in ENDED]
    return Cluster(list(nodes.items), running, others)


def with_node_defaults(node: Node) -> Node:
    """Return the node; without allocatable amounts its capacity takes their place."""
    status = node.status
    if status.allocatable or not status.capacity:
        return node
    return replace(node, status=replace(status, allocatable=status.capacity))


def with_api_defaults(pod: Pod) -> Pod:
    """Return the pod with the API server's defaults, such as requests derived from limits."""
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
    """Complete the pod-level requests and limits from the containers' own.

    Hugepages cannot be overcommitted: their pod-level limit is the sum of the containers' limits,
    and the request equals the limit. CPU and memory take their requests from the containers'
    requests.
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
    """Return the sum of the containers' requests or limits by resource."""

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
