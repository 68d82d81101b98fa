"""A small trace, and what an API server would hold of it: made from what the replay sends."""

import dataclasses
from typing import Any

import msgspec

from conformance.replay.held import HeldNode, HeldPod
from conformance.replay.objects import node_object, pod_object
from conformance.replay.recording import Placement
from conformance.replay.trace import Trace, TraceNode, TracePod
from conformance.replay.verify import Evidence

CPU_ONLY = TraceNode("node-cpu", cpu_milli=8000, memory_mib=16384, gpus=0, model="")
T4 = TraceNode("node-t4", cpu_milli=8000, memory_mib=16384, gpus=2, model="T4")
V100 = TraceNode("node-v100", cpu_milli=8000, memory_mib=16384, gpus=1, model="V100M16")
NODES = (CPU_ONLY, T4, V100)


def task(
    name: str,
    *,
    cpu_milli: int = 1000,
    memory_mib: int = 1024,
    gpus: int = 0,
    gpu_milli: int = 0,
    models: tuple[str, ...] = (),
) -> TracePod:
    return TracePod(name, cpu_milli, memory_mib, gpus, gpu_milli, models, "LS")


def held_node(row: TraceNode) -> HeldNode:
    return msgspec.convert(node_object(row), HeldNode)


def held_pod(
    row: TracePod, *, node: str = "", message: str | None = None, version: int = 1, uid: str = ""
) -> HeldPod:
    """The pod as it is once it is bound to a node, or told why it is not, or neither."""
    pod: dict[str, Any] = pod_object(row)
    pod["metadata"] |= {"uid": uid or f"uid-{row.name}", "resourceVersion": str(version)}
    pod["spec"]["nodeName"] = node
    if message is not None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        pod["status"] = {"conditions": [condition | {"message": message}]}
    return msgspec.convert(pod, HeldPod)


@dataclasses.dataclass
class World:
    """The final node of each pod of a trace, by name; pods that are not named are missing."""

    trace: Trace
    nodes_of: dict[str, str]
    messages: dict[str, str] = dataclasses.field(default_factory=dict)

    def evidence(self) -> Evidence:
        """The server's lists and the recorded placements, one per second."""
        rows = {pod.name: pod for pod in self.trace.pods}
        pods = [
            held_pod(rows[name], node=node, message=self.messages.get(name))
            for name, node in self.nodes_of.items()
        ]
        bound = [pod for pod in pods if pod.spec.node_name]
        placements = [
            Placement(float(second), pod.metadata.name, pod.metadata.uid, pod.spec.node_name)
            for second, pod in enumerate(bound, 1)
        ]
        return Evidence([held_node(node) for node in self.trace.nodes], pods, placements)
