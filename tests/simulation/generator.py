"""Random histories, drawn by a seed or by Hypothesis.

Few names, so that what happens meets again and again; sizes that nearly fit; every trait rare, so
that most pods can go somewhere.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from hypothesis import strategies as st

from .simulation import History, Step
from .writes import FAULTS

PODS = tuple(f"p{number}" for number in range(14))
NODES = ("a", "b", "c", "d")
GROUPS = ("g", "h")
ZONES = ("za", "zb")
KINDS = ("pods", "nodes", "podgroups")
DEVICE_KINDS = (
    *("resourceclaims", "resourceslices", "deviceclasses", "controller", "driver"),
    *("pods", "nodes", "resourceclaims", "resourceslices"),
)
CLAIMS, TEMPLATES, POOLS = ("c0", "c1", "c2"), ("t0", "t1"), (*NODES, "net")
CLASSES = ("gpu", "gpu", "fast")
CLAIM_WRITES = ("status", "status", "update", "create", "get", "release", "delete")

#: How often each verb comes, of all.
WEIGHTS = {
    "create_pod": 26,
    "settle": 14,
    "turns": 12,
    "advance": 10,
    "delete_pod": 9,
    "create_node": 7,
    "update_node": 5,
    "update_pod": 5,
    "delete_node": 4,
    "create_pod_group": 6,
    "delete_pod_group": 2,
    "fail": 4,
    "relist": 3,
    "hold": 3,
    "release": 3,
    "latency": 5,
    "allow": 2,
    "bind_pod": 2,
    "interrupt": 1,
    "restart": 2,
    "calm": 2,
}
#: The same for histories with devices.
DEVICE_WEIGHTS = WEIGHTS | {
    "create_pod": 34,
    "create_pod_group": 3,
    "delete_pod_group": 1,
    "fail": 9,
    "create_claim": 7,
    "delete_claim": 4,
    "put_template": 3,
    "delete_template": 1,
    "break_devices": 2,
    "create_class": 3,
    "delete_class": 2,
    "put_slice": 6,
    "delete_slice": 3,
}

_POD_TRAITS: tuple[tuple[str, tuple[object, ...]], ...] = (
    ("zone", ZONES),
    ("host_port", (80, 81)),
    ("apart", (True,)),
    ("near", ("x", "y")),
    ("spread", (True,)),
    ("gated", (True,)),
    ("tolerates", (True,)),
    ("never_preempts", (True,)),
    ("foreign", (True,)),
    ("waits", (True,)),
    ("waits", (True,)),
    ("lingers", (True,)),
    ("grace_seconds", (0, 5)),
    ("node", NODES),
)
_POD_CHANGES: tuple[dict[str, object], ...] = (
    {"label": "x"},
    {"label": "y"},
    {"cpu": "500m"},
    {"cpu": "2"},
    {"phase": "Succeeded"},
    {"ungate": True},
    {"ungate": True},
    {"tolerate": True},
)


class Choose(Protocol):
    """Takes one of several, the simplest first."""

    def __call__(self, options: Sequence[Any], /) -> Any:
        """Take one."""
        ...


def random_history(seed: int, length: int) -> History:
    """A history of so many steps, nodes at its start."""
    choose = random.Random(seed).choice
    zones = zip(NODES[:2], ZONES, strict=True)
    start: History = [
        {"create_node": {"name": name, "cpu": "4", "zone": zone}} for name, zone in zones
    ]
    start += [
        {"create_pod_group": {"name": "g", "min_count": 2, "one_zone": True}},
        {"create_pod_group": {"name": "h", "min_count": 2, "priority": 5}},
    ]
    return start + [step(choose) for _ in range(length - len(start))]


def random_device_history(seed: int, length: int) -> History:
    """A history of so many steps with devices: two nodes with a slice each at its start."""
    choose = random.Random(seed).choice
    start: History = [
        *({"create_node": {"name": name, "cpu": "4"}} for name in NODES[:2]),
        *({"put_slice": {"name": name, "node": name}} for name in NODES[:2]),
        {"create_class": {"name": "gpu", "extended": True}},
        {"create_class": {"name": "fast", "fast": True}},
        {"create_pod_group": {"name": "g", "min_count": 2}},
        {"create_claim": {"name": "c0"}},
        {"put_template": {"name": "t0"}},
    ]
    return start + [device_step(choose) for _ in range(length - len(start))]


def histories(
    length_max: int, step_of: Callable[[Choose], Step] | None = None
) -> st.SearchStrategy[History]:
    """Histories that Hypothesis can make shorter and simpler."""
    make = step_of or step

    @st.composite
    def steps(draw: st.DrawFn) -> Step:
        return make(lambda options: draw(st.sampled_from(options)))

    return st.lists(steps(), min_size=1, max_size=length_max)


def step(choose: Choose) -> Step:
    """One step of a history without devices."""
    verb = choose(_VERBS)
    if verb not in _MAKERS:
        return {verb: {"kind": choose(KINDS)}}
    return {verb: _MAKERS[verb](choose)}


def device_step(choose: Choose) -> Step:
    """One step of a history with devices."""
    verb = choose(_DEVICE_VERBS)
    if verb not in _DEVICE_MAKERS:
        return {verb: {"kind": choose(DEVICE_KINDS)}}
    return {verb: _DEVICE_MAKERS[verb](choose)}


def _pod(choose: Choose) -> dict[str, Any]:
    pod = {"name": choose(PODS), "cpu": choose(("1", "0", "500m", "2", "3", "5"))}
    if group := choose(("", "g", "g", "h")):
        # Members are alike more often than not.
        pod |= {"group": group, "cpu": choose(("1", "1", pod["cpu"]))}
    if priority := choose((0, 0, 5, 10)):
        pod["priority"] = priority
    for _ in range(choose((0, 0, 1, 2))):
        trait, values = choose(_POD_TRAITS)
        pod[trait] = choose(values)
    if {"apart", "spread"} & pod.keys() or choose((False, True)):
        pod["app"] = choose(("x", "y"))
    return pod


def _pod_group(choose: Choose) -> dict[str, Any]:
    group: dict[str, Any] = {"name": choose(GROUPS), "min_count": choose((2, 3, 0, 4))}
    if priority := choose((0, 0, 5, 10)):
        group["priority"] = priority
    trait: dict[str, Any] = choose(({}, {"one_zone": True}, {"disrupted_as_a_whole": True}))
    return group | trait


def _node(choose: Choose) -> dict[str, Any]:
    node: dict[str, Any] = {
        "name": choose(NODES),
        "cpu": choose(("4", "2", "3")),
        "zone": choose(ZONES),
    }
    trait: dict[str, Any] = choose(
        ({}, {}, {}, {"dedicated": True}, {"unschedulable": True}, {"pods": 2})
    )
    return node | trait


def _fault(choose: Choose) -> dict[str, Any]:
    write = choose(("bind", "delete", "patch"))
    return {"write": write, "how": choose(FAULTS), "times": choose((1, 1, 2, 6))}


def _device_pod(choose: Choose) -> dict[str, Any]:
    pod = {"name": choose(PODS), "cpu": choose(("0", "1", "1", "2", "3"))}
    devices: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: {"claim": choose(CLAIMS)},
        lambda: {"template": choose(TEMPLATES)},
        lambda: {"gpus": choose((1, 1, 2))},
        lambda: {"claim": choose(CLAIMS), "template": choose(TEMPLATES)},
        lambda: {"gpus": 1, "template": choose(TEMPLATES)},
        dict,
    )
    pod |= choose(devices)()
    if group := choose(("", "", "", "g")):
        pod["group"] = group
    if priority := choose((0, 0, 0, 5)):
        pod["priority"] = priority
    if choose((False, False, True)):
        trait, values = choose(_POD_TRAITS)
        pod[trait] = choose(values)
    if {"apart", "spread"} & pod.keys():
        pod["app"] = choose(("x", "y"))
    return pod


def _claim(choose: Choose) -> dict[str, Any]:
    traits: tuple[dict[str, Any], ...] = (
        {}, {}, {}, {"count": 2}, {"everything": True}, {"units": 2}, {"units": 1, "count": 2},
        {"count": 2, "one_model": True}, {"instead": "fast"},
    )  # fmt: skip
    return {"device_class": choose(CLASSES), **choose(traits)}


def _slice(choose: Choose) -> dict[str, Any]:
    name = choose(POOLS)
    kinds = ("plain", "plain", "plain", "fast", "counters", "capacity", "conditions", "tainted")
    node = {} if name == "net" else {"node": name}
    return {"name": name, **node, "devices": choose((2, 1, 3)), "kind": choose(kinds)}


def _device_fault(choose: Choose) -> dict[str, Any]:
    if choose((False, False, True)):
        return _fault(choose)
    write = choose((*(f"claim_{write}" for write in CLAIM_WRITES), "pod_claim"))
    return {"write": write, "how": choose(FAULTS), "times": choose((1, 1, 2, 6))}


_MAKERS: dict[str, Callable[[Choose], dict[str, Any]]] = {
    "create_pod": _pod,
    "create_node": _node,
    "update_node": _node,
    "update_pod": lambda c: {"name": c(PODS), **c(_POD_CHANGES)},
    "delete_pod": lambda c: {"name": c(PODS)},
    "delete_node": lambda c: {"name": c(NODES)},
    "create_pod_group": _pod_group,
    "delete_pod_group": lambda c: {"name": c(GROUPS)},
    "allow": lambda c: {"name": c(PODS)},
    "bind_pod": lambda c: {"name": c(PODS), "node": c(NODES)},
    "turns": lambda c: {"count": c((1, 2, 3, 5, 8, 13))},
    "advance": lambda c: {"seconds": c((0.1, 0.5, 1.0, 3.0, 10.0, 31.0, 90.0, 301.0))},
    "fail": _fault,
    "latency": lambda c: {"seconds": c((0.0, 0.2, 2.0, 8.0))},
    "settle": lambda c: {},
    "restart": lambda c: {},
    "calm": lambda c: {},
}
_DEVICE_MAKERS: dict[str, Callable[[Choose], dict[str, Any]]] = _MAKERS | {
    "create_pod": _device_pod,
    "advance": lambda c: {"seconds": c((0.1, 0.5, 1.0, 3.0, 10.0, 31.0, 301.0, 601.0))},
    "fail": _device_fault,
    "create_claim": lambda c: {"name": c(CLAIMS), **_claim(c)},
    "delete_claim": lambda c: {"name": c(CLAIMS)},
    "put_template": lambda c: {"name": c(TEMPLATES), **_claim(c)},
    "delete_template": lambda c: {"name": c(TEMPLATES)},
    "break_devices": lambda c: {"name": c(CLAIMS)},
    "create_class": lambda c: c(
        ({"name": "gpu", "extended": True}, {"name": "fast", "fast": True}, {"name": "gpu"})
    ),
    "delete_class": lambda c: {"name": c(CLASSES)},
    "put_slice": _slice,
    "delete_slice": lambda c: {"name": c(POOLS)},
}


def _weighted(weights: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(verb for verb, weight in weights.items() for _ in range(weight))


_VERBS, _DEVICE_VERBS = _weighted(WEIGHTS), _weighted(DEVICE_WEIGHTS)
