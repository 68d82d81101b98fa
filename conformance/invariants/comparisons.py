"""Invariants that compare the decisions on one pod in two related clusters.

The cluster of a case with the pods that are on a node, and the first pod that a step creates, make
a case with one decision, which is compared with the decision in a changed cluster. With several
waiting pods nothing could be compared: one pod's node decides which other pods fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..errors import InputError
from ..format.case import case_of
from ..format.objects import Item, objects_of
from ..format.reading import name_of, reasons_in
from ..format.resources import nano_units, objects, part
from .violation import Violation, comparison

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..api import Json
    from ..format.case import Case
    from ..run.observation import Observation, PodRecord
    from .violation import Observe

_FACTOR: Final = 2
#: Longer than the longest backoff.
_PAUSE: Final = "15s"


@comparison("a filter asks for enough of a resource, never for less than there is")
def feasibility_monotone_in_capacity(case: Case, observe: Observe) -> Iterator[Violation]:
    """A pod that fits also fits if each node has twice as much of everything."""
    single = single_decision(case)
    if single is None:
        return
    small, before = single, _decision(single, observe(single))
    if before is None or not before.node:
        return
    large = _with_raw(small, cluster=[_enlarged(obj) for obj in objects(small.raw["cluster"])])
    after = _decision(large, observe(large))
    if after is not None and not after.node:
        yield Violation(
            text=f"pod {_name(after)} fits on {before.node}, and on no node if all are larger",
            step="",
            expect={"pod": _name(after), "bound_to_one_of": _node_names(large)},
            case=large,
        )


@comparison("pkg/scheduler findNodesThatPassFilters: all nodes of a small cluster are filtered")
def verdicts_independent_of_order_and_names(case: Case, observe: Observe) -> Iterator[Violation]:
    """A pod fits, or does not for the same reasons, if the nodes have other names and order."""
    single = single_decision(case)
    if single is None:
        return
    before = _decision(single, observe(single))
    renamed = _renamed(single)
    after = _decision(renamed, observe(renamed))
    if before is None or after is None:
        return
    if bool(before.node) != bool(after.node) or _reasons(before) != _reasons(after):
        yield Violation(
            text=f"pod {_name(before)} {_words(before)}; with other names of nodes it "
            f"{_words(after)}",
            step="",
            expect=_same(before, renamed),
            case=renamed,
        )


def single_decision(case: Case) -> Case | None:
    """Return a case with one waiting pod: the first that a step creates; None without a pod."""
    waiting = next(
        (
            entry
            for step in objects(case.raw["steps"])
            for entry in objects(step.get("create"))
            if "pod" in entry and not _is_placed(entry) and "scheduling_gates" not in entry["pod"]  # type: ignore[operator]
        ),
        None,
    )
    if waiting is None:
        return None
    cluster = [
        entry
        for entry in objects(case.raw.get("cluster"))
        if "pod" not in entry or _is_placed(entry)
    ]
    if not any("node" in entry for entry in cluster):
        return None
    return _with_raw(case, cluster=cluster, steps=[{"create": [waiting]}, *_rest(case)])


def _rest(case: Case) -> list[Json]:
    """Return the pause at the end of a case, in which a pod is decided."""
    steps = objects(case.raw["steps"])
    settles = "wait_until_settled" in steps[-1]
    pause = [step for step in steps[-2:-1] if "advance" in step] if settles else []
    if settles or "advance" in steps[-1]:
        return [*pause, steps[-1]]
    return [{"advance": _PAUSE}]


def _is_placed(entry: Json) -> bool:
    return part(entry, "pod").get("node") is not None


def _with_raw(case: Case, **changed: object) -> Case:
    raw = {**case.raw, **changed}
    return case_of(raw, area=case.area, origin=case.origin)


def _enlarged(entry: Json) -> Json:
    """Return a node with twice as much of everything; other entries as they are."""
    if "node" not in entry:
        return entry
    (node,) = objects_of(msgspec.convert(entry, Item))
    amounts = part(part(node, "status"), "allocatable")
    larger = {name: _twice(str(amount)) for name, amount in amounts.items()}
    status = {**part(node, "status"), "capacity": larger, "allocatable": larger}
    return {"object": {**node, "status": status}}


def _twice(amount: str) -> str:
    nano = nano_units(amount) * _FACTOR
    return str(nano // 10**9) if nano % 10**9 == 0 else f"{nano // 10**6}m"


def _renamed(case: Case) -> Case:
    """Return a case whose nodes have new names, in the opposite order, and come in that order."""
    names = sorted(_node_names(case))
    new = {name: f"n{len(names) - index}" for index, name in enumerate(names)}
    if {*new.values()} & _texts(case.raw):
        raise InputError(f"case {case.id}: the names {', '.join(new.values())} are in use")
    raw = _replaced(case.raw, new)
    assert isinstance(raw, dict)
    cluster = objects(raw["cluster"])
    nodes = [entry for entry in cluster if "node" in entry]
    first = next(index for index, entry in enumerate(cluster) if "node" in entry)
    rest = [entry for entry in cluster if "node" not in entry]
    ordered = [*rest[:first], *reversed(nodes), *rest[first:]]
    return _with_raw(case, **{**raw, "cluster": ordered})


def _replaced(value: object, new: dict[str, str]) -> object:
    """Return a value of JSON in which some texts, except keys, are replaced."""
    if isinstance(value, dict):
        return {key: _replaced(item, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, new) for item in value]
    return new.get(value, value) if isinstance(value, str) else value


def _texts(value: object) -> set[str]:
    if isinstance(value, dict):
        return {text for item in value.values() for text in _texts(item)}
    if isinstance(value, list):
        return {text for item in value for text in _texts(item)}
    return {value} if isinstance(value, str) else set()


def _node_names(case: Case) -> list[str]:
    names = [
        (entry, part(entry, "node") or part(part(entry, "object"), "metadata"))
        for entry in objects(case.raw["cluster"])
    ]
    return [
        str(named["name"])
        for entry, named in names
        if "node" in entry or part(entry, "object").get("kind") == "Node"
    ]


def _decision(case: Case, observation: Observation) -> PodRecord | None:
    """Return the pod of a case with one decision; None if it is gone."""
    (step,) = (step for step in objects(case.raw["steps"]) if "create" in step)
    pod = part(objects(step["create"])[0], "pod")
    key = f"{pod.get('namespace', 'default')}/{pod['name']}"
    return next((record for record in observation.pods if record.key == key), None)


def _name(record: PodRecord) -> str:
    return name_of(record.object)


def _reasons(record: PodRecord) -> str:
    return reasons_in(record.message)


def _words(record: PodRecord) -> str:
    return f"is bound to {record.node}" if record.node else f"is not bound ({_reasons(record)})"


def _same(before: PodRecord, case: Case) -> Json:
    """Return the expectation that a pod fares as it did before."""
    if before.node:
        return {"pod": _name(before), "bound_to_one_of": _node_names(case)}
    return {"pod": _name(before), "unschedulable": {"message_prefix": _reasons(before)}}
