"""Checks of cases that are valid but mistaken: each finding is a mistake in the file.

unknown-name     a step or an expectation names an object that nothing made before it
unused-anchor    a YAML anchor without an alias
uncounted-fault  faults that no expectation counts, so that they may never happen; a named fault
                 that is neither counted nor cleared, and does not only observe
cannot-fail      a number of at least 0, the same expectation twice, a case that expects nothing
cannot-hold      a number whose bounds exclude each other; expectations that exclude each other
unknown-event    the name of an event that does not exist, or that is nearly one of the scheduler's
unchecked-step   the last steps of a case, with no expectation after them
duplicate        two cases with the same content
no-description   a long case whose description is missing
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import yaml

from ..api import Ref, ref_of
from ..errors import InputError
from ..format.cluster_events import unknown_event
from ..format.expectation import Bounds, Expectation, pod_ref
from ..format.objects import objects_of
from ..format.steps import Bind, ClearFaults, Create, Evict, Inject, Settle, Subject, in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from ..api import Json
    from ..format.case import Case
    from ..format.objects import Item
    from ..format.steps import Step

#: Kinds of objects that a scheduler can make.
_MADE_BY_SCHEDULERS: Final = frozenset({"Lease", "ResourceClaim"})
#: A case with more steps than this needs a description.
_STEPS_MAX: Final = 12
_HAPPEN_ANYWAY: Final = ("compact", "drop_watches", "observe", "outage", "restart")
#: The fields that expect a node, and those that expect none.
_BOUND: Final = ("bound_to", "bound_to_one_of")
_WITHOUT_NODE: Final = ("not_bound", "unschedulable", "gated")
_SUBJECTS: Final = frozenset({"pod", "pods", "labels"})
#: The fields that can hold for a pod that is gone.
_OF_GONE: Final = frozenset({"deleted", "event", "no_event", "attempts"})
#: The reasons of the scheduler's events, and how similar a misspelt one is.
_REASONS: Final = ("FailedScheduling", "Preempted", "Scheduled")
_NEARLY: Final = 0.75
_METADATA: Final = frozenset(
    {"name", "source", "description", "labels", "level", "feature", "since", "until"}
    | {"known_bug"}
)


class Finding(NamedTuple):
    """A mistake in a file of cases."""

    place: str
    check: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.check}: {self.text}"


def findings_in_cases(cases: Sequence[Case]) -> Iterator[Finding]:
    """Yield the mistakes in cases."""
    for case in cases:
        place = f"{case.origin}:{case.line}"
        for check, text in _mistakes(case):
            yield Finding(place, check, f"{case.id}: {text}")
    yield from _duplicates(cases)


def unused_anchors(file: Path) -> Iterator[Finding]:
    """Yield the anchors of a file that no alias refers to. Raises InputError."""
    defined: dict[str, int] = {}
    used: set[str] = set()
    try:
        with file.open("rb") as stream:
            for event in yaml.parse(stream, Loader=yaml.SafeLoader):
                if isinstance(event, yaml.AliasEvent):
                    used.add(str(event.anchor))
                elif isinstance(event, yaml.NodeEvent) and event.anchor is not None:
                    mark = event.start_mark
                    defined[event.anchor] = mark.line + 1 if mark is not None else 0
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"{file}: {error}") from error
    for anchor in defined.keys() - used:
        yield Finding(f"{file}:{defined[anchor]}", "unused-anchor", f"&{anchor} has no alias")


def _mistakes(case: Case) -> Iterator[tuple[str, str]]:
    steps = [*in_order(case.steps)]
    for where, ref in _unknown(case, steps):
        yield "unknown-name", f"{where}: nothing before it makes {ref}"
    for problem in _uncounted(case, steps):
        yield "uncounted-fault", problem
    yield from _vacuous(steps)
    for step in steps:
        if isinstance(step.action, Expectation):
            for text in _unknown_events(step.action):
                yield "unknown-event", f"{step.where}: {text}"
    expectations = [number for number, step in enumerate(steps) if _is_expectation(step)]
    if not expectations:
        yield "cannot-fail", "there is no expectation"
    else:
        for step in steps[expectations[-1] + 1 :]:
            yield "unchecked-step", f"{step.where}: no expectation comes after it"
    if len(steps) > _STEPS_MAX and not case.description:
        yield "no-description", f"{len(steps)} steps without a description of their purpose"


def _is_expectation(step: Step) -> bool:
    return isinstance(step.action, Expectation)


def _unknown(case: Case, steps: Iterable[Step]) -> Iterator[tuple[str, Ref]]:
    """Yield the references to objects that nothing made before, with their places."""
    made = {*_made(case.cluster)}
    for step in steps:
        if isinstance(step.action, Create):
            made |= {*_made(step.action.objects)}
        for ref in _named(step):
            if (ref.kind, ref.name) not in made and ref.kind not in _MADE_BY_SCHEDULERS:
                yield step.where, ref


def _made(items: Iterable[Item]) -> Iterator[tuple[str, str]]:
    for item in items:
        for obj in objects_of(item):
            ref = ref_of(obj)
            yield ref.kind, ref.name
            spec = obj.get("spec")
            if ref.kind == "Pod" and isinstance(spec, dict) and "nodeName" in spec:
                yield "Node", str(spec["nodeName"])


def _named(step: Step) -> Iterator[Ref]:
    """Yield the objects that a step names."""
    action = step.action
    if isinstance(action, Subject):
        yield action.ref
    elif isinstance(action, Bind):
        yield pod_ref(action.pod)
        yield Ref("Node", action.node)
    elif isinstance(action, Evict):
        yield pod_ref(action.pod)
    elif isinstance(action, Expectation):
        yield from action.refs
        nodes = [action.node, action.bound_to, action.nominated_node_name]
        nodes += action.bound_to_one_of or []
        yield from (Ref("Node", node) for node in nodes if node)


def _uncounted(case: Case, steps: Iterable[Step]) -> Iterator[str]:
    """Yield the mistakes with faults: none is counted, or a name is used nowhere."""
    used: set[str] = set()
    counts = False
    faults: list[Json] = [*case.faults]
    for step in steps:
        if isinstance(step.action, Expectation) and step.action.fault is not None:
            used.add(step.action.fault)
            counts = True
        elif isinstance(step.action, ClearFaults):
            used |= {*step.action.names}
        elif isinstance(step.action, Inject):
            faults += step.action.faults
    faults = [fault for fault in faults if not _happens_anyway(fault)]
    if faults and not counts:
        yield "no expectation counts the injections of a fault"
        return
    for fault in faults:
        if fault.get("name", "") not in {"", *used}:
            yield f"the name of the fault {fault['name']} is used nowhere"


def _happens_anyway(fault: Json) -> bool:
    """True for a fault that needs no request, that only observes, or that is left to chance."""
    when = fault.get("when")
    is_random = isinstance(when, dict) and when.get("probability", 1) != 1
    return is_random or any(fault.get(name) is not None for name in _HAPPEN_ANYWAY)


def _vacuous(steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """Yield expectations that cannot fail, or cannot hold."""
    before: list[Expectation] = []
    for step in steps:
        if not isinstance(step.action, Expectation):
            if not isinstance(step.action, Settle):
                before.clear()
            continue
        if step.action in before:
            yield "cannot-fail", f"{step.where}: the same expectation as before"
        before.append(step.action)
        problem = next(filter(None, (_conflict(each, step.action) for each in before)), None)
        if problem is not None:
            yield "cannot-hold", f"{step.where}: {problem}"
        for name, low, high in _bounds(step.action):
            if (low or 0) <= 0 and high is None:
                yield "cannot-fail", f"{step.where}: every number is at least 0, in {name}"
            elif low is not None and high is not None and low > high:
                yield "cannot-hold", f"{step.where}: no number is in the bounds of {name}"


def _conflict(first: Expectation, second: Expectation) -> str | None:
    """Return the reason why two expectations cannot hold at once; they may be the same."""
    if not {ref for ref in first.refs if ref.kind == "Pod"} & {*second.refs}:
        return None
    for left, right in ((first, second), (second, first)):
        nodes, others = _nodes(left), _nodes(right)
        if nodes == frozenset():
            return "bound_to is none of bound_to_one_of"
        if nodes is not None and others is not None and not nodes & others:
            return f"a pod is not on {_listed(nodes)} and on {_listed(others)}"
        names = [name for name in _BOUND if getattr(left, name) is not None]
        for name in names:
            for other in _WITHOUT_NODE:
                if getattr(right, other) is not None:
                    return f"{name} and {other} exclude each other"
        if left.deleted and (kept := _fields(right) - _OF_GONE):
            return f"deleted and {min(kept)} exclude each other"
        if left.gated and right.unschedulable is not None:
            return "gated and unschedulable exclude each other"
        if left.condition is not None and left.condition.type == right.no_condition:
            return f"condition and no_condition are both about {right.no_condition}"
        if left.event is not None and left.event == right.no_event:
            return f"event and no_event are the same, {left.event.reason}"
        if both := _events(left.requeued_by) & _events(right.not_requeued_by):
            return f"requeued_by and not_requeued_by both have {min(both)}"
    return None


def _nodes(expected: Expectation) -> frozenset[str] | None:
    """Return the nodes that a pod may be on; None if the expectation is about no node."""
    if expected.bound_to is None and expected.bound_to_one_of is None:
        return None
    if expected.bound_to is None or expected.bound_to_one_of is None:
        return frozenset(expected.bound_to_one_of or [expected.bound_to or ""])
    return frozenset({expected.bound_to} & {*expected.bound_to_one_of})


def _listed(nodes: frozenset[str]) -> str:
    return " or ".join(sorted(nodes))


def _fields(expected: Expectation) -> frozenset[str]:
    names = expected.__struct_fields__
    return frozenset(name for name in names if getattr(expected, name) is not None) - _SUBJECTS


def _events(named: str | list[str] | None) -> frozenset[str]:
    return frozenset([named] if isinstance(named, str) else named or [])


def _unknown_events(expected: Expectation) -> Iterator[str]:
    for named in (expected.requeued_by, expected.not_requeued_by):
        yield from filter(None, map(unknown_event, sorted(_events(named))))
    for event in (expected.event, expected.no_event):
        if event is not None and event.reason not in _REASONS:
            # Plugins may have reasons of their own.
            for meant in difflib.get_close_matches(event.reason, _REASONS, 1, _NEARLY):
                yield f"there is no event {event.reason}; did you mean {meant}?"


def _bounds(expected: Expectation) -> Iterator[tuple[str, int | None, int | None]]:
    for name in expected.__struct_fields__:
        value = getattr(expected, name)
        if isinstance(value, Bounds):
            yield name, value.at_least, value.at_most
    for verb, count in (expected.calls or {}).items():
        if isinstance(count, Bounds):
            yield f"calls.{verb}", count.at_least, count.at_most


def _duplicates(cases: Iterable[Case]) -> Iterator[Finding]:
    seen: dict[str, Case] = {}
    for case in cases:
        content = {name: value for name, value in case.raw.items() if name not in _METADATA}
        key = json.dumps(msgspec.to_builtins(content), sort_keys=True)
        first = seen.setdefault(key, case)
        if first is not case:
            place = f"{case.origin}:{case.line}"
            yield Finding(place, "duplicate", f"{case.id}: the same content as {first.id}")
