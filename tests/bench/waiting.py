"""The cost of thousands of pods that fit nowhere for those that fit, and of useless events.

All waiting pods are from one template and were turned down by one plugin. The cost of an event is
that of the whole handler: cache, queue, hints, stories.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from scheduler.api.core import Node, Pod
from scheduler.testing import make_node, make_pod
from tests.bench.stage import Stage

__all__ = ["REJECTORS", "slowdown", "useless_events_milliseconds"]

_ZONE: Final = "topology.kubernetes.io/zone"
_NODES: Final = 1000
_OFFERED: Final = {"cpu": "16", "memory": "64Gi", "pods": "110"}
_TAINTS: Final = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
_TOLERATIONS: Final = [{"key": "team", "operator": "Equal", "value": "a"}]
_REQUESTS: Final = {"cpu": "100m", "memory": "500Mi"}
_REPEAT: Final = 5

_NOBODY: Final = {"labelSelector": {"matchLabels": {"app": "nobody"}}}
_LONELY: Final = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{**_NOBODY, "topologyKey": _ZONE}]
    }
}
_NOWHERE: Final = [
    {**_NOBODY, "topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
]
#: By the plugin that turns them down, what waiting pods have that others do not.
REJECTORS: Final[dict[str, dict[str, Any]]] = {
    "NodeResourcesFit": {"requests": {"cpu": "100"}},
    "TaintToleration": {"tolerations": []},
    "NodeAffinity": {"node_selector": {"disk": "none"}},
    "InterPodAffinity": {"affinity": _LONELY},
    "PodTopologySpread": {"spread": _NOWHERE},
}


def slowdown(rejector: str, *, waiting: int = 10_000, fitting: int = 1000) -> float:
    """Return how many times longer pods that fit take with so many others waiting than without.

    Both are measured in turns, the best of each counts.
    """
    alone, crowded = _stage(), _crowded(rejector, waiting)
    best = {alone: float("inf"), crowded: float("inf")}
    for turn in range(_REPEAT):
        for stage in best:
            pods = [_pod(f"fits-{turn}-{i}") for i in range(fitting)]
            start = time.perf_counter()
            bound = stage.schedule(pods)
            best[stage] = min(best[stage], time.perf_counter() - start)
            if bound != fitting:
                raise RuntimeError(f"{bound} of {fitting} pods were bound")
    return best[crowded] / best[alone]


def useless_events_milliseconds(rejector: str, *, waiting: int = 10_000) -> Mapping[str, float]:
    """Return the cost of an event that helps none of the waiting pods, by the kind of event."""
    stage = _crowded(rejector, waiting)
    stage.schedule([_pod("other")])
    costs = {}
    for name, happen in _EVENTS.items():
        if (rejector, name) in _HELPFUL:
            continue
        seconds = []
        for turn in range(_REPEAT):
            start = time.perf_counter()
            happen(stage, turn)
            seconds.append(time.perf_counter() - start)
        left = len(stage.queue.unschedulable_pods)
        if left != waiting:
            raise RuntimeError(f"{rejector}: {name} has helped {waiting - left} pods")
        costs[name] = statistics.median(seconds) * 1000
    return costs


def _stage() -> Stage:
    return Stage([_node(f"node-{i}", i) for i in range(_NODES)])


def _crowded(rejector: str, waiting: int) -> Stage:
    stage = _stage()
    different = REJECTORS[rejector]
    stage.schedule([_pod(f"waits-{i}", **different) for i in range(waiting)])
    rejectors = {name for info in stage.queue.unschedulable_pods for name in _rejectors(info)}
    if len(stage.queue.unschedulable_pods) != waiting or rejectors != {rejector}:
        raise RuntimeError(f"{len(stage.queue.unschedulable_pods)} wait, because of {rejectors}")
    return stage


def _rejectors(info: Any) -> set[str]:
    return set(info.unschedulable_plugins)


def _node(name: str, number: int) -> Node:
    return make_node(name, allocatable=_OFFERED, zone=f"zone-{number % 3}", taints=_TAINTS)


def _pod(name: str, **different: Any) -> Pod:
    return make_pod(name, **{"requests": _REQUESTS, "tolerations": _TOLERATIONS, **different})


def _pod_comes(stage: Stage, turn: int) -> None:
    pod = _pod(f"comes-{turn}", node_name="node-1", labels={"app": "other"})
    stage.pod_events.on_add(pod, is_initial=False)


def _pod_goes(stage: Stage, turn: int) -> None:
    pod = _pod(f"comes-{turn}", node_name="node-1", labels={"app": "other"})
    stage.pod_events.on_delete(pod, final_state_unknown=False)


def _pod_is_relabelled(stage: Stage, turn: int) -> None:
    old = _pod(f"comes-{turn}", node_name="node-1", labels={"app": "other"})
    new = _pod(f"comes-{turn}", node_name="node-1", labels={"app": f"other-{turn}"})
    stage.pod_events.on_update(old, new)
    stage.pod_events.on_update(new, old)


def _node_grows(stage: Stage, turn: int) -> None:
    node = _node("node-2", 2)
    offered = {**node.status.allocatable, "cpu": str(17 + turn)}
    grown = replace(node, status=replace(node.status, allocatable=offered))
    stage.node_events.on_update(node, grown)
    stage.cache.add_node(node)


def _node_is_labelled(stage: Stage, turn: int) -> None:
    node = _node("node-3", 3)
    labels = {**node.metadata.labels, "turn": str(turn)}
    stage.node_events.on_update(node, replace(node, metadata=replace(node.metadata, labels=labels)))
    stage.cache.add_node(node)


def _node_is_tainted(stage: Stage, turn: int) -> None:
    node = _node("node-4", 4)
    more = make_node("node-4", taints=[*_TAINTS, {"key": f"turn-{turn}", "effect": "NoSchedule"}])
    stage.node_events.on_update(
        node, replace(node, spec=replace(node.spec, taints=more.spec.taints))
    )
    stage.cache.add_node(node)


def _node_comes(stage: Stage, turn: int) -> None:
    node = make_node(f"new-{turn}", allocatable={"cpu": "1", "pods": "10"}, taints=_TAINTS)
    stage.node_events.on_add(node, is_initial=False)


#: Each helps no pods but those it is `_HELPFUL` to.
_EVENTS: Final[dict[str, Callable[[Stage, int], None]]] = {
    "AssignedPodAdd": _pod_comes,
    "AssignedPodUpdatePodLabel (twice)": _pod_is_relabelled,
    "AssignedPodDelete": _pod_goes,
    "NodeUpdateNodeAllocatable": _node_grows,
    "NodeUpdateNodeLabel": _node_is_labelled,
    "NodeUpdateNodeTaint": _node_is_tainted,
    "NodeAdd": _node_comes,
}
#: By upstream's own hints: whatever goes may make room, and a taint may hide a new node.
_HELPFUL: Final = {
    ("NodeResourcesFit", "AssignedPodDelete"),
    ("NodeResourcesFit", "NodeUpdateNodeTaint"),
    ("NodeAffinity", "NodeUpdateNodeTaint"),
    ("InterPodAffinity", "NodeUpdateNodeTaint"),
}
