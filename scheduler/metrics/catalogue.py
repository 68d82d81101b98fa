"""Every metric's name, labels and text, as kube-scheduler v1.36.3 has them with default gates.

Source: `pkg/scheduler/metrics/metrics.go`, `plugins/volumebinding/metrics/metrics.go`,
component-base `metrics/prometheus/clientgo/leaderelection/metrics.go`. Help texts are part of what
/metrics answers, hence upstream's. The last ones are ours, under our own prefix.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.metrics.instruments import Histogram, HistogramVec
    from scheduler.metrics.scheduler_metrics import SchedulerMetrics

#: Values by label values.
Numbers: TypeAlias = "Mapping[tuple[str, ...], float]"


class Kind(enum.StrEnum):
    """What a metric is, as the text format says it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Definition(NamedTuple):
    """One metric. `stability` is empty for ours, which promise nothing."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    stability: str
    help: str


class Family(NamedTuple):
    """A metric and its values now."""

    definition: Definition
    values: Numbers | Mapping[tuple[str, str], float] | HistogramVec | Histogram


class Moment(NamedTuple):
    """What is read off queue and cache when the metrics are asked for.

    By queue; by queue and event; by event; by plugin and profile; by type.
    """

    pending_pods: Numbers
    queue_incoming_pods: Mapping[tuple[str, str], float]
    inflight_events: Numbers
    unschedulable_pods: Mapping[tuple[str, str], float]
    cache_size: Numbers


_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

_SCHEDULE_ATTEMPTS: Final = Definition(
    "scheduler_schedule_attempts_total", _COUNTER, ("result", "profile"), "STABLE",
    "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be "
    "scheduled, while 'error' means an internal scheduler problem.",
)  # fmt: skip
_ATTEMPT_DURATION: Final = Definition(
    "scheduler_scheduling_attempt_duration_seconds", _HISTOGRAM, ("result", "profile"), "STABLE",
    "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
)  # fmt: skip
_ALGORITHM_DURATION: Final = Definition(
    "scheduler_scheduling_algorithm_duration_seconds", _HISTOGRAM, (), "ALPHA",
    "Scheduling algorithm latency in seconds",
)  # fmt: skip
_EVENT_HANDLING: Final = Definition(
    "scheduler_event_handling_duration_seconds", _HISTOGRAM, ("event",), "ALPHA",
    "Event handling latency in seconds.",
)  # fmt: skip
_VICTIMS: Final = Definition(
    "scheduler_preemption_victims", _HISTOGRAM, (), "STABLE",
    "Number of selected preemption victims",
)  # fmt: skip
_PREEMPTION_ATTEMPTS: Final = Definition(
    "scheduler_preemption_attempts_total", _COUNTER, (), "STABLE",
    "Total preemption attempts in the cluster till now",
)  # fmt: skip
_PENDING: Final = Definition(
    "scheduler_pending_pods", _GAUGE, ("queue",), "STABLE",
    "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; "
    "'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in "
    "unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the number "
    "of unschedulable pods that the scheduler never attempted to schedule because they are gated.",
)  # fmt: skip
_INFLIGHT: Final = Definition(
    "scheduler_inflight_events", _GAUGE, ("event",), "ALPHA",
    "Number of events currently tracked in the scheduling queue.",
)  # fmt: skip
_GOROUTINES: Final = Definition(
    "scheduler_goroutines", _GAUGE, ("operation",), "BETA",
    "Number of running goroutines split by the work they do such as binding.",
)  # fmt: skip
_SLI: Final = Definition(
    "scheduler_pod_scheduling_sli_duration_seconds", _HISTOGRAM, ("attempts",), "BETA",
    "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and "
    "might involve multiple scheduling attempts.",
)  # fmt: skip
_POD_ATTEMPTS: Final = Definition(
    "scheduler_pod_scheduling_attempts", _HISTOGRAM, (), "STABLE",
    "Number of attempts to successfully schedule a pod.",
)  # fmt: skip
_AFTER_FLUSH: Final = Definition(
    "scheduler_pod_scheduled_after_flush_total", _COUNTER, (), "ALPHA",
    "Number of pods that were successfully scheduled after being flushed from unschedulablePods "
    "due to timeout. This metric helps detect potential queueing hint misconfigurations or event "
    "handling issues.",
)  # fmt: skip
_EXTENSION_POINT: Final = Definition(
    "scheduler_framework_extension_point_duration_seconds", _HISTOGRAM,
    ("extension_point", "status", "profile"), "STABLE",
    "Latency for running all plugins of a specific extension point.",
)  # fmt: skip
_PLUGIN: Final = Definition(
    "scheduler_plugin_execution_duration_seconds", _HISTOGRAM,
    ("plugin", "extension_point", "status"), "ALPHA",
    "Duration for running a plugin at a specific extension point.",
)  # fmt: skip
_HINT: Final = Definition(
    "scheduler_queueing_hint_execution_duration_seconds", _HISTOGRAM,
    ("plugin", "event", "hint"), "ALPHA",
    "Duration for running a queueing hint function of a plugin.",
)  # fmt: skip
_INCOMING: Final = Definition(
    "scheduler_queue_incoming_pods_total", _COUNTER, ("queue", "event"), "STABLE",
    "Number of pods added to scheduling queues by event and queue type.",
)  # fmt: skip
_PERMIT: Final = Definition(
    "scheduler_permit_wait_duration_seconds", _HISTOGRAM, ("result",), "BETA",
    "Duration of waiting on permit.",
)  # fmt: skip
_CACHE_SIZE: Final = Definition(
    "scheduler_cache_size", _GAUGE, ("type",), "ALPHA",
    "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
)  # fmt: skip
_UNSCHEDULABLE: Final = Definition(
    "scheduler_unschedulable_pods", _GAUGE, ("plugin", "profile"), "BETA",
    "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge "
    "for all plugins that caused it to not schedule and so this metric have meaning only when "
    "broken down by plugin.",
)  # fmt: skip
_EVALUATIONS: Final = Definition(
    "scheduler_plugin_evaluation_total", _COUNTER, ("plugin", "extension_point", "profile"),
    "BETA",
    "Number of attempts to schedule pods by each plugin and the extension point (available only in "
    "PreFilter, Filter, PreScore, and Score).",
)  # fmt: skip
_PREEMPTION_DURATION: Final = Definition(
    "scheduler_preemption_goroutines_duration_seconds", _HISTOGRAM, ("result",), "ALPHA",
    "Duration in seconds for running goroutines for the preemption.",
)  # fmt: skip
_PREEMPTION_EXECUTIONS: Final = Definition(
    "scheduler_preemption_goroutines_execution_total", _COUNTER, ("result",), "ALPHA",
    "Number of preemption goroutines executed.",
)  # fmt: skip
_VOLUME_ERRORS: Final = Definition(
    "scheduler_volume_scheduling_stage_error_total", _COUNTER, ("operation",), "ALPHA",
    "Volume scheduling stage error count",
)  # fmt: skip
_MASTER_STATUS: Final = Definition(
    "leader_election_master_status", _GAUGE, ("name",), "ALPHA",
    "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 "
    "indicates master. 'name' is the string used to identify the lease. Please make sure to group "
    "by name.",
)  # fmt: skip
_SLOWPATH: Final = Definition(
    "leader_election_slowpath_total", _COUNTER, ("name",), "ALPHA",
    "Total number of slow path exercised in renewing leader leases. 'name' is the string used to "
    "identify the lease. Please make sure to group by name.",
)  # fmt: skip
_DIVERGENCE: Final = Definition(
    "kubesched_cache_divergence", _GAUGE, ("kind", "difference"), "",
    "Nodes and pods in which cache and queue differed from the API server's view at the last "
    "comparison, by what was missed or was too much.",
)  # fmt: skip
_COMPARISONS: Final = Definition(
    "kubesched_cache_comparisons_total", _COUNTER, ("result",), "",
    "Comparisons of cache and queue with the API server's view.",
)  # fmt: skip


def families(metrics: SchedulerMetrics, moment: Moment) -> list[Family]:
    """All metrics with their values now, in the order of their names."""
    found = [
        Family(_SCHEDULE_ATTEMPTS, metrics.schedule_attempts),
        Family(_ATTEMPT_DURATION, metrics.scheduling_attempt_duration),
        Family(_ALGORITHM_DURATION, metrics.scheduling_algorithm_duration),
        Family(_EVENT_HANDLING, metrics.event_handling_duration),
        Family(_VICTIMS, metrics.preemption_victims),
        Family(_PREEMPTION_ATTEMPTS, metrics.preemption_attempts),
        Family(_PENDING, moment.pending_pods),
        Family(_INFLIGHT, moment.inflight_events),
        Family(_GOROUTINES, metrics.goroutines),
        Family(_SLI, metrics.pod_scheduling_sli_duration),
        Family(_POD_ATTEMPTS, metrics.pod_scheduling_attempts),
        Family(_AFTER_FLUSH, metrics.pod_scheduled_after_flush),
        Family(_EXTENSION_POINT, metrics.framework_extension_point_duration),
        Family(_PLUGIN, metrics.plugin_execution_duration),
        Family(_HINT, metrics.queueing_hint_execution_duration),
        Family(_INCOMING, moment.queue_incoming_pods),
        Family(_PERMIT, metrics.permit_wait_duration),
        Family(_CACHE_SIZE, moment.cache_size),
        Family(_UNSCHEDULABLE, moment.unschedulable_pods),
        Family(_EVALUATIONS, metrics.plugin_evaluations.numbers()),
        Family(_PREEMPTION_DURATION, metrics.preemption_goroutines_duration),
        Family(_PREEMPTION_EXECUTIONS, metrics.preemption_goroutines_executions),
        Family(_VOLUME_ERRORS, metrics.volume_scheduling_stage_errors),
        Family(_MASTER_STATUS, metrics.leader_election_master_status),
        Family(_SLOWPATH, metrics.leader_election_slowpath),
        Family(_DIVERGENCE, metrics.cache_divergence),
        Family(_COMPARISONS, metrics.cache_comparisons),
    ]
    return sorted(found, key=lambda family: family.definition.name)
