"""A small history, and what an API server would hold of it: made from what the replay sends."""

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec

from conformance.replay.held import HeldNode, HeldPod
from conformance.replay.history import History, HistoryNode, HistoryPod
from conformance.replay.recording import Placement
from conformance.replay.verify import Evidence

GPU_RESOURCE = "alibabacloud.com/gpu-milli"
MODEL = "alibabacloud.com/gpu-card-model"


def machine(name: str, *, gpus: int = 0, model: str = "") -> HistoryNode:
    """A node with 8 cores and 16 GiB."""
    resources = {"cpu": "8000m", "memory": "16384Mi", "pods": "110"}
    if gpus:
        resources[GPU_RESOURCE] = str(1000 * gpus)
    obj = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {MODEL: model} if model else {}},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return HistoryNode(name, obj)


CPU_ONLY = machine("node-cpu")
T4 = machine("node-t4", gpus=2, model="T4")
V100 = machine("node-v100", gpus=1, model="V100M16")
NODES = (CPU_ONLY, T4, V100)


def task(
    name: str,
    *,
    cpu_milli: int = 1000,
    memory_mib: int = 1024,
    gpus: int = 0,
    gpu_milli: int = 0,
    models: tuple[str, ...] = (),
) -> HistoryPod:
    requests = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi"}
    limits = {GPU_RESOURCE: str(gpus * gpu_milli)} if gpus else {}
    resources = {"requests": {**requests, **limits}, "limits": limits}
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    if models:
        expression = {"key": MODEL, "operator": "In", "values": list(models)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        spec["affinity"] = {"nodeAffinity": required}
    metadata = {"name": name, "namespace": "default"}
    return HistoryPod(name, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def write_history(path: Path, *rows: HistoryNode | HistoryPod) -> Path:
    """Write a history that adds these objects at once."""
    lines = [
        {
            "at": 0,
            "change": "ADDED",
            "resource": "pods" if isinstance(row, HistoryPod) else "nodes",
            "object": row.object,
        }
        for row in rows
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def held_node(row: HistoryNode) -> HeldNode:
    return msgspec.convert(copy.deepcopy(row.object), HeldNode)


def held_pod(
    row: HistoryPod, *, node: str = "", message: str | None = None, version: int = 1, uid: str = ""
) -> HeldPod:
    """The pod as it is once it is bound to a node, or told why it is not, or neither."""
    pod: dict[str, Any] = copy.deepcopy(row.object)
    pod["metadata"] |= {"uid": uid or f"uid-{row.name}", "resourceVersion": str(version)}
    pod["spec"]["nodeName"] = node
    if message is not None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        pod["status"] = {"conditions": [condition | {"message": message}]}
    return msgspec.convert(pod, HeldPod)


@dataclasses.dataclass
class World:
    """The final node of each pod of a history, by name; pods that are not named are missing."""

    history: History
    nodes_of: dict[str, str]
    messages: dict[str, str] = dataclasses.field(default_factory=dict)

    def evidence(self) -> Evidence:
        """The server's lists and the recorded placements, one per second."""
        rows = {pod.name: pod for pod in self.history.pods}
        pods = [
            held_pod(rows[name], node=node, message=self.messages.get(name))
            for name, node in self.nodes_of.items()
        ]
        bound = [pod for pod in pods if pod.spec.node_name]
        placements = [
            Placement(float(second), pod.metadata.name, pod.metadata.uid, pod.spec.node_name)
            for second, pod in enumerate(bound, 1)
        ]
        return Evidence([held_node(node) for node in self.history.nodes], pods, placements)
