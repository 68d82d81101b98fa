"""Objects and paths that many tests use."""

from typing import Any

Json = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
ALL_PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CORE_EVENTS = "/api/v1/namespaces/default/events"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def pod(name: str = "p", *, spec: Json | None = None, **metadata: Any) -> Json:
    """A pod with one container."""
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "c", "image": "x"}], **(spec or {})},
    }


def with_resources(**resources: Any) -> Json:
    """A pod spec whose one container has these resources."""
    return {"containers": [{"name": "c", "image": "x", "resources": resources}]}


def config_map(name: str, data: Json | None = None, **metadata: Any) -> Json:
    """A ConfigMap."""
    return {"metadata": {"name": name, **metadata}, "data": data or {}}


def binding(name: str, node: str = "n1", **metadata: Any) -> Json:
    """A Binding of a pod to a node."""
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}
