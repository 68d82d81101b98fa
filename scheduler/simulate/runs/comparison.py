"""Compare the decisions of a run with the recorded ones, and name the cause of a difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from scheduler.framework.types import FitError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.cycle.pod_group.results import PodGroupAttempt
    from scheduler.cycle.schedule_one import Found
    from scheduler.cycle.schedule_pod import ScheduleResult
    from scheduler.queue import QueuedPodInfo
    from scheduler.simulate.runs.player import Binding

#: The first backoff and the longest one, as kube-scheduler has them by default.
_BACKOFF_SECONDS: Final = 1.0
_BACKOFF_SECONDS_MAX: Final = 10.0


class Difference(msgspec.Struct, frozen=True):
    """A pod whose node is not the history's, or that got it at another time."""

    pod: str
    recorded: str
    recorded_seconds: float
    node: str
    seconds: float | None
    cause: str


class _Decided(NamedTuple):
    """The last decision on a pod: its key, the attempts, and why it did not get the node."""

    key: str
    attempts: int
    cause: str


class Comparison:
    """Follows a run. `noted` is to be called after each cycle."""

    def __init__(self, recorded: Mapping[str, Binding]) -> None:
        self._recorded: Final = recorded
        self._decided: Final[dict[str, _Decided]] = {}

    def noted(self, queued: QueuedPodInfo, found: Found | PodGroupAttempt | None) -> None:
        """Take note of a decision on a pod that the history has bound."""
        binding = self._recorded.get(queued.uid)
        if binding is None or found is None:
            return
        result, status = getattr(found, "result", None), getattr(found, "status", None)
        cause = ""
        if status is not None:
            cause = _rejection(status.cause, binding.node) or status.message
        elif result is not None and getattr(result, "suggested_host", "") != binding.node:
            cause = _why_not(result, binding.node)
        self._decided[queued.uid] = _Decided(queued.key, queued.attempts, cause)

    def differences(self, bindings: Mapping[str, Binding]) -> list[Difference]:
        """Return the pods whose node differs or is missing, and pods bound too early or late.

        A pod may be bound earlier or later by the backoff of its attempts.
        """
        differences = []
        for uid, recorded in self._recorded.items():
            node, seconds = bindings.get(uid, ("", None))
            decided = self._decided.get(uid, _Decided(uid, 0, "the pod was not tried"))
            cause = decided.cause
            if node == recorded.node and seconds is not None:
                late = seconds - recorded.seconds
                backoff = min(
                    _BACKOFF_SECONDS * 2 ** max(decided.attempts - 1, 0), _BACKOFF_SECONDS_MAX
                )
                if abs(late) <= backoff:
                    continue
                cause = f"bound {abs(late):.3f} s {'later' if late > 0 else 'earlier'}"
            differences.append(
                Difference(decided.key, recorded.node, recorded.seconds, node, seconds, cause)
            )
        return differences


def _rejection(cause: object, node: str) -> str:
    """Return the reason why a node was rejected in a search that found none."""
    if not isinstance(cause, FitError) or cause.diagnosis.pre_filter_status is not None:
        return ""
    status = cause.diagnosis.node_to_status.get(node)
    return f"{node}: {status.message}" if status.message else ""


def _why_not(result: ScheduleResult, node: str) -> str:
    """Return why a node was not chosen: it was rejected, not searched, or has a lower score."""
    chosen, position = result.suggested_host, result.feasible_nodes.position(node)
    if position is None:
        status = result.diagnosis.node_to_status.get(node)
        return f"{node}: {status.message or 'the search ended before this node'}"
    if result.scores is None:
        return f"{node}: not scored"
    better = {
        name: int(scores[result.position] - scores[position])
        for name, scores in result.scores.by_plugin.items()
    }
    words = ", ".join(f"{name} {points:+d}" for name, points in better.items() if points)
    return f"{chosen} scores higher: {words}" if words else "equal scores"
