"""Check expectations, and describe the actual state if one does not hold.

Each matcher looks at one pod or pod group and returns None or a description of the mismatch. A few
are about things that must not happen; they are meaningful only when the scheduler is idle.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ..clock import parse_duration
from ..extender import matches
from .capacity import overcommitments
from .observe import count_of, epoch_seconds, part, sight_of, text_in
from .requeue import after_flush, requeue_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..api import ApiClient, Json
    from ..extender import RunningExtender
    from ..format.expectation import Bounds, ConditionMatch, EventMatch, Expectation, TextMatch
    from .observe import Sight
    from .requeue import Moves

__all__ = [
    "Unmet",
    "is_about_rest",
    "unmet",
    "unmet_by_extender",
    "unmet_by_metric",
    "unmet_by_moves",
]


class Unmet(NamedTuple):
    """An expectation that does not hold: its subject, the reason, and the actual state."""

    subject: str
    problem: str
    lines: tuple[str, ...]


class _Look(NamedTuple):
    """The input of a matcher."""

    sight: Sight
    expected: Expectation
    started_at: float


def is_about_rest(expected: Expectation) -> bool:
    """True if it can only be checked when the scheduler is idle."""
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


async def unmet(api: ApiClient, expected: Expectation, started_at: float) -> Unmet | None:
    """Return the first part of an expectation that does not hold now, or None.

    `started_at` is the start of the scheduler, in seconds since 1970.
    """
    if expected.nodes is not None:
        problems = overcommitments(await api.list("Node"), await api.list("Pod"))
        return Unmet("nodes", problems[0], tuple(problems[1:])) if problems else None
    if expected.node is not None:
        return await _unmet_of_node(api, expected.node, expected)
    if expected.fault is not None:
        injected = await api.injected(expected.fault)
        wrong = _count_problem("times injected", expected.injected, injected)
        return Unmet(f"fault {expected.fault}", wrong, ()) if wrong else None
    sights = [await sight_of(api, ref) for ref in expected.refs]
    for sight in sights:
        problem = _problem(_Look(sight, expected, started_at))
        if problem is not None:
            return Unmet(str(sight.ref), problem, tuple(sight.lines()))
    if expected.bound_count is not None:
        return _unmet_bound_count(sights, expected.bound_count)
    return None


def unmet_by_moves(expected: Expectation, moves: Moves) -> Unmet | None:
    """Return the part of an expectation that the scheduler's counters contradict, or None.

    `moves` are the counts since the last look. Raises NotObservable.
    """
    problem = requeue_problem(expected, moves)
    if problem is None and expected.scheduled_after_flush is not None:
        wanted = expected.scheduled_after_flush
        problem = _count_problem("pods scheduled after a flush", wanted, after_flush(moves))
    if problem is None:
        return None
    return Unmet(", ".join(map(str, expected.refs)), problem, tuple(moves.lines()))


def unmet_by_metric(expected: Expectation, found: int) -> Unmet | None:
    """Return an expectation about a metric whose samples add up to another number, or None."""
    problem = _count_problem("in all", expected.value, found)
    labels = ", ".join(f'{name}="{value}"' for name, value in (expected.labels or {}).items())
    return Unmet(f"metric {expected.metric}{{{labels}}}", problem, ()) if problem else None


def unmet_by_extender(extender: RunningExtender, expected: Expectation) -> Unmet | None:
    """Return the part of an expectation that an extender's requests contradict, or None."""
    subject = f"extender {expected.extender}"
    for verb, wanted in (expected.calls or {}).items():
        problem = _count_problem(f"calls of {verb}", wanted, extender.calls[verb])
        if problem is not None:
            return Unmet(subject, problem, ())
    for verb, wanted_request in (expected.received or {}).items():
        received = extender.received.get(verb)
        if not matches(wanted_request, received):
            line = msgspec.json.encode(received).decode()
            return Unmet(subject, f"expected another request of {verb}", (line,))
    return None


async def _unmet_of_node(api: ApiClient, node_name: str, expected: Expectation) -> Unmet | None:
    on_it = [
        text_in(part(pod, "metadata"), "name")
        for pod in await api.list("Pod")
        if part(pod, "spec").get("nodeName") == node_name
    ]
    problem = _count_problem("pods on it", expected.pod_count, len(on_it))
    names = ", ".join(on_it) or "none"
    return Unmet(f"node {node_name}", problem, (f"pods on it: {names}",)) if problem else None


def _unmet_bound_count(sights: list[Sight], expected: int | Bounds) -> Unmet | None:
    bound = sum(1 for sight in sights if sight.node_name)
    problem = _count_problem("of the pods with a node", expected, bound)
    if problem is None:
        return None
    lines = tuple(line for sight in sights for line in sight.lines())
    return Unmet(f"{len(sights)} pods", problem, lines)


def _problem(look: _Look) -> str | None:
    for name, matcher in _MATCHERS.items():
        if getattr(look.expected, name) is not None:
            problem = _missing(look, name) or matcher(look)
            if problem is not None:
                return problem
    return None


def _missing(look: _Look, matcher: str) -> str | None:
    may_be_gone = ("deleted", "event", "no_event", "attempts")
    if look.sight.object is None and matcher not in may_be_gone:
        return "expected to exist, is gone"
    return None


def _where(look: _Look) -> str:
    return f"is bound to {look.sight.node_name}" if look.sight.node_name else "is not bound"


def _bound_to(look: _Look) -> str | None:
    wanted = look.expected.bound_to
    return None if look.sight.node_name == wanted else f"expected on {wanted}, {_where(look)}"


def _bound_to_one_of(look: _Look) -> str | None:
    wanted = look.expected.bound_to_one_of or []
    if look.sight.node_name in wanted:
        return None
    return f"expected on one of {', '.join(wanted)}, {_where(look)}"


def _not_bound(look: _Look) -> str | None:
    return f"expected not to be bound, {_where(look)}" if look.sight.node_name else None


def _unschedulable(look: _Look) -> str | None:
    wanted = look.expected.unschedulable
    assert wanted is not None
    if look.sight.node_name:
        return f"expected to be unschedulable, {_where(look)}"
    condition = look.sight.condition("PodScheduled")
    if condition is None:
        return "expected to be unschedulable, has no condition PodScheduled"
    if (status := text_in(condition, "status")) != "False":
        return f"expected PodScheduled=False, found {status}"
    if (reason := text_in(condition, "reason")) != wanted.reason:
        return f"expected the reason {wanted.reason}, found {reason or 'none'}"
    return _text_problem("message", wanted, text_in(condition, "message"))


def _gated(look: _Look) -> str | None:
    condition = look.sight.condition("PodScheduled")
    reason = text_in(condition or {}, "reason")
    if look.sight.node_name:
        return f"expected to be gated, {_where(look)}"
    if reason != "SchedulingGated":
        return f"expected the reason SchedulingGated, found {reason or 'none'}"
    tried = look.sight.attempts
    return f"expected to be gated, was tried {tried} times" if tried else None


def _condition(look: _Look) -> str | None:
    wanted = look.expected.condition
    assert wanted is not None
    found = look.sight.condition(wanted.type)
    if found is None:
        return f"expected the condition {wanted.type}, there is none"
    for field, value in (("status", wanted.status), ("reason", wanted.reason)):
        if value is not None and text_in(found, field) != value:
            return (
                f"expected {wanted.type} with {field} {value}, "
                f"found {text_in(found, field) or 'none'}"
            )
    return (
        _text_problem("message", wanted, text_in(found, "message"))
        or _generation_problem(look, wanted, found)
        or _time_problem(look, wanted, found)
    )


def _no_condition(look: _Look) -> str | None:
    unwanted = look.expected.no_condition or ""
    found = look.sight.condition(unwanted)
    return None if found is None else f"expected no condition {unwanted}, there is one"


def _generation_problem(look: _Look, wanted: ConditionMatch, found: Json) -> str | None:
    expected = wanted.observed_generation
    if expected is None:
        return None
    if expected == "current":
        expected = look.sight.generation
    actual = found.get("observedGeneration")
    if actual == expected:
        return None
    return f"expected {wanted.type} with observedGeneration {expected}, found {actual}"


def _time_problem(look: _Look, wanted: ConditionMatch, found: Json) -> str | None:
    bounds = wanted.transitioned
    if bounds is None:
        return None
    moment = epoch_seconds(text_in(found, "lastTransitionTime"))
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


def _event(look: _Look) -> str | None:
    wanted = look.expected.event
    assert wanted is not None
    alike = [event for event in look.sight.events if event.get("reason") == wanted.reason]
    if not alike:
        return f"expected an event {wanted.reason}, there is none"
    problems = [_event_problem(event, wanted) for event in alike]
    matching = [event for event, wrong in zip(alike, problems, strict=True) if wrong is None]
    if not matching:
        return problems[-1]
    counts = [count_of(event) for event in matching]
    what = f"events {wanted.reason}"
    return _count_problem(what, wanted.count, sum(counts)) or _count_problem(
        f"{what} in one series", wanted.series_count, max(counts)
    )


def _no_event(look: _Look) -> str | None:
    wanted = look.expected.no_event
    assert wanted is not None
    for event in look.sight.events:
        if event.get("reason") == wanted.reason and _event_problem(event, wanted) is None:
            return f"expected no event {wanted.reason}, there is one"
    return None


def _event_problem(event: Json, wanted: EventMatch) -> str | None:
    fields = (
        ("type", wanted.type),
        ("action", wanted.action),
        ("reportingController", wanted.reporting_controller),
    )
    for field, value in fields:
        if value is not None and text_in(event, field) != value:
            found = text_in(event, field) or "none"
            return f"expected an event {wanted.reason} with {field} {value}, found {found}"
    return _compare(
        "note", text_in(event, "note"), wanted.note, wanted.note_prefix, wanted.note_contains
    )


def _nominated(look: _Look) -> str | None:
    wanted = look.expected.nominated_node_name
    found = text_in(part(look.sight.object, "status"), "nominatedNodeName")
    if found == wanted:
        return None
    return f"expected nominatedNodeName {wanted or 'not to be set'}, found {found or 'none'}"


def _phase(look: _Look) -> str | None:
    wanted, found = look.expected.phase, text_in(part(look.sight.object, "status"), "phase")
    return None if found == wanted else f"expected the phase {wanted}, found {found or 'none'}"


def _attempts(look: _Look) -> str | None:
    return _count_problem("attempts", look.expected.attempts, look.sight.attempts)


def _deleted(look: _Look) -> str | None:
    return None if look.sight.object is None else "expected to be gone, is still there"


def _has(look: _Look) -> str | None:
    wanted, found = look.expected.has or {}, look.sight.object or {}
    for name, value in wanted.items():
        if not matches(value, found.get(name)):
            actual = msgspec.json.encode(found.get(name)).decode()
            return f"expected another {name}, found {actual}"
    return None


_MATCHERS: Final[dict[str, Callable[[_Look], str | None]]] = {
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


def _count_problem(what: str, expected: int | Bounds | None, found: int) -> str | None:
    if expected is None:
        return None
    if isinstance(expected, int):
        return None if found == expected else f"expected {expected} {what}, found {found}"
    if expected.at_least is not None and found < expected.at_least:
        return f"expected at least {expected.at_least} {what}, found {found}"
    if expected.at_most is not None and found > expected.at_most:
        return f"expected at most {expected.at_most} {what}, found {found}"
    return None


def _text_problem(what: str, wanted: TextMatch | ConditionMatch, found: str) -> str | None:
    return _compare(what, found, wanted.message, wanted.message_prefix, wanted.message_contains)


def _compare(
    what: str, found: str, exact: str | None, prefix: str | None, contained: str | None
) -> str | None:
    if exact is not None and found != exact:
        return f"expected the {what} {exact!r}, found {found!r}"
    if prefix is not None and not found.startswith(prefix):
        return f"expected a {what} that begins with {prefix!r}, found {found!r}"
    if contained is not None and contained not in found:
        return f"expected a {what} that contains {contained!r}, found {found!r}"
    return None
