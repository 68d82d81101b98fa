"""The openb trace (Alibaba, cluster-trace-gpu-v2023) as nodes and pods.

GPUs are written as the policies read them (`scheduler.simulate.gpu_requests`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api import core
from scheduler.simulate.gpu_requests import (
    GPU_COUNT,
    GPU_MILLI,
    GPU_MODEL,
    GPUS_MAX,
    WHOLE,
    GpuRequest,
)
from scheduler.simulate.history.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from scheduler.simulate.history.tables import Row

#: The pods that a node of the study takes.
_PODS_PER_NODE: Final = "1001"
_NAMESPACE: Final = "default"


class OpenbPod(NamedTuple):
    """A pod of the trace. Without times the pod never ends."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpu: GpuRequest
    created_seconds: int
    deleted_seconds: int | None


def read_nodes(path: Path) -> list[core.Node]:
    """Read the nodes, by name. Raises `InputFileError`."""
    rows = read_table(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    return sorted(map(_node, rows), key=lambda node: node.metadata.name)


def _node(row: Row) -> core.Node:
    name, gpus, model = row.text("sn"), row.integer("gpu"), row.text("model")
    if gpus > GPUS_MAX:
        raise row.error("gpu", f"expected at most {GPUS_MAX}, got {gpus}")
    allocatable = {
        "cpu": f"{row.integer('cpu_milli')}m",
        "memory": f"{row.integer('memory_mib')}Mi",
        "pods": _PODS_PER_NODE,
    }
    labels = {"kubernetes.io/hostname": name}
    if gpus:
        allocatable[GPU_COUNT] = str(gpus)
        labels[GPU_MODEL] = model
    return core.Node(
        core.ObjectMeta(name=name, uid=name, labels=labels),
        status=core.NodeStatus(allocatable=allocatable),
    )


def read_pods(path: Path) -> list[OpenbPod]:
    """Read the pods, in the order of the file. Raises `InputFileError`."""
    required = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    return [_pod(row) for row in read_table(path, required)]


def _pod(row: Row) -> OpenbPod:
    milli, gpus = row.integer("gpu_milli"), row.integer("num_gpu")
    if gpus > GPUS_MAX:
        raise row.error("num_gpu", f"expected at most {GPUS_MAX}, got {gpus}")
    if milli > WHOLE or (gpus > 1 and milli < WHOLE):
        raise row.error("gpu_milli", f"expected at most {WHOLE}, and {WHOLE} for several GPUs")
    models = frozenset(model for model in row.text("gpu_spec").split("|") if model)
    return OpenbPod(
        row.text("name"),
        row.integer("cpu_milli"),
        row.integer("memory_mib"),
        GpuRequest(milli, gpus, models) if milli * gpus else GpuRequest(),
        row.integer("creation_time", default=0),
        row.integer("deletion_time") if row.text("deletion_time") else None,
    )


def pod_object(pod: OpenbPod, *, created: datetime | None = None) -> core.Pod:
    """Return the pod as an object without a node."""
    requests = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    container = core.Container(name="c", resources=core.ResourceRequirements(requests=requests))
    metadata = core.ObjectMeta(
        name=pod.name,
        namespace=_NAMESPACE,
        uid=pod.name,
        annotations=_annotations(pod.gpu),
        creation_timestamp=created or datetime.fromtimestamp(0, UTC),
    )
    return core.Pod(
        metadata, core.PodSpec(containers=(container,)), core.PodStatus(phase="Pending")
    )


def _annotations(gpu: GpuRequest) -> Mapping[str, str]:
    if not gpu.gpus:
        return {}
    annotations = {GPU_MILLI: str(gpu.milli), GPU_COUNT: str(gpu.gpus)}
    return annotations | ({GPU_MODEL: "|".join(sorted(gpu.models))} if gpu.models else {})
