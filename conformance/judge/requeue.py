"""Check which event brought a pod back into the queue, from the scheduler's own counters.

A case looks at windows: the time between two looks, which begins with the first step after the
expectations before it. The counters are per event, not per pod, so all pending pods of such a case
are checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import NotObservable
from ..format.cluster_events import event_name
from .metrics import AFTER_FLUSH, INCOMING, in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..format.expectation import Expectation
    from .metrics import QueueCounters

#: Labels that are counted as events but are steps of a pod's normal way.
_NO_EVENTS: Final = frozenset({"BackoffComplete", "PopFromBackoffQ", "ScheduleAttemptFailure"})
#: A new pod enters the active queue and normally brings no other pod back. With a plugin for
#: groups of pods it can; then the case names it.
_ARRIVAL: Final = "UnschedulablePodAdd"
#: Moves without a change of an object; they are not counted as handled events.
_WITHOUT_OBJECT: Final = frozenset({"UnschedulableTimeout", "ForceActivate"})


def requeue_mismatch(expected: Expectation, moves: QueueCounters) -> tuple[str | None, bool]:
    """Return the first mismatch, or None, and True if it is final, as counts only grow.

    Raises NotObservable if a counter is missing.
    """
    if expected.requeued_by is not None:
        pods = 1 if expected.pods is None else len(expected.pods)
        mismatch = _not_by_these(_list(expected.requeued_by), pods, _requeued(moves))
        if mismatch[0] is not None:
            return mismatch
    if expected.not_requeued_by is not None:
        return _by_one_of_these(_list(expected.not_requeued_by), moves)
    return None, False


def after_flush(moves: QueueCounters) -> int:
    """Return the number of pods bound after a flush moved them. Raises NotObservable."""
    if moves.after_flush is None:
        raise NotObservable(f"the scheduler serves no {AFTER_FLUSH}")
    return moves.after_flush


def _requeued(moves: QueueCounters) -> Mapping[str, int]:
    if moves.requeued is None:
        raise NotObservable(f"the scheduler serves no {INCOMING}, and pods have come")
    return moves.requeued


def _not_by_these(
    events: list[str], pods: int, requeued: Mapping[str, int]
) -> tuple[str | None, bool]:
    wanted = f"expected to be requeued by {' and '.join(events)}"
    if missing := [event for event in events if not requeued.get(event)]:
        return f"{wanted}, {' and '.join(missing)} requeued nothing", False
    others = requeued.keys() - _NO_EVENTS - {_ARRIVAL} - set(events)
    if others:
        return f"{wanted} alone, found {in_words(requeued, sorted(others))}", True
    count = sum(requeued[event] for event in events)
    if count == pods:
        return None, False
    return f"{wanted} {pods} times in all, found {count}", count > pods


def _by_one_of_these(events: list[str], moves: QueueCounters) -> tuple[str | None, bool]:
    requeued = _requeued(moves)
    if wrong := [event for event in events if requeued.get(event)]:
        return f"expected not to be requeued by {in_words(requeued, wrong)}", True
    if moves.handled is None:
        return None, False
    silent = [event for event in events if not moves.handled.get(event)]
    if silent := [event for event in silent if event not in _WITHOUT_OBJECT]:
        happened = f"expected {' and '.join(silent)} to happen and to requeue nothing"
        return f"{happened}, it has not come", False
    return None, False


def _list(value: str | list[str]) -> list[str]:
    return [event_name(name) for name in ([value] if isinstance(value, str) else value)]
