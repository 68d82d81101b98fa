"""A history as a file: to be replayed by a test, or as a conformance case for any scheduler.

A golden history is the history itself with its seed. A conformance case can contain only steps that
are possible over HTTP with any scheduler: no watches, faults, restarts and single turns.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from .simulation import History, simulate
from .traits import APP, DEDICATED, TOLERATIONS, ZONE, affinity_of, spread_of

Json = dict[str, Any]

#: Steps that no scheduler notices from outside.
_UNSEEN = frozenset({"turns"})


class NotACase(ValueError):
    """A step cannot be part of a conformance case."""


class Golden(NamedTuple):
    """A history worth keeping, and why."""

    description: str
    seed: int
    history: History
    #: Feature gates that are on beside the default ones.
    feature_gates: Sequence[str] = ()


def write_golden(path: Path, golden: Golden) -> None:
    """Keep a history."""
    kept = {**golden._asdict(), "feature_gates": list(golden.feature_gates)}
    path.write_text(yaml.safe_dump(kept, sort_keys=False, width=100), encoding="utf-8")


def read_golden(path: Path) -> Golden:
    """A history that was kept."""
    kept = yaml.safe_load(path.read_text(encoding="utf-8"))
    return Golden(**{**kept, "feature_gates": tuple(kept.get("feature_gates", ()))})


def conformance_case(name: str, history: History, *, seed: int = 0) -> Json:
    """A history as a case, which expects that pods wait or run in the end as they do with us.

    Steps that do nothing are left out. Raises NotACase, and HistoryFailed for one that fails.
    """
    simulation = simulate(history, seed=seed)
    steps = [
        case_step
        for step in simulation.effective
        for verb, arguments in step.items()
        if verb not in _UNSEEN
        for case_step in _case_steps(verb, arguments)
    ]
    nodes = sorted(simulation.store.nodes.now) or ["none"]
    pods = sorted(simulation.store.pods.now.values(), key=lambda pod: pod.metadata.name)
    ends: list[Json] = [{"advance": "60s"}]
    for pod in pods:
        fate: Json = {"bound_to_one_of": nodes} if pod.spec.node_name else {"not_bound": True}
        if not pod.spec.node_name or pod.spec.node_name in nodes:
            ends.append({"expect": {"pod": pod.metadata.name, **fate}})
    return {
        "name": name,
        "source": f"a history of the simulation, seed {seed}",
        "steps": steps + ends,
    }


def write_case(path: Path, case: Json) -> None:
    """A file of one case."""
    file = {"area": "simulation", "cases": [case]}
    path.write_text(yaml.safe_dump(file, sort_keys=False, width=100), encoding="utf-8")


def _case_steps(verb: str, arguments: Json) -> list[Json]:
    makers: dict[str, Callable[..., list[Json]]] = {
        "create_pod": lambda **traits: [{"create": [{"pod": _pod(**traits)}]}],
        "create_node": lambda **traits: [{"create": [{"node": _node(**traits)}]}],
        "update_node": _update_node,
        "update_pod": _update_pod,
        "delete_pod": lambda name: [{"delete": {"pod": name}}],
        "delete_node": lambda name: [{"delete": {"node": name}}],
        "bind_pod": lambda name, node: [{"bind": {"pod": name, "node": node}}],
        "advance": lambda seconds: [{"advance": f"{seconds:g}s"}],
        "settle": lambda: [{"wait_until_settled": {}}],
    }
    if verb not in makers:
        raise NotACase(f"{verb} cannot be done from outside")
    return makers[verb](**arguments)


def _pod(
    *,
    name: str,
    app: str = "",
    zone: str = "",
    host_port: int = 0,
    apart: bool = False,
    near: str = "",
    spread: bool = False,
    gated: bool = False,
    tolerates: bool = False,
    foreign: bool = False,
    grace_seconds: int = 30,
    **plain: Any,
) -> Json:
    """`traits.pod_of` in the form of a case. Victims go at once: there is no kubelet."""
    if unknown := plain.keys() - {"cpu", "priority", "node"}:
        raise NotACase(f"a pod of a case has no {', '.join(sorted(unknown))}")
    spec: Json = {"terminationGracePeriodSeconds": 0}
    if spread:
        spec["topologySpreadConstraints"] = [spread_of(app)]
    optional: Json = {
        "labels": {APP: app} if app else None,
        "node_selector": {ZONE: zone} if zone else None,
        "host_ports": [host_port] if host_port else None,
        "affinity": affinity_of(app, apart=apart, near=near) or None,
        "scheduling_gates": ["gate"] if gated else None,
        "tolerations": TOLERATIONS if tolerates else None,
        "scheduler_name": "another" if foreign else None,
    }
    return {"name": name, **plain, **{k: v for k, v in optional.items() if v}, "spec": spec}


def _node(
    *,
    name: str,
    cpu: str = "4",
    pods: int = 10,
    zone: str = "",
    dedicated: bool = False,
    unschedulable: bool = False,
) -> Json:
    node: Json = {"name": name, "cpu": cpu, "pods": pods}
    if zone:
        node["labels"] = {ZONE: zone}
    if dedicated:
        node["taints"] = [f"{DEDICATED}:NoSchedule"]
    return node | ({"unschedulable": True} if unschedulable else {})


def _update_node(**traits: Any) -> list[Json]:
    node = _node(**traits)
    taints = [{"key": DEDICATED, "effect": "NoSchedule"}] if "taints" in node else None
    patch = {
        "metadata": {"labels": {ZONE: node.get("labels", {}).get(ZONE)}},
        "spec": {"taints": taints, "unschedulable": node.get("unschedulable")},
    }
    allocatable = {"cpu": node["cpu"], "pods": str(node["pods"])}
    return [
        {"patch": {"node": node["name"], "patch": patch}},
        {"update_status": {"node": node["name"], "status": {"allocatable": allocatable}}},
    ]


def _update_pod(
    *,
    name: str,
    label: str = "",
    phase: str = "",
    ungate: bool = False,
    tolerate: bool = False,
    **others: Any,
) -> list[Json]:
    if others:
        raise NotACase(f"the {', '.join(others)} of a pod cannot be changed")
    patch: Json = {}
    if label:
        patch["metadata"] = {"labels": {APP: label}}
    if ungate or tolerate:
        patch["spec"] = {
            **({"schedulingGates": None} if ungate else {}),
            **({"tolerations": TOLERATIONS} if tolerate else {}),
        }
    steps: list[Json] = [{"patch": {"pod": name, "patch": patch}}] if patch else []
    return steps + ([{"update_status": {"pod": name, "status": {"phase": phase}}}] if phase else [])
