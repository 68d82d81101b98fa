"""Random histories, drawn by a seed or by Hypothesis.

Few names, so that what happens meets again and again; sizes that nearly fit; every trait rare, so
that most pods can go somewhere.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Protocol

from hypothesis import strategies as st

from .writes import FAULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .simulation import History, Step

PODS = tuple(f"p{number}" for number in range(14))
NODES = ("a", "b", "c", "d")
GROUPS = ("g", "h")
ZONES = ("za", "zb")
KINDS = ("pods", "nodes", "podgroups")

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
_VERBS = tuple(verb for verb, weight in WEIGHTS.items() for _ in range(weight))

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


def histories(length_max: int) -> st.SearchStrategy[History]:
    """Histories that Hypothesis can make shorter and simpler."""

    @st.composite
    def steps(draw: st.DrawFn) -> Step:
        return step(lambda options: draw(st.sampled_from(options)))

    return st.lists(steps(), min_size=1, max_size=length_max)


def step(choose: Choose) -> Step:
    """One step."""
    verb = choose(_VERBS)
    makers: dict[str, Callable[[Choose], dict[str, Any]]] = {
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
    if verb not in makers:
        return {verb: {"kind": choose(KINDS)}}
    return {verb: makers[verb](choose)}


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
