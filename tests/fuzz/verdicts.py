"""Findings of a turn: rules about answers and changes, independent of the server's code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from fakeapi.store.journal import ObjectChange

from .asking import Asked
from .failures import shape_of, status_in
from .served import ADMIN, CANARY, READER, Turn
from .wire import Answer

__all__ = ["Finding", "is_beyond_budget", "shape", "shown", "wrong_with"]

#: Of CPU time for a request, for each MiB of it.
_BUDGET_SECONDS: Final = 0.25
#: Of a wide body: what fakeapi/security/README.md admits for 49,000 values.
_SECONDS_PER_VALUE: Final = 0.6 / 49_000
#: The loop waits for the child that runs CEL, 0.1 s each for rules, messages and a search; on a
#: busy machine the child waits for a processor, which the meter does not see.
_BLOCKED_FACTOR: Final = 4
_READS: Final = ("GET", "HEAD")
#: What the server does by itself: Events expire, the use of quotas is counted.
_OF_THE_SERVER: Final = (("", "events"), ("events.k8s.io", "events"), ("", "resourcequotas"))


def _budget_seconds(turn: Turn) -> float:
    """Return how long the requests may hold the loop."""
    mebibytes = sum(len(each.raw) for each in turn.asked) / 2**20
    values = sum(each.body.count(b",") + each.body.count(b":") for each in turn.asked)
    return max(_BUDGET_SECONDS, _BUDGET_SECONDS * mebibytes, _SECONDS_PER_VALUE * values)


def is_beyond_budget(turn: Turn, factor: float = 1.0) -> bool:
    """Return True if the loop was held for too long."""
    budget = _budget_seconds(turn) * factor
    held = turn.stretch
    return held.cpu_seconds > budget or held.held_seconds > budget * _BLOCKED_FACTOR


class Finding(NamedTuple):
    """A defect in a line, and the requests that show it."""

    headline: str
    requests: str


def wrong_with(turn: Turn) -> Iterator[Finding]:
    """Yield each finding but those about time."""
    for asked, answer in zip(turn.asked, turn.answers, strict=True):
        problem = _wrong_answer(answer)
        if answer.code in range(200, 300) and not _may(turn.user, asked):
            problem = f"{turn.user} may not {asked.method}, but gets {answer.code}"
        if problem:
            yield Finding(problem, _line(turn.user, asked, answer))
    for error in turn.errors:
        yield Finding(f"logged: {error.splitlines()[-1]}", f"{shown(turn)}\n{error}")
    if turn.user == ADMIN:
        return
    if any(CANARY.encode() in each for each in (turn.streamed, *_bodies(turn))):
        yield Finding(f"{turn.user} has read a Secret", shown(turn))
    for change in turn.changes:
        if not _may_cause(turn.user, change):
            yield Finding(f"{turn.user} has {change.type} {change.resource}", shown(turn))


def shown(turn: Turn) -> str:
    """Return the requests of a turn, and their answers, for people."""
    answered = zip(turn.asked, turn.answers, strict=True)
    return "\n    ".join(_line(turn.user, asked, answer) for asked, answer in answered)


def _line(user: str, asked: Asked, answer: Answer) -> str:
    return f"{user}: {asked} -> {answer.code}"


def _bodies(turn: Turn) -> list[bytes]:
    return [answer.body for answer in turn.answers]


def _wrong_answer(answer: Answer) -> str:
    if answer.code == -1:
        return "no answer in time"
    if answer.code == 0:
        return "the connection was closed without an answer"
    return (
        f"{answer.code} {answer.body[:300]!r}" if answer.code >= 500 and not shape(answer) else ""
    )


def shape(answer: Answer) -> str:
    """Return which of upstream's answers 5xx it is, empty if it is none."""
    if answer.code in (501, 504, 505):
        return str(answer.code)
    try:
        return shape_of(status_in(answer.body)) if answer.code == 500 else ""
    except ValueError:
        return ""


def _may(user: str, asked: Asked) -> bool:
    """Return True if the user may get an answer 2xx to such a request, roughly."""
    if asked.method in _READS or user == ADMIN:
        return True
    is_creation = asked.method == "POST" and user == READER
    return is_creation and any(each in asked.target for each in ("selfsubject", "configmaps", "%"))


def _may_cause(user: str, change: ObjectChange) -> bool:
    if (change.group, change.resource) in _OF_THE_SERVER:
        return True
    granted = ("", "configmaps", "default", "ADDED")
    return user == READER and granted == (
        change.group, change.resource, change.namespace, change.type,
    )  # fmt: skip
