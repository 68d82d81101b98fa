"""The numbers that the parts of a scheduler write to while they work.

What can be read off the queue and the cache at any time (pending pods, cache size) is not here:
`scheduler.assembly.app` adds it when the metrics are asked for. Meanings and buckets are those of
`pkg/scheduler/metrics/metrics.go` in v1.36.3; names and texts are in `catalogue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from scheduler.metrics.instruments import (
    Histogram,
    HistogramVec,
    NumberVec,
    TallyVec,
    exponential_buckets,
)

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds since some start, never going back: what durations are measured with.
Stopwatch: TypeAlias = "Callable[[], float]"

_MILLISECONDS: Final = exponential_buckets(0.001, 2, 15)
_EXTENSION_POINTS: Final = exponential_buckets(0.0001, 2, 12)
_PLUGINS: Final = exponential_buckets(0.00001, 1.5, 20)
_LONG: Final = exponential_buckets(0.01, 2, 20)
_ATTEMPTS: Final = exponential_buckets(1, 2, 5)
_VICTIMS: Final = exponential_buckets(1, 2, 7)

#: From this attempt on they are counted together.
_ATTEMPTS_TOLD_APART: Final = 15


class EventTimer:
    """A context manager that observes the duration of its block, also if the block raises."""

    __slots__ = ("_histogram", "_spent_seconds", "_started", "_stopwatch")

    def __init__(self, stopwatch: Stopwatch, histogram: Histogram, spent_seconds: float) -> None:
        self._stopwatch: Final = stopwatch
        self._histogram: Final = histogram
        self._spent_seconds: Final = spent_seconds

    def __enter__(self) -> None:
        self._started = self._stopwatch()

    def __exit__(self, *exception: object) -> None:
        self._histogram.observe(self._stopwatch() - self._started + self._spent_seconds)


class SchedulerMetrics:
    """One scheduler's numbers. Durations are in seconds, by `stopwatch`.

    Without a stopwatch all durations are 0: for frameworks that run where nobody measures.
    """

    def __init__(self, stopwatch: Stopwatch = lambda: 0.0) -> None:
        self.stopwatch: Final = stopwatch
        #: By result (scheduled, unschedulable, error) and profile.
        self.schedule_attempts: Final = NumberVec()
        self.scheduling_attempt_duration: Final = HistogramVec(_MILLISECONDS)
        self.scheduling_algorithm_duration: Final = Histogram(_MILLISECONDS)
        #: By number of attempts, see `attempts_label`.
        self.pod_scheduling_sli_duration: Final = HistogramVec(_LONG)
        self.pod_scheduling_attempts: Final = Histogram(_ATTEMPTS)
        #: Under no label.
        self.pod_scheduled_after_flush: Final = NumberVec({(): 0})
        #: By extension point, status and profile.
        self.framework_extension_point_duration: Final = HistogramVec(_EXTENSION_POINTS)
        #: By plugin, extension point and status; measured in one cycle of ten.
        self.plugin_execution_duration: Final = HistogramVec(_PLUGINS)
        #: By plugin, extension point and profile.
        self.plugin_evaluations: Final = TallyVec()
        #: By plugin, event and answer.
        self.queueing_hint_execution_duration: Final = HistogramVec(_PLUGINS)
        #: By event.
        self.event_handling_duration: Final = HistogramVec(_EXTENSION_POINTS)
        #: By result.
        self.permit_wait_duration: Final = HistogramVec(_MILLISECONDS)
        #: By operation: what is under way in the background.
        self.goroutines: Final = NumberVec()
        self.preemption_attempts: Final = NumberVec({(): 0})
        self.preemption_victims: Final = Histogram(_VICTIMS)
        #: By result (success, error).
        self.preemption_goroutines_duration: Final = HistogramVec(_LONG)
        self.preemption_goroutines_executions: Final = NumberVec()
        #: By operation (predicate, assume, bind).
        self.volume_scheduling_stage_errors: Final = NumberVec()
        #: By election: 1 for who leads, 0 for who does not.
        self.leader_election_master_status: Final = NumberVec()
        #: By election: renewals that took a look at the lease first.
        self.leader_election_slowpath: Final = NumberVec()
        #: By what was compared and how it differs: what the last comparison has found.
        self.cache_divergence: Final = NumberVec()
        #: By result (equal, different).
        self.cache_comparisons: Final = NumberVec()

    def attempt_ended(self, result: str, profile: str, duration_seconds: float) -> None:
        """An attempt is over: `scheduled`, `unschedulable` or `error`."""
        self.schedule_attempts[result, profile] += 1
        self.scheduling_attempt_duration.observe(duration_seconds, result, profile)

    def attempts_by_result(self) -> dict[str, int]:
        """How many attempts are over, of all profiles together."""
        counts = {"scheduled": 0, "unschedulable": 0, "error": 0}
        for (result, _), number in self.schedule_attempts.items():
            counts[result] += int(number)
        return counts

    def preemption_ended(self, result: str, started: float) -> None:
        """A preemption in the background is over: `success` or `error`."""
        duration_seconds = self.stopwatch() - started
        self.preemption_goroutines_duration.observe(duration_seconds, result)
        self.preemption_goroutines_executions[(result,)] += 1

    def event(self, label: str, *, spent_seconds: float = 0.0) -> EventTimer:
        """Measure the handling of a watch event: `with metrics.event(event.label): ...`.

        `spent_seconds` is added to the duration: work for this event that was done before.
        """
        return EventTimer(self.stopwatch, self.event_handling_duration.of(label), spent_seconds)

    def event_handled(self, label: str, started: float) -> None:
        """A watch event has been dealt with since then."""
        self.event_handling_duration.observe(self.stopwatch() - started, label)


def attempts_label(attempts: int) -> str:
    """The label of a pod that has got its node at this attempt (`getAttemptsLabel`)."""
    if attempts >= _ATTEMPTS_TOLD_APART:
        return f"{_ATTEMPTS_TOLD_APART}+"
    return str(attempts)
