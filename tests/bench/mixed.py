"""Scheduling cycles in a cluster as companies have them: unequal nodes, and pods of many apps.

Nodes have 8 sizes, 3 zones, 2 disk types, and one in 20 is tainted. Running pods and pods to come
belong to 400 apps with labels of their own. A fifth of the apps spread over zones, others prefer to
stay apart, prefer company, prefer or require certain nodes, or tolerate the taint. A fifth of the
pods to come have requests of their own. The generator is seeded: every call gives the same cluster.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from scheduler.api.core import Node, Pod
from scheduler.testing import make_node, make_pod
from tests.bench.cycles import Workload

_SEED: Final = 11
_ZONE: Final = "topology.kubernetes.io/zone"
_HOSTNAME: Final = "kubernetes.io/hostname"
_APPS: Final = 400
_ZONES: Final = 3
_TAINTED_EVERY: Final = 20
_OWN_REQUESTS_EVERY: Final = 5
_RUNNING_PER_NODE: Final = 3

#: Cores and GiB of memory.
_SIZES: Final = ((4, 16), (4, 32), (8, 32), (8, 64), (16, 64), (16, 128), (32, 128), (64, 256))

_TAINT: Final = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
_TOLERATION: Final = {"key": "dedicated", "operator": "Equal", "value": "batch"}
_SSD: Final = {"key": "disktype", "operator": "In", "values": ["ssd"]}


class _App(NamedTuple):
    """A template: what `make_pod` gets for each pod of the app."""

    name: str
    fields: Mapping[str, Any]


def mixed_workload(nodes_total: int, pods_total: int) -> Workload:
    """Three running pods per node on average, and pods of the same apps to come."""
    rng = random.Random(_SEED)
    nodes = [_node(number, rng) for number in range(nodes_total)]
    apps = [_app(number, rng) for number in range(_APPS)]
    open_nodes = [node.metadata.name for node in nodes if not node.spec.taints]
    running = [
        _pod(rng.choice(apps), f"running-{number}", node_name=rng.choice(open_nodes))
        for number in range(_RUNNING_PER_NODE * nodes_total)
    ]
    pods = [_pod_to_come(number, apps, rng) for number in range(pods_total)]
    return Workload("mixed", nodes, running, pods)


def _node(number: int, rng: random.Random) -> Node:
    cores, gibibytes = rng.choice(_SIZES)
    return make_node(
        f"node-{number}",
        allocatable={"cpu": str(cores), "memory": f"{gibibytes}Gi", "pods": "110"},
        zone=f"zone-{rng.randrange(_ZONES)}",
        labels={"disktype": rng.choice(("ssd", "hdd"))},
        taints=[_TAINT] if number % _TAINTED_EVERY == 0 else [],
    )


def _app(number: int, rng: random.Random) -> _App:
    name = f"app-{number}"
    requests = _requests(rng)
    return _App(name, {"labels": {"app": name}, "requests": requests, **_rules(number, name)})


def _requests(rng: random.Random) -> dict[str, str]:
    return {"cpu": f"{rng.randrange(20, 600)}m", "memory": f"{rng.randrange(50, 1000)}Mi"}


def _rules(number: int, name: str) -> dict[str, Any]:
    """Return the scheduling rules of an app; half of the apps have none."""
    selector = {"matchLabels": {"app": name}}
    match number % 10:
        case 0:
            return {"spread": [_spread(_ZONE, "ScheduleAnyway", selector)]}
        case 1:
            return {"spread": [_spread(_ZONE, "DoNotSchedule", selector, max_skew=20)]}
        case 2:
            return {"affinity": {"podAntiAffinity": _preferred_term(_HOSTNAME, selector)}}
        case 3:
            return {"affinity": {"podAffinity": _preferred_term(_ZONE, selector)}}
        case 4:
            terms = [{"matchExpressions": [_SSD]}]
            required = {"nodeSelectorTerms": terms}
            return {"affinity": {"nodeAffinity": {_REQUIRED: required}}}
        case 5:
            return {"tolerations": [_TOLERATION]}
        case _:
            return {}


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _spread(key: str, action: str, selector: object, max_skew: int = 1) -> dict[str, object]:
    return {
        "maxSkew": max_skew,
        "topologyKey": key,
        "whenUnsatisfiable": action,
        "labelSelector": selector,
    }


def _preferred_term(key: str, selector: object) -> dict[str, object]:
    term = {"topologyKey": key, "labelSelector": selector}
    return {_PREFERRED: [{"weight": 50, "podAffinityTerm": term}]}


def _pod(app: _App, name: str, **more: Any) -> Pod:
    return make_pod(f"{app.name}-{name}", **{**app.fields, **more})


def _pod_to_come(number: int, apps: Sequence[_App], rng: random.Random) -> Pod:
    own = {"requests": _requests(rng)} if number % _OWN_REQUESTS_EVERY == 0 else {}
    return _pod(rng.choice(apps), f"pod-{number}", **own)
