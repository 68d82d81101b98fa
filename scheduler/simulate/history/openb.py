"""The openb trace (Alibaba, cluster-trace-gpu-v2023) as nodes and pods.

GPUs are written as the policies read them (`scheduler.simulate.gpu_requests`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from scheduler.api import core
from scheduler.simulate.gpu_requests import (
    GPU_COUNT,
    GPU_MILLI,
    GPU_MODEL,
    GPUS_MAX,
    NO_GPU,
    WHOLE,
    GpuRequest,
)
from scheduler.simulate.input_files import Count, read_table

if TYPE_CHECKING:
    from pathlib import Path

#: The pods that a node of the study takes.
_PODS_PER_NODE: Final = "1001"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_Gpus = Annotated[int, msgspec.Meta(ge=0, le=GPUS_MAX)]
_Milli = Annotated[int, msgspec.Meta(ge=0, le=WHOLE)]


class _OpenbNode(msgspec.Struct, frozen=True):
    """A row of the table of nodes."""

    sn: str
    cpu_milli: Count
    memory_mib: Count
    gpu: _Gpus
    model: str = ""


class OpenbPod(msgspec.Struct, frozen=True):
    """A pod of the trace. Without times the pod never ends."""

    name: str
    cpu_milli: Count
    memory_mib: Count
    num_gpu: _Gpus
    gpu_milli: _Milli
    gpu_spec: str = ""
    creation_time: Count = 0
    deletion_time: Count | None = None

    def __post_init__(self) -> None:
        if self.num_gpu > 1 and self.gpu_milli < WHOLE:
            raise ValueError(f"gpu_milli: expected {WHOLE} for several GPUs")

    @property
    def gpu(self) -> GpuRequest:
        """The request for GPUs."""
        if not self.num_gpu * self.gpu_milli:
            return NO_GPU
        models = frozenset(model for model in self.gpu_spec.split("|") if model)
        return GpuRequest(self.gpu_milli, self.num_gpu, models)


def read_nodes(path: Path) -> list[core.Node]:
    """Read the nodes, by name. Raises `InputFileError`."""
    return sorted(read_table(path, _OpenbNode, _node), key=lambda node: node.metadata.name)


def _node(row: _OpenbNode) -> core.Node:
    allocatable = {"cpu": f"{row.cpu_milli}m", "memory": f"{row.memory_mib}Mi"}
    allocatable["pods"] = _PODS_PER_NODE
    labels = {"kubernetes.io/hostname": row.sn}
    if row.gpu:
        allocatable[GPU_COUNT] = str(row.gpu)
        labels[GPU_MODEL] = row.model
    return core.Node(
        core.ObjectMeta(name=row.sn, uid=row.sn, labels=labels),
        status=core.NodeStatus(allocatable=allocatable),
    )


def read_pods(path: Path) -> list[OpenbPod]:
    """Read the pods, in the order of the file. Raises `InputFileError`."""
    return list(read_table(path, OpenbPod, lambda pod: pod))


def pod_object(pod: OpenbPod) -> core.Pod:
    """Return the pod as an object without a node."""
    requests, gpu, annotations = {"cpu": f"{pod.cpu_milli}m"}, pod.gpu, {}
    requests["memory"] = f"{pod.memory_mib}Mi"
    if gpu.gpus:
        annotations = {GPU_MILLI: str(gpu.milli), GPU_COUNT: str(gpu.gpus)}
    if gpu.models:
        annotations[GPU_MODEL] = "|".join(sorted(gpu.models))
    container = core.Container(name="c", resources=core.ResourceRequirements(requests=requests))
    metadata = core.ObjectMeta(
        name=pod.name,
        namespace="default",
        uid=pod.name,
        annotations=annotations,
        creation_timestamp=_EPOCH,
    )
    return core.Pod(
        metadata, core.PodSpec(containers=(container,)), core.PodStatus(phase="Pending")
    )
