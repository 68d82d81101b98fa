"""Import traces as histories: nodes at the start, arrivals of pods, and how long each one runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from scheduler.api.core import (
    Affinity,
    Container,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from scheduler.simulate.gpu_requests import GPU_MILLI, GPU_MODEL, WHOLE, gpu_count
from scheduler.simulate.history.format import PRICE, RUN_SECONDS
from scheduler.simulate.history.openb import pod_object, read_nodes, read_pods
from scheduler.simulate.input_files import Amount, Count, line_of_errors, opened, read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from scheduler.simulate.history.format import HistoryWriter
    from scheduler.simulate.history.openb import OpenbPod

_PODS_PER_NODE: Final = "110"
#: GPUs as most device plugins offer them. Traces that do not name CPU and memory get these.
_GPU: Final = "nvidia.com/gpu"


class Arrival(NamedTuple):
    """A pod of a trace. `seconds` are of the trace's own clock."""

    seconds: float
    pod: Pod


def write_trace(writer: HistoryWriter, nodes: Iterable[Node], pods: Iterable[Arrival]) -> int:
    """Write the nodes at time 0 and the pods in the order of arrival; return the lines."""
    arrivals = sorted(pods, key=lambda arrival: arrival.seconds)
    start = arrivals[0].seconds if arrivals else 0.0
    lines: list[tuple[float, str, object]] = [(0.0, "nodes", node) for node in nodes]
    lines += [(seconds - start, "pods", pod) for seconds, pod in arrivals]
    for seconds, resource, obj in lines:
        writer.write(seconds, "ADDED", resource, obj)
    return len(lines)


def import_openb(writer: HistoryWriter, nodes: Path, pods: Path) -> int:
    """Import the openb trace (Alibaba, cluster-trace-gpu-v2023).

    Thousandths of GPUs are an extended resource too, and the wanted models a node affinity: any
    scheduler counts them, if not on single GPUs.
    """
    arrivals = [Arrival(pod.creation_time, _openb_pod(pod)) for pod in read_pods(pods)]
    return write_trace(writer, map(_openb_node, read_nodes(nodes)), arrivals)


def _openb_node(node: Node) -> Node:
    gpus = gpu_count(node)
    if not gpus:
        return node
    allocatable = {**node.status.allocatable, GPU_MILLI: str(gpus * WHOLE)}
    return replace(node, status=replace(node.status, allocatable=allocatable))


def _openb_pod(pod: OpenbPod) -> Pod:
    obj, gpu = pod_object(pod), pod.gpu
    annotations, spec = dict(obj.metadata.annotations), obj.spec
    if pod.deletion_time is not None:
        annotations[RUN_SECONDS] = str(max(0, pod.deletion_time - pod.creation_time))
    if gpu.total:
        (container,), milli = spec.containers, {GPU_MILLI: str(gpu.total)}
        resources = replace(
            container.resources, requests={**container.resources.requests, **milli}, limits=milli
        )
        spec = replace(spec, containers=(replace(container, resources=resources),))
    if gpu.models:
        has_model = NodeSelectorRequirement(GPU_MODEL, "In", (*sorted(gpu.models),))
        required = NodeSelector((NodeSelectorTerm((has_model,)),))
        spec = replace(spec, affinity=Affinity(NodeAffinity(required)))
    return replace(obj, metadata=replace(obj.metadata, annotations=annotations), spec=spec)


class _NodeRow(msgspec.Struct, frozen=True):
    name: str
    zone: str = ""
    price: Amount | None = None
    amounts: dict[str, str] = {}


class _PodRow(msgspec.Struct, frozen=True):
    name: str
    created_seconds: Amount
    namespace: str = "default"
    run_seconds: Amount | None = None
    priority: Count | None = None
    amounts: dict[str, str] = {}


def import_csv(writer: HistoryWriter, nodes: Path, pods: Path) -> int:
    """Import tables whose columns are resources, beside the columns with a meaning of their own.

    Nodes: `name`, `zone`, `price` per hour. Pods: `name`, `namespace`, `created_seconds`,
    `run_seconds`, `priority`. All other columns are amounts of the resource of that name.
    """
    machines = read_table(nodes, _NodeRow, _csv_node)
    return write_trace(writer, machines, read_table(pods, _PodRow, _csv_arrival))


def _csv_node(row: _NodeRow) -> Node:
    zone = {"topology.kubernetes.io/zone": row.zone} if row.zone else {}
    return _node(row.name, row.amounts, zone, {} if row.price is None else {PRICE: str(row.price)})


def _csv_arrival(row: _PodRow) -> Arrival:
    pod = _pod(row.namespace, row.name, row.amounts, row.run_seconds, row.priority)
    return Arrival(row.created_seconds, pod)


def _node(
    name: str,
    amounts: Mapping[str, str],
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Node:
    labels = {"kubernetes.io/hostname": name, **(labels or {})}
    metadata = ObjectMeta(name=name, uid=name, labels=labels, annotations=annotations or {})
    return Node(metadata, status=NodeStatus(allocatable={"pods": _PODS_PER_NODE, **amounts}))


def _pod(
    namespace: str,
    name: str,
    amounts: Mapping[str, str],
    run_seconds: float | None,
    priority: int | None = None,
) -> Pod:
    annotations = {} if run_seconds is None else {RUN_SECONDS: f"{run_seconds:.15g}"}
    uid = f"{namespace}/{name}"
    metadata = ObjectMeta(name=name, namespace=namespace, uid=uid, annotations=annotations)
    container = Container("c", resources=ResourceRequirements(requests=amounts, limits=amounts))
    spec = PodSpec(containers=(container,), priority=priority)
    return Pod(metadata, spec, PodStatus(phase="Pending"))


class _Machine(msgspec.Struct, frozen=True):
    """A row of Philly's `cluster_machine_list`."""

    name: str = msgspec.field(name="machineId")
    gpus: Count = msgspec.field(name="number of GPUs")


class _Host(msgspec.Struct):
    """A machine of an attempt, with the names of its GPUs."""

    gpus: tuple[str, ...] = ()


class _Attempt(msgspec.Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: tuple[_Host, ...] = ()


class _Job(msgspec.Struct):
    jobid: str
    vc: str
    submitted_time: str
    attempts: tuple[_Attempt, ...] = ()


def import_philly(writer: HistoryWriter, nodes: Path, pods: Path) -> int:
    """Import the Philly traces (Microsoft): `cluster_machine_list` and `cluster_job_log`.

    Each machine of a job's first attempt becomes a pod with that many GPUs; its time is that of all
    attempts together. Jobs that never started are left out: their size is not known.
    """
    machines = read_table(nodes, _Machine, lambda row: _node(row.name, {_GPU: str(row.gpus)}))
    with opened(pods) as file, line_of_errors(pods, 0):
        jobs = msgspec.json.decode(file.read(), type=list[_Job])
        arrivals = [arrival for job in jobs for arrival in _philly_arrivals(job)]
    return write_trace(writer, machines, arrivals)


def _philly_arrivals(job: _Job) -> Iterator[Arrival]:
    ran = [a for a in job.attempts if a.start_time and a.end_time and a.detail]
    run_seconds = sum(_seconds(a.end_time or "") - _seconds(a.start_time or "") for a in ran)
    for number, host in enumerate(ran[0].detail if ran else ()):
        name = f"{job.jobid.replace('_', '-')}-{number}"
        pod = _pod(job.vc, name, {_GPU: str(len(host.gpus))}, run_seconds)
        yield Arrival(_seconds(job.submitted_time), pod)


def _seconds(text: str) -> float:
    """Return a time of the Philly traces, in seconds since 1970 as if it was UTC."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
