"""Traces as histories: nodes at the start, arrivals of pods, and how long each one runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from scheduler.api.core import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from scheduler.explain.input_files import Amount, Count, line_of_errors, opened, read_table
from scheduler.simulate.history.format import PRICE, RUN_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from scheduler.api.core import Affinity
    from scheduler.simulate.history.format import HistoryWriter

#: GPUs as most device plugins offer them. Traces that do not name CPU and memory get these.
_GPU: Final = "nvidia.com/gpu"
_PODS_PER_NODE: Final = "110"


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


def trace_node(
    name: str,
    amounts: Mapping[str, str],
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Node:
    """Return a node with allocatable amounts. Raises ValueError for a bad amount."""
    labels = {"kubernetes.io/hostname": name, **(labels or {})}
    metadata = ObjectMeta(name=name, uid=name, labels=labels, annotations=annotations or {})
    return Node(metadata, status=NodeStatus(allocatable={"pods": _PODS_PER_NODE, **amounts}))


def trace_pod(
    name: str,
    requests: Mapping[str, str],
    *,
    limits: Mapping[str, str] | None = None,
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
    run_seconds: float | None = None,
    priority: int | None = None,
    affinity: Affinity | None = None,
) -> Pod:
    """Return a pod without a node; by default the limits are the requests.

    Raises ValueError for a bad amount.
    """
    notes = dict(annotations or {})
    if run_seconds is not None:
        notes[RUN_SECONDS] = f"{run_seconds:.15g}"
    uid = f"{namespace}/{name}"
    limits = requests if limits is None else limits
    container = Container("c", resources=ResourceRequirements(requests=requests, limits=limits))
    return Pod(
        ObjectMeta(name=name, namespace=namespace, uid=uid, annotations=notes),
        PodSpec(containers=(container,), priority=priority, affinity=affinity),
        PodStatus(phase="Pending"),
    )


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
    labels = {"topology.kubernetes.io/zone": row.zone} if row.zone else {}
    annotations = {} if row.price is None else {PRICE: str(row.price)}
    return trace_node(row.name, row.amounts, labels=labels, annotations=annotations)


def _csv_arrival(row: _PodRow) -> Arrival:
    pod = trace_pod(
        row.name,
        row.amounts,
        namespace=row.namespace,
        run_seconds=row.run_seconds,
        priority=row.priority,
    )
    return Arrival(row.created_seconds, pod)


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
    machines = read_table(nodes, _Machine, lambda row: trace_node(row.name, {_GPU: str(row.gpus)}))
    with opened(pods) as file, line_of_errors(pods, 0):
        jobs = msgspec.json.decode(file.read(), type=list[_Job])
        arrivals = [arrival for job in jobs for arrival in _philly_arrivals(job)]
    return write_trace(writer, machines, arrivals)


def _philly_arrivals(job: _Job) -> Iterator[Arrival]:
    ran = [a for a in job.attempts if a.start_time and a.end_time and a.detail]
    seconds = sum(_seconds(a.end_time or "") - _seconds(a.start_time or "") for a in ran)
    for number, host in enumerate(ran[0].detail if ran else ()):
        name, gpus = f"{job.jobid.replace('_', '-')}-{number}", {_GPU: str(len(host.gpus))}
        pod = trace_pod(name, gpus, namespace=job.vc, run_seconds=seconds)
        yield Arrival(_seconds(job.submitted_time), pod)


def _seconds(text: str) -> float:
    """Return a time of the Philly traces, in seconds since 1970 as if it was UTC."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
