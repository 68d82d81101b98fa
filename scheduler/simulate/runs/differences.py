"""The differences of a run from the history's own decisions, with their causes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from scheduler.cycle.schedule_one import Found
from scheduler.reports.comparison import compare_found

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.cycle.pod_group.results import PodGroupAttempt
    from scheduler.queue import QueuedPodInfo
    from scheduler.simulate.cluster import SimulatedCluster
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


class Differences:
    """Compares the decisions of a cluster with the recorded bindings."""

    def __init__(self, recorded: Mapping[str, Binding], cluster: SimulatedCluster) -> None:
        self._recorded: Final = recorded
        self._cluster: Final = cluster
        self._decided: Final[dict[str, _Decided]] = {}

    def noted(self, queued: QueuedPodInfo, found: Found | PodGroupAttempt | None) -> None:
        """Take note of the result of a cycle; to be called after each one."""
        recorded, cause = self._recorded.get(queued.uid), ""
        if recorded is None or found is None:
            return
        if isinstance(found, Found):
            chosen = "" if found.result is None else found.result.suggested_host
            if chosen != recorded.node:
                cause = compare_found(
                    found,
                    queued.pod_info,
                    self._cluster.core.snapshot,
                    node=recorded.node,
                    now=self._cluster.clock.now(),
                ).answer
        self._decided[queued.uid] = _Decided(queued.key, queued.attempts, cause)

    def of(self, bindings: Mapping[str, Binding]) -> list[Difference]:
        """Return the pods whose node differs or is missing, and pods bound too early or late.

        A pod may be bound earlier or later by the backoff of its attempts.
        """
        differences = []
        for uid, recorded in self._recorded.items():
            node, seconds = bindings.get(uid, ("", None))
            key, attempts, cause = self._decided.get(uid, (uid, 0, "the pod was not tried"))
            if node == recorded.node and seconds is not None:
                late = seconds - recorded.seconds
                backoff = _BACKOFF_SECONDS * 2 ** max(attempts - 1, 0)
                if abs(late) <= min(backoff, _BACKOFF_SECONDS_MAX):
                    continue
                cause = f"bound {abs(late):.3f} s {'later' if late > 0 else 'earlier'}"
            differences.append(
                Difference(key, recorded.node, recorded.seconds, node, seconds, cause)
            )
        return differences
