"""Rows of the trace as objects of the API: what the replay creates.

A GPU counts 1000 of the extended resource `example.com/gpu-milli`. That is how shares of a GPU are
asked for without a device plugin; on which GPU of its node a pod runs is nobody's concern here. The
models a pod can use become a required node affinity on the node's model label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .trace import TraceNode, TracePod

__all__ = [
    "GPU_MODEL_LABEL",
    "GPU_RESOURCE",
    "NAMESPACE",
    "PODS_PER_NODE",
    "QOS_LABEL",
    "Json",
    "node_object",
    "pod_object",
]

#: A JSON object.
Json = dict[str, object]

GPU_RESOURCE: Final = "example.com/gpu-milli"
GPU_MODEL_LABEL: Final = "example.com/gpu-model"
#: The trace's word for a pod's class, kept as a label; the API works out a qosClass of its own.
QOS_LABEL: Final = "example.com/qos"
NAMESPACE: Final = "default"
#: The trace does not say how many pods a node takes; this is the kubelet's default (`maxPods`).
PODS_PER_NODE: Final = 110
_IMAGE: Final = "registry.k8s.io/pause:3.10"


def node_object(node: TraceNode) -> Json:
    """A ready Node with everything the machine has, all of it allocatable."""
    resources = _resources(node.cpu_milli, node.memory_mib, 1000 * node.gpus)
    resources["pods"] = str(PODS_PER_NODE)
    labels = {"kubernetes.io/hostname": node.name}
    if node.model:
        labels[GPU_MODEL_LABEL] = node.model
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": labels},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod_object(pod: TracePod) -> Json:
    """A Pod of one container that asks for what the task asked for; without a priority."""
    resources = _resources(pod.cpu_milli, pod.memory_mib, pod.gpu_milli_total)
    limits = {name: resources[name] for name in (GPU_RESOURCE,) if name in resources}
    requirements: Json = (
        {"requests": resources, "limits": limits} if limits else {"requests": resources}
    )
    spec: Json = {
        "containers": [{"name": "task", "image": _IMAGE, "resources": requirements}],
    }
    if pod.models:
        spec["affinity"] = _affinity(pod.models)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": NAMESPACE,
            "labels": {QOS_LABEL: pod.qos} if pod.qos else {},
        },
        "spec": spec,
    }


def _resources(cpu_milli: int, memory_mib: int, gpu_milli: int) -> dict[str, str]:
    resources = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi"}
    if gpu_milli:
        # An extended resource is whole; its limit equals its request.
        resources[GPU_RESOURCE] = str(gpu_milli)
    return resources


def _affinity(models: tuple[str, ...]) -> Json:
    expression = {"key": GPU_MODEL_LABEL, "operator": "In", "values": list(models)}
    term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
