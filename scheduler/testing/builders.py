"""Build pods, nodes and snapshots in one line each.

Every argument has a default. A uid is derived from the name, so that two runs can be compared.
Structured parts (affinity, tolerations, ...) may be given as dictionaries, as the API writes them,
or as the structs of `scheduler.api.core`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.api import core
from scheduler.snapshot.images import ImageStates
from scheduler.snapshot.node_table import NodeTable
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

T = TypeVar("T", bound=core.Struct)

_ALLOCATABLE = {"cpu": "4", "memory": "16Gi", "pods": "110"}


def make_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    image: str = "",
    host_ports: Sequence[int] = (),
    containers: Sequence[core.Container | Mapping[str, object]] | None = None,
    init_containers: Sequence[core.Container | Mapping[str, object]] = (),
    overhead: Mapping[str, str] | None = None,
    resources: core.ResourceRequirements | Mapping[str, object] | None = None,
    node_name: str = "",
    scheduler_name: str = "default-scheduler",
    priority: int | None = None,
    preemption_policy: str | None = None,
    node_selector: Mapping[str, str] | None = None,
    affinity: core.Affinity | Mapping[str, object] | None = None,
    tolerations: Sequence[core.Toleration | Mapping[str, object]] = (),
    spread: Sequence[core.TopologySpreadConstraint | Mapping[str, object]] = (),
    volumes: Sequence[core.Volume | Mapping[str, object]] = (),
    scheduling_gates: Sequence[str] = (),
    nominated_node_name: str = "",
    phase: str = "Pending",
    resource_version: str = "1",
    creation_timestamp: datetime | None = None,
    deletion_timestamp: datetime | None = None,
) -> core.Pod:
    """Return a pod with the given containers, or with one container by default.

    `requests`, `limits`, `image` and `host_ports` describe the default container. `spread` holds
    the topology spread constraints.
    """
    if containers is None:
        containers = [_container(requests or {}, limits or {}, image, host_ports)]
    metadata = _metadata(name, namespace, labels, annotations, resource_version)
    times = {"creation_timestamp": creation_timestamp, "deletion_timestamp": deletion_timestamp}
    metadata = replace(metadata, uid=f"uid-{namespace}-{name}" if uid is None else uid, **times)
    spec = core.PodSpec(
        containers=_all_of(core.Container, containers),
        init_containers=_all_of(core.Container, init_containers),
        overhead=overhead or {},
        resources=_one_of(core.ResourceRequirements, resources),
        node_name=node_name,
        scheduler_name=scheduler_name,
        priority=priority,
        preemption_policy=preemption_policy,
        node_selector=dict(node_selector or {}),
        affinity=_one_of(core.Affinity, affinity),
        tolerations=_all_of(core.Toleration, tolerations),
        topology_spread_constraints=_all_of(core.TopologySpreadConstraint, spread),
        volumes=_all_of(core.Volume, volumes),
        scheduling_gates=tuple(core.PodSchedulingGate(gate) for gate in scheduling_gates),
    )
    status = core.PodStatus(phase=phase, nominated_node_name=nominated_node_name)
    return core.Pod(metadata, spec, status)


def _metadata(
    name: str,
    namespace: str,
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None,
    resource_version: str,
) -> core.ObjectMeta:
    return core.ObjectMeta(
        name=name,
        namespace=namespace,
        resource_version=resource_version,
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
    )


def _container(
    requests: Mapping[str, str], limits: Mapping[str, str], image: str, host_ports: Sequence[int]
) -> core.Container:
    return core.Container(
        name="c",
        image=image,
        resources=core.ResourceRequirements(requests=requests, limits=limits),
        ports=tuple(core.ContainerPort(host_port=p, container_port=p) for p in host_ports),
    )


def make_node(
    name: str = "node",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    zone: str = "",
    region: str = "",
    taints: Sequence[core.Taint | Mapping[str, object]] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    resource_version: str = "1",
) -> core.Node:
    """Return a node of 4 cores and 16Gi by default, labelled with its host name.

    `images` maps image names to their sizes in bytes.
    """
    all_labels = {"kubernetes.io/hostname": name, **(labels or {})}
    if zone:
        all_labels["topology.kubernetes.io/zone"] = zone
    if region:
        all_labels["topology.kubernetes.io/region"] = region
    offered = dict(allocatable) if allocatable is not None else _ALLOCATABLE
    return core.Node(
        metadata=replace(
            _metadata(name, "", all_labels, annotations, resource_version), uid=f"uid-{name}"
        ),
        spec=core.NodeSpec(unschedulable=unschedulable, taints=_all_of(core.Taint, taints)),
        status=core.NodeStatus(
            capacity=offered,
            allocatable=offered,
            images=tuple(
                core.ContainerImage(names=(image,), size_bytes=size_bytes)
                for image, size_bytes in (images or {}).items()
            ),
        ),
    )


def snapshot_of(nodes: Iterable[core.Node], pods: Iterable[core.Pod] = ()) -> Snapshot:
    """Return a snapshot of the nodes, in the given order, with the pods on them.

    Pods without a node are left out. Raises KeyError if a pod's node is missing.
    """
    table = NodeTable()
    images = ImageStates()
    for node in nodes:
        table.set_node(table.add_row(node.metadata.name), node)
        images.add_node(node)
    for pod in pods:
        if pod.spec.node_name:
            table.add_pod(table.row_of[pod.spec.node_name], PodInfo(pod))
    snapshot = Snapshot()
    snapshot.update(table, changed_rows=(), order=list(table.names), images=images.take_changes())
    return snapshot


def _one_of(kind: type[T], value: T | Mapping[str, object] | None) -> T | None:
    return value if value is None or isinstance(value, kind) else msgspec.convert(value, kind)


def _all_of(kind: type[T], values: Sequence[T | Mapping[str, object]]) -> tuple[T, ...]:
    return tuple(v if isinstance(v, kind) else msgspec.convert(v, kind) for v in values)
