"""The table of all metrics of the scheduler, as kube-scheduler v1.36.3 has them by default.

A field of `SchedulerMetrics` is a metric: its name, labels, stability, help text and buckets, and
the instrument that the parts of a scheduler write to. Help texts are part of the page /metrics,
hence upstream's. The last two metrics are ours, under our own prefix.
Source: `pkg/scheduler/metrics/metrics.go`, `plugins/volumebinding/metrics/metrics.go`,
component-base `metrics/prometheus/clientgo/leaderelection/metrics.go`.
"""

# ruff: noqa: RUF009  (the calls in the table return dataclass fields)
from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from scheduler.metrics.instruments import (
    CellVec,
    Histogram,
    HistogramVec,
    Kind,
    Metric,
    NumberVec,
    StateVec,
    exponential_buckets,
)

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: Seconds since some start, never going back: what durations are measured with.
Stopwatch: TypeAlias = "Callable[[], float]"

_MILLISECONDS: Final = exponential_buckets(0.001, 2, 15)
_EXTENSION_POINTS: Final = exponential_buckets(0.0001, 2, 12)
_PLUGINS: Final = exponential_buckets(0.00001, 1.5, 20)
_NODE_HINTS: Final = exponential_buckets(0.00001, 2, 12)
_LONG: Final = exponential_buckets(0.01, 2, 20)
_ATTEMPTS: Final = exponential_buckets(1, 2, 5)
_REQUESTS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_SIZES: Final = (
    64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0,
    16777216.0,
)  # fmt: skip
_VICTIMS: Final = exponential_buckets(1, 2, 7)

_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

#: Pods with this many attempts or more share one label value.
_ATTEMPTS_LABEL_MAX: Final = 15


def _row(
    make: Callable[[Metric], T],
    name: str,
    kind: Kind,
    labels: tuple[str, ...],
    stability: str,
    help_text: str,
    buckets: tuple[float, ...] = (),
) -> T:
    metric = Metric(name, kind, labels, stability, help_text, buckets)
    return field(default_factory=lambda: make(metric), metadata={"metric": metric})


def _histogram(metric: Metric) -> Histogram:
    return Histogram(metric.buckets)


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


def _no_time() -> float:
    return 0.0


# fmt: off
@dataclass(frozen=True, slots=True, eq=False)
class SchedulerMetrics:
    """One scheduler's numbers. Durations are in seconds, measured with `stopwatch`.

    Without a stopwatch all durations are 0: for frameworks that run where no metrics are read.
    """

    stopwatch: Stopwatch = _no_time
    _: KW_ONLY
    schedule_attempts: NumberVec = _row(
        NumberVec, "scheduler_schedule_attempts_total", _COUNTER, ("result", "profile"), "STABLE",
        "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not "
        "be scheduled, while 'error' means an internal scheduler problem.",
    )
    scheduling_attempt_duration: HistogramVec = _row(
        HistogramVec, "scheduler_scheduling_attempt_duration_seconds", _HISTOGRAM,
        ("result", "profile"), "STABLE",
        "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
        _MILLISECONDS,
    )
    scheduling_algorithm_duration: Histogram = _row(
        _histogram, "scheduler_scheduling_algorithm_duration_seconds", _HISTOGRAM, (), "ALPHA",
        "Scheduling algorithm latency in seconds",
        _MILLISECONDS,
    )
    event_handling_duration: HistogramVec = _row(
        HistogramVec, "scheduler_event_handling_duration_seconds", _HISTOGRAM, ("event",), "ALPHA",
        "Event handling latency in seconds.",
        _EXTENSION_POINTS,
    )
    preemption_victims: Histogram = _row(
        _histogram, "scheduler_preemption_victims", _HISTOGRAM, (), "STABLE",
        "Number of selected preemption victims",
        _VICTIMS,
    )
    preemption_attempts: NumberVec = _row(
        NumberVec, "scheduler_preemption_attempts_total", _COUNTER, (), "STABLE",
        "Total preemption attempts in the cluster till now",
    )
    pending_pods: StateVec = _row(
        StateVec, "scheduler_pending_pods", _GAUGE, ("queue",), "STABLE",
        "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; "
        "'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in "
        "unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the "
        "number of unschedulable pods that the scheduler never attempted to schedule because they "
        "are gated.",
    )
    inflight_events: StateVec = _row(
        StateVec, "scheduler_inflight_events", _GAUGE, ("event",), "ALPHA",
        "Number of events currently tracked in the scheduling queue.",
    )
    #: Tasks in the background.
    goroutines: NumberVec = _row(
        NumberVec, "scheduler_goroutines", _GAUGE, ("operation",), "BETA",
        "Number of running goroutines split by the work they do such as binding.",
    )
    #: By `attempts_label`.
    pod_scheduling_sli_duration: HistogramVec = _row(
        HistogramVec, "scheduler_pod_scheduling_sli_duration_seconds", _HISTOGRAM, ("attempts",),
        "BETA",
        "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue "
        "and might involve multiple scheduling attempts.",
        _LONG,
    )
    pod_scheduling_attempts: Histogram = _row(
        _histogram, "scheduler_pod_scheduling_attempts", _HISTOGRAM, (), "STABLE",
        "Number of attempts to successfully schedule a pod.",
        _ATTEMPTS,
    )
    pod_scheduled_after_flush: NumberVec = _row(
        NumberVec, "scheduler_pod_scheduled_after_flush_total", _COUNTER, (), "ALPHA",
        "Number of pods that were successfully scheduled after being flushed from "
        "unschedulablePods due to timeout. This metric helps detect potential queueing hint "
        "misconfigurations or event handling issues.",
    )
    framework_extension_point_duration: HistogramVec = _row(
        HistogramVec, "scheduler_framework_extension_point_duration_seconds", _HISTOGRAM,
        ("extension_point", "status", "profile"), "STABLE",
        "Latency for running all plugins of a specific extension point.",
        _EXTENSION_POINTS,
    )
    #: Measured in one cycle of ten, see `Sampler`.
    plugin_execution_duration: HistogramVec = _row(
        HistogramVec, "scheduler_plugin_execution_duration_seconds", _HISTOGRAM,
        ("plugin", "extension_point", "status"), "ALPHA",
        "Duration for running a plugin at a specific extension point.",
        _PLUGINS,
    )
    queueing_hint_execution_duration: HistogramVec = _row(
        HistogramVec, "scheduler_queueing_hint_execution_duration_seconds", _HISTOGRAM,
        ("plugin", "event", "hint"), "ALPHA",
        "Duration for running a queueing hint function of a plugin.",
        _PLUGINS,
    )
    queue_incoming_pods: StateVec = _row(
        StateVec, "scheduler_queue_incoming_pods_total", _COUNTER, ("queue", "event"), "STABLE",
        "Number of pods added to scheduling queues by event and queue type.",
    )
    permit_wait_duration: HistogramVec = _row(
        HistogramVec, "scheduler_permit_wait_duration_seconds", _HISTOGRAM, ("result",), "BETA",
        "Duration of waiting on permit.",
        _MILLISECONDS,
    )
    cache_size: StateVec = _row(
        StateVec, "scheduler_cache_size", _GAUGE, ("type",), "ALPHA",
        "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
    )
    unschedulable_pods: StateVec = _row(
        StateVec, "scheduler_unschedulable_pods", _GAUGE, ("plugin", "profile"), "BETA",
        "The number of unschedulable pods broken down by plugin name. A pod will increment the "
        "gauge for all plugins that caused it to not schedule and so this metric have meaning only "
        "when broken down by plugin.",
    )
    plugin_evaluations: CellVec = _row(
        CellVec, "scheduler_plugin_evaluation_total", _COUNTER,
        ("plugin", "extension_point", "profile"), "BETA",
        "Number of attempts to schedule pods by each plugin and the extension point (available "
        "only in PreFilter, Filter, PreScore, and Score).",
    )
    preemption_goroutines_duration: HistogramVec = _row(
        HistogramVec, "scheduler_preemption_goroutines_duration_seconds", _HISTOGRAM, ("result",),
        "ALPHA",
        "Duration in seconds for running goroutines for the preemption.",
        _LONG,
    )
    preemption_goroutines_executions: NumberVec = _row(
        NumberVec, "scheduler_preemption_goroutines_execution_total", _COUNTER, ("result",),
        "ALPHA",
        "Number of preemption goroutines executed.",
    )
    #: The operation is `predicate`, `assume` or `bind`.
    volume_scheduling_stage_errors: NumberVec = _row(
        NumberVec, "scheduler_volume_scheduling_stage_error_total", _COUNTER, ("operation",),
        "ALPHA",
        "Volume scheduling stage error count",
    )
    #: The result is always `no_hint`. There is no batching here, see ARCHITECTURE.md; so the next
    #: three metrics never have a value.
    batch_attempts: NumberVec = _row(
        NumberVec, "scheduler_batch_attempts_total", _COUNTER, ("profile", "result"), "ALPHA",
        "Counts of results when we attempt to use batching.",
    )
    batch_cache_flushed: NumberVec = _row(
        NumberVec, "scheduler_batch_cache_flushed_total", _COUNTER, ("profile", "reason"), "ALPHA",
        "Counts of cache flushes by reason.",
    )
    get_node_hint_duration: HistogramVec = _row(
        HistogramVec, "scheduler_get_node_hint_duration_seconds", _HISTOGRAM,
        ("hinted", "profile"), "ALPHA",
        "Latency for getting a node hint.",
        _NODE_HINTS,
    )
    store_schedule_results_duration: HistogramVec = _row(
        HistogramVec, "scheduler_store_schedule_results_duration_seconds", _HISTOGRAM,
        ("profile",), "ALPHA",
        "Latency for getting a no.",
        _NODE_HINTS,
    )
    #: The status is `success` or `failure`.
    resource_claim_creates: NumberVec = _row(
        NumberVec, "scheduler_resourceclaim_creates_total", _COUNTER, ("status",), "ALPHA",
        "Number of ResourceClaims creation requests within scheduler",
    )
    #: The status is `success`, `timeout`, `failed` or `error`.
    binding_conditions_allocations: NumberVec = _row(
        NumberVec, "scheduler_dra_bindingconditions_allocations_total", _COUNTER,
        ("profile", "driver", "status"), "ALPHA",
        "Number of allocations using devices with BindingConditions, counted per driver per "
        "scheduling attempt",
    )
    binding_conditions_wait_duration: HistogramVec = _row(
        HistogramVec, "scheduler_dra_bindingconditions_wait_duration_seconds", _HISTOGRAM,
        ("profile", "driver", "status"), "ALPHA",
        "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
        exponential_buckets(0.1, 2, 14),
    )
    #: The result is `scheduled`, `unschedulable`, `waiting_on_preemption` or `error`.
    pod_group_schedule_attempts: NumberVec = _row(
        NumberVec, "scheduler_podgroup_schedule_attempts_total", _COUNTER, ("result", "profile"),
        "ALPHA",
        "Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod "
        "group could not be scheduled, while 'error' means an internal scheduler problem.",
    )
    pod_group_scheduling_attempt_duration: HistogramVec = _row(
        HistogramVec, "scheduler_podgroup_scheduling_attempt_duration_seconds", _HISTOGRAM,
        ("result", "profile"), "ALPHA",
        "Pod group scheduling attempt latency in seconds (scheduling algorithm + binding)",
        _MILLISECONDS,
    )
    pod_group_scheduling_algorithm_duration: Histogram = _row(
        _histogram, "scheduler_podgroup_scheduling_algorithm_duration_seconds", _HISTOGRAM, (),
        "ALPHA",
        "Pod group scheduling algorithm latency in seconds",
        _MILLISECONDS,
    )
    leader_election_master_status: NumberVec = _row(
        NumberVec, "leader_election_master_status", _GAUGE, ("name",), "ALPHA",
        "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 "
        "indicates master. 'name' is the string used to identify the lease. Please make sure to "
        "group by name.",
    )
    #: Renewals that read the lease first.
    leader_election_slowpath: NumberVec = _row(
        NumberVec, "leader_election_slowpath_total", _COUNTER, ("name",), "ALPHA",
        "Total number of slow path exercised in renewing leader leases. 'name' is the string used "
        "to identify the lease. Please make sure to group by name.",
    )
    #: The code is `<error>` for a request without an answer.
    rest_client_requests: NumberVec = _row(
        NumberVec, "rest_client_requests_total", _COUNTER, ("code", "host", "method"), "ALPHA",
        "Number of HTTP requests, partitioned by status code, method, and host.",
    )
    rest_client_request_retries: NumberVec = _row(
        NumberVec, "rest_client_request_retries_total", _COUNTER, ("code", "host", "verb"), "ALPHA",
        "Number of request retries, partitioned by status code, verb, and host.",
    )
    #: With all retries and the waits for the rate limit.
    rest_client_request_duration: HistogramVec = _row(
        HistogramVec, "rest_client_request_duration_seconds", _HISTOGRAM, ("host", "verb"),
        "ALPHA",
        "Request latency in seconds. Broken down by verb, and host.",
        _REQUESTS,
    )
    rest_client_rate_limiter_duration: HistogramVec = _row(
        HistogramVec, "rest_client_rate_limiter_duration_seconds", _HISTOGRAM, ("host", "verb"),
        "ALPHA",
        "Client side rate limiter latency in seconds. Broken down by verb, and host.",
        _REQUESTS,
    )
    rest_client_request_size: HistogramVec = _row(
        HistogramVec, "rest_client_request_size_bytes", _HISTOGRAM, ("host", "verb"), "ALPHA",
        "Request size in bytes. Broken down by verb and host.",
        _SIZES,
    )
    rest_client_response_size: HistogramVec = _row(
        HistogramVec, "rest_client_response_size_bytes", _HISTOGRAM, ("host", "verb"), "ALPHA",
        "Response size in bytes. Broken down by verb and host.",
        _SIZES,
    )
    #: Always 1.
    build_info: StateVec = _row(
        StateVec, "kubernetes_build_info", _GAUGE,
        ("build_date", "compiler", "git_commit", "git_tree_state", "git_version", "go_version",
         "major", "minor", "platform"), "BETA",
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, git "
        "tree state, build date, Go version, and compiler from which Kubernetes was built, and "
        "platform on which it is running.",
    )
    version_info: StateVec = _row(
        StateVec, "version_info", _GAUGE, ("binary", "component", "emulation", "min_compat"),
        "ALPHA",
        "Provides the compatibility version info of the component. The component label is the name "
        "of the component, usually kube, but is relevant for aggregated-apiservers.",
    )
    #: Tasks of the event loop, where upstream counts goroutines.
    go_goroutines: StateVec = _row(
        StateVec, "go_goroutines", _GAUGE, (), "",
        "Number of goroutines that currently exist.",
    )
    #: Set by the last comparison.
    cache_divergence: NumberVec = _row(
        NumberVec, "kubesched_cache_divergence", _GAUGE, ("kind", "difference"), "",
        "Nodes and pods in which cache and queue differed from the API server's view at the last "
        "comparison, by what was missed or was too much.",
    )
    feature_enabled: StateVec = _row(
        StateVec, "kubernetes_feature_enabled", _GAUGE, ("name", "stage"), "BETA",
        "This metric records the data about the stage and enablement of a k8s feature.",
    )
    #: The result is `equal` or `different`.
    cache_comparisons: NumberVec = _row(
        NumberVec, "kubesched_cache_comparisons_total", _COUNTER, ("result",), "",
        "Comparisons of cache and queue with the API server's view.",
    )
    #: Shadow mode; the agreement is one of `scheduler.reports.comparison`.
    shadow_decisions: NumberVec = _row(
        NumberVec, "kubesched_shadow_decisions_total", _COUNTER, ("agreement", "profile"), "",
        "Decisions of another scheduler that shadow mode has compared with its own, by agreement.",
    )
    # fmt: on

    def attempt_ended(self, result: str, profile: str, duration_seconds: float) -> None:
        """Count an attempt; the result is `scheduled`, `unschedulable` or `error`."""
        self.schedule_attempts[result, profile] += 1
        self.scheduling_attempt_duration.observe(duration_seconds, result, profile)

    def pod_group_attempt_ended(
        self, result: str, profile: str, duration_seconds: float
    ) -> None:
        """Count an attempt of a pod group."""
        self.pod_group_schedule_attempts[result, profile] += 1
        self.pod_group_scheduling_attempt_duration.observe(duration_seconds, result, profile)

    def attempts_by_result(self) -> dict[str, int]:
        """Return the number of attempts that have ended, of all profiles together."""
        counts = {"scheduled": 0, "unschedulable": 0, "error": 0}
        for (result, _), number in self.schedule_attempts.items():
            counts[result] += int(number)
        return counts

    def preemption_ended(self, result: str, started: float) -> None:
        """Count a preemption in the background; the result is `success` or `error`."""
        duration_seconds = self.stopwatch() - started
        self.preemption_goroutines_duration.observe(duration_seconds, result)
        self.preemption_goroutines_executions[(result,)] += 1

    def event(self, label: str, *, spent_seconds: float = 0.0) -> EventTimer:
        """Measure the handling of a watch event: `with metrics.event(event.label): ...`.

        `spent_seconds` is added to the duration: work for this event that was done before.
        """
        return EventTimer(self.stopwatch, self.event_handling_duration.of(label), spent_seconds)


#: The definition of each metric by its field of `SchedulerMetrics`, in the order of the names.
METRICS: Final[dict[str, Metric]] = dict(
    sorted(
        (
            (row.name, row.metadata["metric"])
            for row in fields(SchedulerMetrics)
            if "metric" in row.metadata
        ),
        key=lambda row: row[1].name,
    )
)


def attempts_label(attempts: int) -> str:
    """Return the label value for a pod scheduled at this attempt (`getAttemptsLabel`)."""
    return f"{_ATTEMPTS_LABEL_MAX}+" if attempts >= _ATTEMPTS_LABEL_MAX else str(attempts)
