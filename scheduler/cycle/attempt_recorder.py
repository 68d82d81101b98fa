"""Keeps the books of scheduling attempts: metrics for scrapers, stories for whoever asks why.

The cycles tell it what happens and go on; it decides nothing. Source: the calls of `metrics.*` in
`pkg/scheduler/schedule_one.go`; the stories are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.framework.types import FitError, NominatingMode
from scheduler.metrics import SchedulerMetrics
from scheduler.metrics.sampling import Sampler
from scheduler.metrics.scheduler_metrics import attempts_label
from scheduler.stories import Attempt, Bound, NodeVerdict, Nominated, PodStories, WaitingOnPermit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.cache import CacheDifference
    from scheduler.clock import Clock
    from scheduler.cycle.schedule_pod import Verdict
    from scheduler.framework.status import Status
    from scheduler.framework.types import NominatingInfo, QueuedPodInfo
    from scheduler.snapshot.pod_info import PodInfo

_BINDING: Final = "binding"


class AttemptRecorder:
    """Hears of every attempt, from its start to the pod bound or put back."""

    def __init__(
        self,
        *,
        clock: Clock,
        metrics: SchedulerMetrics | None = None,
        stories: PodStories | None = None,
    ) -> None:
        self._clock: Final = clock
        self.metrics: Final = SchedulerMetrics() if metrics is None else metrics
        self.stories: Final = PodStories() if stories is None else stories
        self._sampler: Final = Sampler()
        #: Whether the cycle that has just begun measures each plugin.
        self.samples_plugins = False

    def start(self) -> float:
        """An attempt begins; what comes back goes with it to `failed` or `bound`."""
        self.samples_plugins = self._sampler.picks()
        return self.metrics.stopwatch()

    def decided(self, started: float) -> None:
        """The algorithm is done, PostFilter included, whatever came of it."""
        self.metrics.scheduling_algorithm_duration.observe(self.metrics.stopwatch() - started)

    def placed(self, queued: QueuedPodInfo, verdict: Verdict) -> None:
        """The algorithm has found a node."""
        scores = verdict.scores
        self.stories.add(
            queued.pod_info,
            Attempt(
                self._clock.now(),
                queued.attempts,
                "scheduled",
                node=verdict.suggested_host,
                evaluated_nodes=verdict.evaluated_nodes,
                feasible_nodes=len(verdict.feasible),
                scores=()
                if scores is None
                else tuple(
                    (plugin, int(values[verdict.position]))
                    for plugin, values in scores.by_plugin.items()
                ),
            ),
        )

    def waits_on_permit(self, pod: PodInfo, node_name: str, seconds: Mapping[str, float]) -> None:
        """Plugins hold a pod on its way to a node."""
        self.stories.add(pod, WaitingOnPermit(self._clock.now(), node_name, seconds))

    def binding_started(self) -> None:
        """One more binding is under way."""
        self.metrics.goroutines[(_BINDING,)] += 1

    def binding_ended(self) -> None:
        """One less is."""
        self.metrics.goroutines[(_BINDING,)] -= 1

    def bound(
        self, profile_name: str, queued: QueuedPodInfo, node_name: str, started: float
    ) -> None:
        """A pod has got its node."""
        metrics, now = self.metrics, self._clock.now()
        metrics.attempt_ended("scheduled", profile_name, metrics.stopwatch() - started)
        metrics.pod_scheduling_attempts.observe(queued.attempts)
        if queued.initial_attempt_timestamp is not None:
            waited_seconds = now - queued.initial_attempt_timestamp
            label = attempts_label(queued.attempts)
            metrics.pod_scheduling_sli_duration.observe(waited_seconds, label)
        if queued.was_flushed_from_unschedulable:
            metrics.pod_scheduled_after_flush[()] += 1
        self.stories.add(queued.pod_info, Bound(now, node_name))

    def failed(
        self,
        profile_name: str,
        queued: QueuedPodInfo,
        status: Status,
        nominating_info: NominatingInfo | None,
        started: float,
    ) -> None:
        """An attempt has come to nothing; called before the pod goes back to the queue."""
        metrics, now = self.metrics, self._clock.now()
        result = "unschedulable" if status.is_rejected else "error"
        metrics.attempt_ended(result, profile_name, metrics.stopwatch() - started)
        pod = queued.pod_info
        verdicts = _verdicts(status.cause) if isinstance(status.cause, FitError) else ()
        attempt = Attempt(
            now, queued.attempts, result, message=status.message, verdicts=tuple(verdicts)
        )
        self.stories.add(pod, attempt)
        if nominating_info is None or nominating_info.mode != NominatingMode.OVERRIDE:
            return
        node_name = nominating_info.nominated_node_name
        if node_name or pod.pod.status.nominated_node_name:
            self.stories.add(pod, Nominated(now, node_name))

    def cache_compared(self, difference: CacheDifference) -> None:
        """Cache and queue have been held against what the informers have."""
        metrics = self.metrics
        metrics.cache_comparisons[("different" if difference else "equal",)] += 1
        for kind, missed, redundant in (
            ("nodes", difference.missed_nodes, difference.redundant_nodes),
            ("pods", difference.missed_pods, difference.redundant_pods),
        ):
            metrics.cache_divergence[kind, "missed"] = len(missed)
            metrics.cache_divergence[kind, "redundant"] = len(redundant)


def _verdicts(fit_error: FitError) -> list[NodeVerdict]:
    """Who turned down how many nodes, and why."""
    diagnosis = fit_error.diagnosis
    whole = diagnosis.pre_filter_status
    if whole is not None:
        statuses = [(whole, fit_error.num_all_nodes)]
    else:
        statuses = diagnosis.node_to_status.statuses()
    return [
        NodeVerdict(status.plugin, str(status.code), tuple(status.reasons), nodes)
        for status, nodes in statuses
    ]
