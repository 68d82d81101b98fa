"""Check expectations, and describe the actual state if one does not hold.

Each matcher looks at one pod or pod group and yields its mismatches, each with its aspect. A few
matchers are about things that must not happen; these are meaningful only when the scheduler is
idle.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from ..clock import parse_duration
from ..extender import matches
from ..format.reading import node_of, short_name_of, text_in
from ..format.resources import part
from ..outcome import Aspect
from .capacity import overcommitments
from .observe import count_of, epoch_seconds, sight_of
from .requeue import after_flush, requeue_mismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..api import ApiClient, Json
    from ..extender import RunningExtender
    from ..format.expectation import Bounds, ConditionMatch, EventMatch, Expectation, TextMatch
    from .metrics import QueueCounters
    from .observe import Sight


class Mismatch(NamedTuple):
    """A difference between an expectation and the actual state.

    A mismatch is final if no further act of the scheduler can change it: a pod stays on its node,
    and counts only grow.
    """

    aspect: Aspect
    problem: str
    is_final: bool = False


class Unmet(NamedTuple):
    """An expectation that does not hold in one aspect: its subject, the reason, the state found."""

    subject: str
    problem: str
    lines: tuple[str, ...]
    aspect: Aspect
    is_final: bool


class _Look(NamedTuple):
    """The input of a matcher."""

    sight: Sight
    expected: Expectation
    started_at: float


_Found: TypeAlias = "Iterable[Mismatch]"

_FIELDS: Final[dict[str, Aspect]] = {
    "bound_to": Aspect.PLACEMENT,
    "bound_to_one_of": Aspect.PLACEMENT,
    "not_bound": Aspect.PLACEMENT,
    "bound_count": Aspect.PLACEMENT,
    "pod_count": Aspect.PLACEMENT,
    "nodes": Aspect.PLACEMENT,
    "deleted": Aspect.PLACEMENT,
    "unschedulable": Aspect.PLACEMENT,
    "gated": Aspect.PLACEMENT,
    "condition": Aspect.STATUS,
    "no_condition": Aspect.STATUS,
    "nominated_node_name": Aspect.STATUS,
    "phase": Aspect.STATUS,
    "has": Aspect.STATUS,
    "event": Aspect.EVENTS,
    "no_event": Aspect.EVENTS,
    "attempts": Aspect.EVENTS,
    "requeued_by": Aspect.REQUEUE,
    "not_requeued_by": Aspect.REQUEUE,
    "scheduled_after_flush": Aspect.REQUEUE,
    "injected": Aspect.REQUESTS,
    "calls": Aspect.REQUESTS,
    "received": Aspect.REQUESTS,
    "value": Aspect.METRICS,
}


def aspects_of(expected: Expectation) -> frozenset[Aspect]:
    """Return the aspects that an expectation judges."""
    aspects = {aspect for name, aspect in _FIELDS.items() if getattr(expected, name) is not None}
    if expected.unschedulable is not None:
        aspects.add(Aspect.STATUS)
    if expected.gated is not None:
        aspects |= {Aspect.STATUS, Aspect.EVENTS}
    for texts in (expected.unschedulable, expected.condition):
        if texts is not None and _texts(texts) != (None, None, None):
            aspects.add(Aspect.MESSAGES)
    if expected.event is not None and _notes(expected.event) != (None, None, None):
        aspects.add(Aspect.MESSAGES)
    return frozenset(aspects)


def is_about_rest(expected: Expectation) -> bool:
    """True if the expectation can only be checked when the scheduler is idle."""
    event = expected.event
    return (
        expected.not_bound is not None
        or expected.no_event is not None
        or expected.no_condition is not None
        or expected.gated is not None
        or expected.attempts is not None
        or expected.reads_metrics
        or expected.bound_count is not None
        or expected.pod_count is not None
        or expected.nominated_node_name == ""
        or expected.nodes is not None
        or expected.fault is not None
        or expected.extender is not None
        or (event is not None and (event.count, event.series_count) != (None, None))
    )


async def unmet(api: ApiClient, expected: Expectation, started_at: float) -> list[Unmet]:
    """Return the parts of an expectation that do not hold now, at most one for each aspect.

    `started_at` is the start of the scheduler, in seconds since 1970.
    """
    if expected.nodes is not None:
        problems = overcommitments(await api.list("Node"), await api.list("Pod"))
        overcommitted = [Mismatch(Aspect.PLACEMENT, problem) for problem in problems]
        return _unmet("nodes", overcommitted, problems[1:])
    if expected.node is not None:
        return await _unmet_of_node(api, expected.node, expected)
    if expected.fault is not None:
        injected = await api.injected(expected.fault)
        mismatch = _count(Aspect.REQUESTS, "times injected", expected.injected, injected)
        return _unmet(f"fault {expected.fault}", mismatch, ())
    sights = [await sight_of(api, ref) for ref in expected.refs]
    by_aspect: dict[Aspect, Unmet] = {}
    for sight in sights:
        mismatches = _mismatches(_Look(sight, expected, started_at))
        for unmet_here in _unmet(str(sight.ref), mismatches, sight.lines):
            by_aspect.setdefault(unmet_here.aspect, unmet_here)
    if expected.bound_count is not None:
        for unmet_here in _unmet_bound_count(sights, expected.bound_count):
            by_aspect.setdefault(unmet_here.aspect, unmet_here)
    return list(by_aspect.values())


def unmet_by_moves(expected: Expectation, moves: QueueCounters) -> list[Unmet]:
    """Return the part of an expectation that the scheduler's counters contradict, if any.

    `moves` are the counts since the last look. Raises NotObservable.
    """
    problem, is_final = requeue_mismatch(expected, moves)
    mismatches = [] if problem is None else [Mismatch(Aspect.REQUEUE, problem, is_final)]
    if not mismatches and expected.scheduled_after_flush is not None:
        wanted, name = expected.scheduled_after_flush, "pods scheduled after a flush"
        mismatches += _count(Aspect.REQUEUE, name, wanted, after_flush(moves))
    return _unmet(", ".join(map(str, expected.refs)), mismatches, moves.lines)


def unmet_by_metric(expected: Expectation, total: int) -> list[Unmet]:
    """Return an expectation about a metric whose samples add up to another number, if any."""
    mismatches = _count(Aspect.METRICS, "in all", expected.value, total)
    labels = ", ".join(f'{name}="{value}"' for name, value in (expected.labels or {}).items())
    return _unmet(f"metric {expected.metric}{{{labels}}}", mismatches, ())


def unmet_by_extender(extender: RunningExtender, expected: Expectation) -> list[Unmet]:
    """Return the part of an expectation that an extender's requests contradict, if any."""
    subject = f"extender {expected.extender}"
    for verb, wanted in (expected.calls or {}).items():
        mismatches = [*_count(Aspect.REQUESTS, f"calls of {verb}", wanted, extender.calls[verb])]
        if mismatches:
            return _unmet(subject, mismatches, ())
    for verb, wanted_request in (expected.received or {}).items():
        received = extender.received.get(verb)
        if not matches(wanted_request, received):
            problem = f"expected another request of {verb}"
            lines = (msgspec.json.encode(received).decode(),)
            return _unmet(subject, [Mismatch(Aspect.REQUESTS, problem)], lines)
    return []


def _unmet(
    subject: str, mismatches: _Found, lines: Callable[[], Iterable[str]] | Iterable[str]
) -> list[Unmet]:
    """Return the first mismatch of each aspect, with the actual state as lines."""
    by_aspect: dict[Aspect, Mismatch] = {}
    for mismatch in mismatches:
        by_aspect.setdefault(mismatch.aspect, mismatch)
    if not by_aspect:
        return []
    state = tuple(lines() if callable(lines) else lines)
    return [
        Unmet(subject, problem, state, aspect, is_final)
        for aspect, problem, is_final in by_aspect.values()
    ]


async def _unmet_of_node(api: ApiClient, node_name: str, expected: Expectation) -> list[Unmet]:
    pods = await api.list("Pod")
    on_it = [short_name_of(pod) for pod in pods if node_of(pod) == node_name]
    mismatches = _count(
        Aspect.PLACEMENT, "pods on it", expected.pod_count, len(on_it), only_grows=False
    )
    return _unmet(f"node {node_name}", mismatches, [f"pods on it: {', '.join(on_it) or 'none'}"])


def _unmet_bound_count(sights: list[Sight], expected: int | Bounds) -> list[Unmet]:
    bound, name = sum(1 for sight in sights if sight.node_name), "of the pods with a node"
    mismatches = _count(Aspect.PLACEMENT, name, expected, bound, only_grows=False)
    lines = [line for sight in sights for line in sight.lines()]
    return _unmet(f"{len(sights)} pods", mismatches, lines)


def _mismatches(look: _Look) -> Iterator[Mismatch]:
    for name, matcher in _MATCHERS.items():
        if getattr(look.expected, name) is None:
            continue
        if look.sight.object is None and name not in _MAY_BE_GONE:
            # A pod that is gone stays away; other objects the scheduler may still make.
            is_final = look.sight.ref.kind == "Pod"
            yield Mismatch(_FIELDS[name], "expected to exist, does not", is_final)
        else:
            yield from matcher(look)


def _where(look: _Look) -> str:
    return f"is bound to {look.sight.node_name}" if look.sight.node_name else "is not bound"


def _bound_to(look: _Look) -> _Found:
    wanted = look.expected.bound_to
    if look.sight.node_name != wanted:
        problem = f"expected on {wanted}, {_where(look)}"
        yield Mismatch(Aspect.PLACEMENT, problem, bool(look.sight.node_name))


def _bound_to_one_of(look: _Look) -> _Found:
    wanted = look.expected.bound_to_one_of or []
    if look.sight.node_name not in wanted:
        problem = f"expected on one of {', '.join(wanted)}, {_where(look)}"
        yield Mismatch(Aspect.PLACEMENT, problem, bool(look.sight.node_name))


def _without_node(look: _Look, wanted: str) -> _Found:
    if look.sight.node_name:
        yield Mismatch(Aspect.PLACEMENT, f"expected {wanted}, {_where(look)}", is_final=True)


def _not_bound(look: _Look) -> _Found:
    return _without_node(look, "not to be bound")


def _unschedulable(look: _Look) -> _Found:
    wanted = look.expected.unschedulable
    assert wanted is not None
    yield from _without_node(look, "to be unschedulable")
    condition = look.sight.condition("PodScheduled") or {}
    status, reason = text_in(condition, "status"), text_in(condition, "reason")
    if not condition:
        problem = "expected to be unschedulable, has no condition PodScheduled"
        yield Mismatch(Aspect.STATUS, problem)
    elif status != "False":
        yield Mismatch(Aspect.STATUS, f"expected PodScheduled=False, found {status}")
    elif reason != wanted.reason:
        problem = f"expected the reason {wanted.reason}, found {reason or 'none'}"
        yield Mismatch(Aspect.STATUS, problem)
    yield from _text("message", text_in(condition, "message"), _texts(wanted))


def _gated(look: _Look) -> _Found:
    yield from _without_node(look, "to be gated")
    condition = look.sight.condition("PodScheduled")
    if (reason := text_in(condition or {}, "reason")) != "SchedulingGated":
        problem = f"expected the reason SchedulingGated, found {reason or 'none'}"
        yield Mismatch(Aspect.STATUS, problem)
    if tried := look.sight.attempts:
        yield Mismatch(
            Aspect.EVENTS, f"expected to be gated, was tried {tried} times", is_final=True
        )


def _condition(look: _Look) -> _Found:
    wanted = look.expected.condition
    assert wanted is not None
    current = look.sight.condition(wanted.type)
    if current is None:
        yield Mismatch(Aspect.STATUS, f"expected the condition {wanted.type}, there is none")
    else:
        for field, value in (("status", wanted.status), ("reason", wanted.reason)):
            if value is not None and text_in(current, field) != value:
                problem = (
                    f"expected {wanted.type} with {field} {value}, "
                    f"found {text_in(current, field) or 'none'}"
                )
                yield Mismatch(Aspect.STATUS, problem)
        for check in (_generation_problem, _time_problem):
            if (wrong := check(look, wanted, current)) is not None:
                yield Mismatch(Aspect.STATUS, wrong)
    yield from _text("message", text_in(current or {}, "message"), _texts(wanted))


def _no_condition(look: _Look) -> _Found:
    unwanted = look.expected.no_condition or ""
    if look.sight.condition(unwanted) is not None:
        yield Mismatch(Aspect.STATUS, f"expected no condition {unwanted}, there is one")


def _generation_problem(look: _Look, wanted: ConditionMatch, current: Json) -> str | None:
    expected = wanted.observed_generation
    if expected is None:
        return None
    if expected == "current":
        expected = look.sight.generation
    actual = current.get("observedGeneration")
    if actual == expected:
        return None
    return f"expected {wanted.type} with observedGeneration {expected}, found {actual}"


def _time_problem(look: _Look, wanted: ConditionMatch, current: Json) -> str | None:
    bounds = wanted.transitioned
    if bounds is None:
        return None
    moment = epoch_seconds(text_in(current, "lastTransitionTime"))
    if moment is None:
        return f"expected {wanted.type} with a lastTransitionTime, found none"
    # API times are truncated to whole seconds, so the other side is truncated as well.
    elapsed = moment - math.floor(look.started_at)
    low, high = bounds.at_least, bounds.at_most
    if low is not None and elapsed < parse_duration(low):
        return f"expected {wanted.type} to have changed {low} after the start, was {elapsed:g}s"
    if high is not None and elapsed > parse_duration(high):
        return f"expected {wanted.type} to have changed by {high} after the start, was {elapsed:g}s"
    return None


def _event(look: _Look) -> _Found:
    wanted = look.expected.event
    assert wanted is not None
    name = f"events {wanted.reason}"
    alike = [event for event in look.sight.events if event.get("reason") == wanted.reason]
    problems = [_fields_problem(event, wanted) for event in alike]
    same = [event for event, wrong in zip(alike, problems, strict=True) if wrong is None]
    if not alike:
        yield Mismatch(Aspect.EVENTS, f"expected an event {wanted.reason}, there is none")
    elif not same:
        yield Mismatch(Aspect.EVENTS, problems[-1] or "")
    noted = [event for event in same or alike if _note_problem(event, wanted) is None]
    if not noted:
        last = (same or alike or [{}])[-1]
        yield from _text("note", text_in(last, "note"), _notes(wanted))
    if counts := [count_of(event) for event in noted or same]:
        yield from _count(Aspect.EVENTS, name, wanted.count, sum(counts))
        series = f"{name} in one series"
        yield from _count(Aspect.EVENTS, series, wanted.series_count, max(counts))


def _no_event(look: _Look) -> _Found:
    wanted = look.expected.no_event
    assert wanted is not None
    for event in look.sight.events:
        is_same = event.get("reason") == wanted.reason and _fields_problem(event, wanted) is None
        if is_same and _note_problem(event, wanted) is None:
            problem = f"expected no event {wanted.reason}, there is one"
            yield Mismatch(Aspect.EVENTS, problem, is_final=True)


def _fields_problem(event: Json, wanted: EventMatch) -> str | None:
    fields = (
        ("type", wanted.type, text_in(event, "type")),
        ("action", wanted.action, text_in(event, "action")),
        ("reportingController", wanted.reporting_controller, text_in(event, "reportingController")),
        ("related", wanted.related, text_in(part(event, "related"), "name")),
    )
    for field, value, found in fields:
        if value is not None and found != value:
            parts = f"{field} {value or 'none'}, found {found or 'none'}"
            return f"expected an event {wanted.reason} with {parts}"
    return None


def _note_problem(event: Json, wanted: EventMatch) -> str | None:
    return _text_problem("note", text_in(event, "note"), _notes(wanted))


def _nominated(look: _Look) -> _Found:
    wanted = look.expected.nominated_node_name
    node = text_in(part(look.sight.object, "status"), "nominatedNodeName")
    if node != wanted:
        problem = f"expected nominatedNodeName {wanted or 'not to be set'}, found {node or 'none'}"
        yield Mismatch(Aspect.STATUS, problem)


def _phase(look: _Look) -> _Found:
    wanted, phase = look.expected.phase, text_in(part(look.sight.object, "status"), "phase")
    if phase != wanted:
        yield Mismatch(Aspect.STATUS, f"expected the phase {wanted}, found {phase or 'none'}")


def _attempts(look: _Look) -> _Found:
    return _count(Aspect.EVENTS, "attempts", look.expected.attempts, look.sight.attempts)


def _deleted(look: _Look) -> _Found:
    if look.sight.object is not None:
        yield Mismatch(Aspect.PLACEMENT, "expected to be gone, is still there")


def _has(look: _Look) -> _Found:
    wanted, found = look.expected.has or {}, look.sight.object or {}
    for name, value in wanted.items():
        if not matches(value, found.get(name)):
            actual = msgspec.json.encode(found.get(name)).decode()
            yield Mismatch(Aspect.STATUS, f"expected another {name}, found {actual}")


_MATCHERS: Final[dict[str, Callable[[_Look], _Found]]] = {
    "bound_to": _bound_to,
    "bound_to_one_of": _bound_to_one_of,
    "not_bound": _not_bound,
    "unschedulable": _unschedulable,
    "gated": _gated,
    "condition": _condition,
    "no_condition": _no_condition,
    "event": _event,
    "no_event": _no_event,
    "nominated_node_name": _nominated,
    "phase": _phase,
    "attempts": _attempts,
    "deleted": _deleted,
    "has": _has,
}
#: The fields that can hold for an object that is gone.
_MAY_BE_GONE: Final = frozenset({"deleted", "event", "no_event", "attempts"})


def _count(
    aspect: Aspect, name: str, expected: int | Bounds | None, count: int, *, only_grows: bool = True
) -> _Found:
    """Yield a mismatch for another number. An excess is final if the number only grows."""
    if expected is None:
        return
    at_least = expected if isinstance(expected, int) else expected.at_least
    at_most = expected if isinstance(expected, int) else expected.at_most
    if isinstance(expected, int):
        wanted = str(expected)
    elif at_most is not None and count > at_most:
        wanted = f"at most {at_most}"
    else:
        wanted = f"at least {at_least}"
    problem = f"expected {wanted} {name}, found {count}"
    if at_most is not None and count > at_most:
        yield Mismatch(aspect, problem, only_grows)
    elif at_least is not None and count < at_least:
        yield Mismatch(aspect, problem)


_Texts: TypeAlias = "tuple[str | None, str | None, str | None]"


def _texts(wanted: TextMatch | ConditionMatch) -> _Texts:
    return wanted.message, wanted.message_prefix, wanted.message_contains


def _notes(wanted: EventMatch) -> _Texts:
    return wanted.note, wanted.note_prefix, wanted.note_contains


def _text(name: str, text: str, wanted: _Texts) -> _Found:
    problem = _text_problem(name, text, wanted)
    if problem is not None:
        yield Mismatch(Aspect.MESSAGES, problem)


def _text_problem(name: str, text: str, wanted: _Texts) -> str | None:
    exact, prefix, contained = wanted
    if exact is not None and text != exact:
        return f"expected the {name} {exact!r}, found {text!r}"
    if prefix is not None and not text.startswith(prefix):
        return f"expected a {name} that begins with {prefix!r}, found {text!r}"
    if contained is not None and contained not in text:
        return f"expected a {name} that contains {contained!r}, found {text!r}"
    return None
