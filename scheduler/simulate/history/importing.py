"""Import traces as histories: nodes at the start, arrivals of pods, and how long each one runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from scheduler.api.core import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
)
from scheduler.simulate.gpu_requests import GPU_MILLI, GPU_MODEL, WHOLE, gpu_count
from scheduler.simulate.history.errors import InputFileError
from scheduler.simulate.history.format import PRICE, RUN_SECONDS
from scheduler.simulate.history.openb import pod_object, read_nodes, read_pods
from scheduler.simulate.history.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from scheduler.simulate.history.format import HistoryWriter
    from scheduler.simulate.history.openb import OpenbPod
    from scheduler.simulate.history.tables import Row

_PODS_PER_NODE: Final = "110"
#: GPUs as most device plugins offer them. Traces that do not name CPU and memory get these.
_GPU: Final = "nvidia.com/gpu"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Arrival(NamedTuple):
    """A pod of a trace, as JSON values. `seconds` are since the first arrival."""

    seconds: float
    pod: object


def write_trace(writer: HistoryWriter, nodes: Iterable[object], pods: Iterable[Arrival]) -> int:
    """Write the nodes at time 0 and the pods in the order of arrival; return the lines."""
    arrivals = sorted(pods, key=lambda arrival: arrival.seconds)
    start = arrivals[0].seconds if arrivals else 0.0
    lines = [(0.0, "nodes", node) for node in nodes]
    lines += [(seconds - start, "pods", pod) for seconds, pod in arrivals]
    for seconds, resource, obj in lines:
        writer.write(seconds, "ADDED", resource, obj)
    return len(lines)


def import_openb(writer: HistoryWriter, nodes: Path, pods: Path) -> int:
    """Import the openb trace (Alibaba, cluster-trace-gpu-v2023).

    Thousandths of GPUs are an extended resource too, and the wanted models a node affinity: any
    scheduler counts them, if not on single GPUs.
    """
    arrivals = [Arrival(pod.created_seconds, _openb_pod(pod)) for pod in read_pods(pods)]
    return write_trace(writer, map(_openb_node, read_nodes(nodes)), arrivals)


def _openb_node(node: Node) -> Node:
    gpus = gpu_count(node)
    if not gpus:
        return node
    allocatable = {**node.status.allocatable, GPU_MILLI: str(gpus * WHOLE)}
    return replace(node, status=replace(node.status, allocatable=allocatable))


def _openb_pod(pod: OpenbPod) -> Pod:
    obj = pod_object(pod)
    annotations, spec = dict(obj.metadata.annotations), obj.spec
    if pod.deleted_seconds is not None:
        annotations[RUN_SECONDS] = str(max(0, pod.deleted_seconds - pod.created_seconds))
    if pod.gpu.total:
        (container,), milli = spec.containers, {GPU_MILLI: str(pod.gpu.total)}
        resources = replace(
            container.resources, requests={**container.resources.requests, **milli}, limits=milli
        )
        spec = replace(spec, containers=(replace(container, resources=resources),))
    if pod.gpu.models:
        spec = replace(spec, affinity=_on_models(sorted(pod.gpu.models)))
    return replace(obj, metadata=replace(obj.metadata, annotations=annotations), spec=spec)


def _on_models(models: list[str]) -> Affinity:
    term = NodeSelectorTerm((NodeSelectorRequirement(GPU_MODEL, "In", (*models,)),))
    return Affinity(NodeAffinity(NodeSelector((term,))))


def import_csv(writer: HistoryWriter, nodes: Path, pods: Path) -> int:
    """Import tables whose columns are resources, beside the columns with a meaning of their own.

    Nodes: `name`, `zone`, `price` per hour. Pods: `name`, `namespace`, `created_seconds`,
    `run_seconds`, `priority`. All other columns are amounts of the resource of that name.
    """
    return write_trace(
        writer,
        [_csv_node(row) for row in read_table(nodes, ("name",))],
        [_csv_pod(row) for row in read_table(pods, ("name", "created_seconds"))],
    )


def _csv_node(row: Row) -> object:
    name, zone, price = row.text("name"), row.text("zone"), row.text("price")
    labels = {"kubernetes.io/hostname": name}
    if zone:
        labels["topology.kubernetes.io/zone"] = zone
    amounts = row.others("name", "zone", "price")
    annotations = {PRICE: str(row.number("price"))} if price else {}
    return _node(row, name, labels, {"pods": _PODS_PER_NODE, **amounts}, annotations)


def _csv_pod(row: Row) -> Arrival:
    amounts = row.others("name", "namespace", "created_seconds", "run_seconds", "priority")
    run_seconds = row.number("run_seconds") if row.text("run_seconds") else None
    namespace = row.text("namespace") or "default"
    priority = row.integer("priority") if row.text("priority") else None
    pod = _pod(row, row.text("name"), namespace, amounts, run_seconds, priority)
    return Arrival(row.number("created_seconds"), pod)


def _node(
    row: Row,
    name: str,
    labels: Mapping[str, str],
    allocatable: Mapping[str, str],
    annotations: Mapping[str, str],
) -> object:
    metadata = {"name": name, "uid": name, "labels": labels, "annotations": annotations}
    return row.checked(Node, {"metadata": metadata, "status": {"allocatable": allocatable}})


def _pod(
    row: Row | None,
    name: str,
    namespace: str,
    requests: Mapping[str, str],
    run_seconds: float | None,
    priority: int | None = None,
) -> object:
    annotations = {} if run_seconds is None else {RUN_SECONDS: f"{run_seconds:g}"}
    container = {"name": "c", "resources": {"requests": requests, "limits": requests}}
    uid = f"{namespace}/{name}"
    metadata = {"name": name, "namespace": namespace, "uid": uid, "annotations": annotations}
    spec = {"containers": [container], "priority": priority}
    pod = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    return pod if row is None else row.checked(Pod, pod)


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
    machines = []
    for row in read_table(nodes, ("machineId", "number of GPUs")):
        name = row.text("machineId")
        amounts = {"pods": _PODS_PER_NODE, _GPU: str(row.integer("number of GPUs"))}
        machines.append(_node(row, name, {"kubernetes.io/hostname": name}, amounts, {}))
    try:
        jobs = msgspec.json.decode(pods.read_bytes(), type=list[_Job])
        return write_trace(writer, machines, [a for job in jobs for a in _philly_pods(job)])
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputFileError(pods, f"not a Philly job log: {error}") from error
    except OSError as error:
        raise InputFileError(pods, error.strerror or str(error)) from error


def _philly_pods(job: _Job) -> list[Arrival]:
    ran = [a for a in job.attempts if a.start_time and a.end_time and a.detail]
    run_seconds = sum(_seconds(a.end_time or "") - _seconds(a.start_time or "") for a in ran)
    arrivals = []
    for number, host in enumerate(ran[0].detail if ran else ()):
        name = f"{job.jobid.replace('_', '-')}-{number}"
        pod = _pod(None, name, job.vc, {_GPU: str(len(host.gpus))}, run_seconds)
        arrivals.append(Arrival(_seconds(job.submitted_time), pod))
    return arrivals


def _seconds(text: str) -> float:
    """Return a time of the Philly traces, in seconds since 1970 as if it was UTC."""
    time = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    return (time - _EPOCH).total_seconds()
