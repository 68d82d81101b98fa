"""Convert rows of the trace to API objects, which the replay creates.

A GPU counts as 1000 of the extended resource `example.com/gpu-milli`, which allows shares of a GPU
without a device plugin; the choice of a GPU within a node is not simulated. The models that a pod
can use become a required node affinity on the node's model label.
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
#: The trace's class of a pod, kept as a label; the API computes a qosClass of its own.
QOS_LABEL: Final = "example.com/qos"
NAMESPACE: Final = "default"
#: The trace has no limit on pods per node; this is the kubelet's default (`maxPods`).
PODS_PER_NODE: Final = 110
_IMAGE: Final = "registry.k8s.io/pause:3.10"


def node_object(node: TraceNode) -> Json:
    """Return a ready Node with all resources of the machine allocatable."""
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
    """Return a Pod of one container with the task's requests and no priority."""
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
        # An extended resource is an integer, and its limit equals its request.
        resources[GPU_RESOURCE] = str(gpu_milli)
    return resources


def _affinity(models: tuple[str, ...]) -> Json:
    expression = {"key": GPU_MODEL_LABEL, "operator": "In", "values": list(models)}
    term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
