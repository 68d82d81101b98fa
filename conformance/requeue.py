"""Which event has brought a pod back to be tried again? Told by the scheduler's own counters.

A case looks at windows: what has happened between one look and the next, that is, from the first
step that does something after the expectations before it. The counters know events, not pods; so
a case that asks has no other pods waiting than those that it speaks of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from .errors import NotObservable
from .metrics import AFTER_FLUSH, INCOMING, in_words, risen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .case import Expectation
    from .metrics import QueueCounters

__all__ = ["Moves", "moves_between", "requeue_problem"]

#: What is counted as an event and is none: steps of a pod that is on its way anyway.
_NO_EVENTS: Final = frozenset({"BackoffComplete", "PopFromBackoffQ", "ScheduleAttemptFailure"})
#: A pod that comes enters the active queue for the first time, and brings nobody else back, unless
#: a plugin that knows groups of pods is at work: then the case names it.
_ARRIVAL: Final = "UnschedulablePodAdd"
#: Moves that no change of an object stands behind; nobody counts them as handled.
_WITHOUT_OBJECT: Final = frozenset({"UnschedulableTimeout", "ForceActivate"})


class Moves(NamedTuple):
    """What the counters say of one window; None where the scheduler does not count it."""

    requeued: Mapping[str, int] | None
    handled: Mapping[str, int] | None
    after_flush: int | None

    def lines(self) -> list[str]:
        """For a person."""
        found = [f"requeued since the last look: {in_words(self.requeued or {})}"]
        if self.handled is not None:
            found.append(f"events handled since then: {in_words(self.handled)}")
        return found


def moves_between(before: QueueCounters, after: QueueCounters) -> Moves:
    """What has happened between two looks at the counters."""
    # A family that is new has counted nothing before.
    return Moves(
        None if after.requeued is None else risen(after.requeued, before.requeued),
        None if after.handled is None else risen(after.handled, before.handled),
        None if after.after_flush is None else after.after_flush - (before.after_flush or 0),
    )


def requeue_problem(expected: Expectation, moves: Moves) -> str | None:
    """What is not as expected; None if all is. Raises NotObservable if nobody counts it."""
    if expected.requeued_by is not None:
        pods = 1 if expected.pods is None else len(expected.pods)
        problem = _not_by_these(_list(expected.requeued_by), pods, _requeued(moves))
        if problem is not None:
            return problem
    if expected.not_requeued_by is not None:
        return _by_one_of_these(_list(expected.not_requeued_by), moves)
    return None


def after_flush(moves: Moves) -> int:
    """How many pods were bound that a flush had brought back. Raises NotObservable."""
    if moves.after_flush is None:
        raise NotObservable(f"the scheduler serves no {AFTER_FLUSH}")
    return moves.after_flush


def _requeued(moves: Moves) -> Mapping[str, int]:
    if moves.requeued is None:
        raise NotObservable(f"the scheduler serves no {INCOMING}, and pods have come")
    return moves.requeued


def _not_by_these(events: list[str], pods: int, requeued: Mapping[str, int]) -> str | None:
    wanted = f"expected to be requeued by {' and '.join(events)}"
    if missing := [event for event in events if not requeued.get(event)]:
        return f"{wanted}, {' and '.join(missing)} requeued nothing"
    others = requeued.keys() - _NO_EVENTS - {_ARRIVAL} - set(events)
    if others:
        return f"{wanted} alone, found {in_words(requeued, sorted(others))}"
    count = sum(requeued[event] for event in events)
    return None if count == pods else f"{wanted} {pods} times in all, found {count}"


def _by_one_of_these(events: list[str], moves: Moves) -> str | None:
    requeued = _requeued(moves)
    if wrong := [event for event in events if requeued.get(event)]:
        return f"expected not to be requeued by {in_words(requeued, wrong)}"
    if moves.handled is None:
        return None
    silent = [event for event in events if not moves.handled.get(event)]
    if silent := [event for event in silent if event not in _WITHOUT_OBJECT]:
        return f"expected {' and '.join(silent)} to happen and to requeue nothing, it has not come"
    return None


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
