"""The openb trace (Alibaba, cluster-trace-gpu-v2023) as nodes and pods.

GPUs are written as the policies read them (`scheduler.simulate.gpu_requests`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from scheduler.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from scheduler.explain.input_files import Count, read_table
from scheduler.simulate.gpu_requests import (
    GPU_COUNT,
    GPU_MILLI,
    GPU_MODEL,
    GPUS_MAX,
    NO_GPU,
    WHOLE,
    GpuRequest,
)
from scheduler.simulate.history.traces import Arrival, trace_node, trace_pod, write_trace

if TYPE_CHECKING:
    from pathlib import Path

    from scheduler.api.core import Node, Pod
    from scheduler.simulate.history.format import HistoryWriter

#: The pods that a node of the study takes.
_PODS_PER_NODE: Final = "1001"

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


def read_nodes(path: Path, *, counts_milli: bool = False) -> list[Node]:
    """Read the nodes, by name. Raises `InputFileError`.

    With `counts_milli` thousandths of GPUs are an extended resource too.
    """

    def node(row: _OpenbNode) -> Node:
        amounts = {"cpu": f"{row.cpu_milli}m", "memory": f"{row.memory_mib}Mi"}
        amounts["pods"] = _PODS_PER_NODE
        if not row.gpu:
            return trace_node(row.sn, amounts)
        amounts[GPU_COUNT] = str(row.gpu)
        if counts_milli:
            amounts[GPU_MILLI] = str(row.gpu * WHOLE)
        return trace_node(row.sn, amounts, labels={GPU_MODEL: row.model})

    return sorted(read_table(path, _OpenbNode, node), key=lambda node: node.metadata.name)


def read_pods(path: Path) -> list[OpenbPod]:
    """Read the pods, in the order of the file. Raises `InputFileError`."""
    return list(read_table(path, OpenbPod, lambda pod: pod))


def pod_object(pod: OpenbPod, *, counts_milli: bool = False) -> Pod:
    """Return the pod as an object without a node, and maybe for schedulers without plugins.

    Thousandths of GPUs are then an extended resource too, and the wanted models a node affinity:
    any scheduler counts them, if not on single GPUs. And the pod has a time to run.
    """
    requests = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    gpu, annotations = pod.gpu, dict[str, str]()
    if gpu.gpus:
        annotations = {GPU_MILLI: str(gpu.milli), GPU_COUNT: str(gpu.gpus)}
    if gpu.models:
        annotations[GPU_MODEL] = "|".join(sorted(gpu.models))
    if not counts_milli:
        return trace_pod(pod.name, requests, limits={}, annotations=annotations)
    milli = {GPU_MILLI: str(gpu.total)} if gpu.total else {}
    run_seconds, affinity = None, None
    if pod.deletion_time is not None:
        run_seconds = max(0, pod.deletion_time - pod.creation_time)
    if gpu.models:
        has_model = NodeSelectorRequirement(GPU_MODEL, "In", (*sorted(gpu.models),))
        affinity = Affinity(NodeAffinity(NodeSelector((NodeSelectorTerm((has_model,)),))))
    return trace_pod(
        pod.name,
        {**requests, **milli},
        limits=milli,
        annotations=annotations,
        run_seconds=run_seconds,
        affinity=affinity,
    )


def import_openb(writer: HistoryWriter, nodes: Path, pods: Path) -> int:
    """Import the openb trace for any scheduler."""
    arrivals = [
        Arrival(pod.creation_time, pod_object(pod, counts_milli=True)) for pod in read_pods(pods)
    ]
    return write_trace(writer, read_nodes(nodes, counts_milli=True), arrivals)
