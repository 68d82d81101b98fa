"""The table of all metrics of the scheduler, as kube-scheduler v1.36.3 has them by default.

A field of `SchedulerMetrics` is the instrument of a metric: the parts of a scheduler write to it.
`metrics.json` has the name, kind, labels, stability, help text and buckets of each metric. The help
texts are part of the page /metrics, hence upstream's. Metrics named `kubesched_...` are ours.
Source: `pkg/scheduler/metrics/metrics.go`, `plugins/volumebinding/metrics/metrics.go`,
component-base `metrics/prometheus/clientgo/leaderelection/metrics.go`.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from scheduler.metrics.instruments import (
    CellVec,
    Histogram,
    HistogramVec,
    Metric,
    NumberVec,
    StateVec,
    exponential_buckets,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Seconds since some start, never going back: what durations are measured with.
Stopwatch: TypeAlias = "Callable[[], float]"

_TABLE: Final = Path(__file__).with_name("metrics.json")
_INSTRUMENTS: Final[Mapping[str, Callable[[Metric], object]]] = {
    "CellVec": CellVec,
    "Histogram": lambda metric: Histogram(metric.buckets),
    "HistogramVec": HistogramVec,
    "NumberVec": NumberVec,
    "StateVec": StateVec,
}

#: The metrics that kube-scheduler has only with queueing hints.
MEASURES_OF_HINTS: Final = (
    "scheduler_queueing_hint_execution_duration_seconds",
    "scheduler_inflight_events",
)
#: The metric without labels, hence always with a value, that kube-scheduler has for pod groups.
MEASURE_OF_GROUPS: Final = "scheduler_podgroup_scheduling_algorithm_duration_seconds"

#: Pods with this many attempts or more share one label value.
_ATTEMPTS_LABEL_MAX: Final = 15


def _read_table() -> Iterator[tuple[str, Metric]]:
    table = msgspec.json.decode(_TABLE.read_bytes(), type=dict[str, dict[str, Any]])
    for field, row in table.items():
        if "exponential_buckets" in row:
            row["buckets"] = exponential_buckets(**row.pop("exponential_buckets"))
        yield field, msgspec.convert(row, Metric)


#: The definition of each metric by its field of `SchedulerMetrics`, in the order of the names.
METRICS: Final[Mapping[str, Metric]] = MappingProxyType(dict(_read_table()))


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
    """One scheduler's numbers. Durations are in seconds, measured with `stopwatch`.

    Without a stopwatch all durations are 0: for frameworks that run where no metrics are read.
    """

    schedule_attempts: NumberVec
    scheduling_attempt_duration: HistogramVec
    scheduling_algorithm_duration: Histogram
    event_handling_duration: HistogramVec
    preemption_victims: Histogram
    preemption_attempts: NumberVec
    pending_pods: StateVec
    #: Entries of the queue; they are pods.
    queued_entities: StateVec
    inflight_events: StateVec
    #: Tasks in the background.
    goroutines: NumberVec
    #: By `attempts_label`.
    pod_scheduling_sli_duration: HistogramVec
    pod_scheduling_attempts: Histogram
    pod_scheduled_after_flush: NumberVec
    framework_extension_point_duration: HistogramVec
    #: Measured in one cycle of ten, see `Sampler`.
    plugin_execution_duration: HistogramVec
    queueing_hint_execution_duration: HistogramVec
    #: The result is `all_pods` or `narrowed`.
    pre_queueing_hint_evaluations: NumberVec
    queue_incoming_pods: StateVec
    queue_incoming_entities: StateVec
    permit_wait_duration: HistogramVec
    cache_size: StateVec
    unschedulable_pods: StateVec
    plugin_evaluations: CellVec
    preemption_goroutines_duration: HistogramVec
    preemption_goroutines_executions: NumberVec
    #: The operation is `predicate`, `assume` or `bind`.
    volume_scheduling_stage_errors: NumberVec
    #: The result is always `no_hint`. There is no batching here, see ARCHITECTURE.md; so the next
    #: five metrics never have a value.
    batch_attempts: NumberVec
    batch_cache_flushed: NumberVec
    batch_rescore_attempts: NumberVec
    batch_rescore_duration: HistogramVec
    get_node_hint_duration: HistogramVec
    store_schedule_results_duration: HistogramVec
    #: The status is `success` or `failure`.
    resource_claim_creates: NumberVec
    #: The same of 1.37, where the other components count, too.
    resource_claim_creates_of_components: NumberVec
    #: The status is `success`, `timeout`, `failed` or `error`.
    binding_conditions_allocations: NumberVec
    binding_conditions_wait_duration: HistogramVec
    #: The result is `scheduled`, `unschedulable`, `waiting_on_preemption` or `error`.
    pod_group_schedule_attempts: NumberVec
    pod_group_scheduling_attempt_duration: HistogramVec
    pod_group_scheduling_algorithm_duration: Histogram
    #: Of the informers of 1.37. Nothing queues: they handle each change when it arrives.
    informer_processing_latency: HistogramVec
    informer_queued_items: StateVec
    informer_store_resource_version: StateVec
    leader_election_master_status: NumberVec
    #: Renewals that read the lease first.
    leader_election_slowpath: NumberVec
    #: The code is `<error>` for a request without an answer.
    rest_client_requests: NumberVec
    rest_client_request_retries: NumberVec
    #: With all retries and the waits for the rate limit.
    rest_client_request_duration: HistogramVec
    rest_client_rate_limiter_duration: HistogramVec
    rest_client_request_size: HistogramVec
    rest_client_response_size: HistogramVec
    #: By result (`success` or `failure`) and reason.
    rest_client_transport_ca_reloads: NumberVec
    #: Always 1.
    build_info: StateVec
    version_info: StateVec
    #: Tasks of the event loop, where upstream counts goroutines.
    go_goroutines: StateVec
    #: Of a process that is monitored, see `scheduler.loop_monitor`.
    event_loop_lag: StateVec
    #: Of a process that serves.
    serving_certificate_expiration: StateVec
    #: Set by the last comparison.
    cache_divergence: NumberVec
    feature_enabled: StateVec
    #: The result is `equal` or `different`.
    cache_comparisons: NumberVec
    #: FlowPlacement: the result is `flow` or `one_by_one`, the better of the two.
    flow_batches: NumberVec
    flow_unplaced_pods: NumberVec
    flow_planning_duration: HistogramVec
    #: Queues: the action is `reclaim` or `preempt`.
    queue_evictions: NumberVec
    queue_gangs_released: NumberVec
    queue_resources: StateVec
    #: Shadow mode; the agreement is one of `scheduler.reports.comparison`.
    shadow_decisions: NumberVec

    def __init__(self, stopwatch: Stopwatch = lambda: 0.0) -> None:
        self.stopwatch: Final = stopwatch
        #: Measures the handling of most events: up to 1.35 it stands still, as upstream's argument
        #: of a `defer` was computed before.
        self.event_stopwatch = stopwatch
        for field, metric in METRICS.items():
            setattr(self, field, _INSTRUMENTS[SchedulerMetrics.__annotations__[field]](metric))

    def attempt_ended(self, result: str, profile: str, duration_seconds: float) -> None:
        """Count an attempt; the result is `scheduled`, `unschedulable` or `error`."""
        self.schedule_attempts[result, profile] += 1
        self.scheduling_attempt_duration.observe(duration_seconds, result, profile)

    def pod_group_attempt_ended(self, result: str, profile: str, duration_seconds: float) -> None:
        """Count an attempt of a pod group."""
        self.pod_group_schedule_attempts[result, profile] += 1
        self.pod_group_scheduling_attempt_duration.observe(duration_seconds, result, profile)

    def attempts_by_result(self) -> dict[str, int]:
        """Return the number of attempts that have ended, of all profiles together."""
        counts = {"scheduled": 0, "unschedulable": 0, "error": 0}
        for (result, _), number in self.schedule_attempts.items():
            counts[result] += int(number)
        return counts

    def resource_claim_created(self, status: str) -> None:
        """Count a claim for extended resources; the status is `success` or `failure`."""
        self.resource_claim_creates[(status,)] += 1
        self.resource_claim_creates_of_components[status, "false", "", "Pod"] += 1

    def preemption_ended(self, result: str, started: float) -> None:
        """Count a preemption in the background; the result is `success` or `error`."""
        duration_seconds = self.stopwatch() - started
        self.preemption_goroutines_duration.observe(duration_seconds, result)
        self.preemption_goroutines_executions[(result,)] += 1

    def event(self, label: str) -> EventTimer:
        """Measure the handling of a watch event: `with metrics.event(event.label): ...`."""
        return EventTimer(self.event_stopwatch, self.event_handling_duration.of(label), 0.0)

    def change(self, label: str, *, spent_seconds: float = 0.0) -> EventTimer:
        """Measure the handling of an event as `event` does, also up to 1.35.

        `spent_seconds` is added to the duration: work for this event that was done before.
        """
        return EventTimer(self.stopwatch, self.event_handling_duration.of(label), spent_seconds)


def attempts_label(attempts: int) -> str:
    """Return the label value for a pod scheduled at this attempt (`getAttemptsLabel`)."""
    return f"{_ATTEMPTS_LABEL_MAX}+" if attempts >= _ATTEMPTS_LABEL_MAX else str(attempts)
