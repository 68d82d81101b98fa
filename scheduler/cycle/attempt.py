"""One attempt to schedule one pod, and the parts of the scheduler that an attempt uses.

    start --> placed --> waiting on permit --> bound
      |         |               |
      `---------+---------------+--> failed

An `Attempt` holds what the steps of the scheduling cycle and of the binding cycle share. It records
what becomes of the pod: metrics for scrapers, and entries in the pod's story for users.
Source: the calls of `metrics.*` in `pkg/scheduler/schedule_one.go`; stories are ours.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scheduler.api_calls.call_queue import CallNotMade
from scheduler.client import ClientError
from scheduler.clock import run_on
from scheduler.config import DEFAULT_FEATURE_GATES, DEFAULT_SCHEDULER_VERSION
from scheduler.framework.cycle_state import CycleState, claim_statuses
from scheduler.framework.failures import PluginFailedError, PluginFailure, SeenFailures
from scheduler.framework.status import NodeToStatus, Status
from scheduler.framework.types import (
    PODS_TO_ACTIVATE,
    Diagnosis,
    FitError,
    NominatingInfo,
    NominatingMode,
)
from scheduler.metrics import Sampler
from scheduler.metrics.scheduler_metrics import attempts_label
from scheduler.preemption import PREEMPTION
from scheduler.stories import (
    Attempted,
    Bound,
    Nominated,
    Preempted,
    RejectedNodes,
    Reserved,
    WaitingOnPermit,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from scheduler.api.core import Pod
    from scheduler.api.pod_groups import PodGroup
    from scheduler.cache import Cache
    from scheduler.clock import Clock
    from scheduler.config import FeatureGates, SchedulerVersion
    from scheduler.cycle.schedule_pod import ScheduleResult, SchedulingAlgorithm
    from scheduler.cycle.scheduling_queue import SchedulingQueue
    from scheduler.framework.handle import ApiWriter, Background
    from scheduler.metrics import SchedulerMetrics
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.runtime.framework import Framework
    from scheduler.runtime.pods_in_pre_bind import PodsInPreBind
    from scheduler.runtime.waiting_pods import WaitingPods
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.stories import PodStories

_log: Final = logging.getLogger(__name__)

#: The pod is no longer nominated to any node.
CLEAR_NOMINATED_NODE: Final = NominatingInfo("", NominatingMode.OVERRIDE)
#: The feature gate of writing the chosen node before a binding that takes a while.
NOMINATES: Final = "NominatedNodeNameForExpectation"


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleParts:
    """The parts of the scheduler that the scheduling cycle and the binding cycle use.

    `profiles` are by scheduler name. `pod_lister` returns the pod of a namespace and a name as the
    informer has it, or None; `pod_group_lister` does the same for pod groups. With
    `searches_all_placements` a pod group gets nodes in each placement, for records, even where it
    is known that all members fit.

    A failed attempt leaves `nomination_of_failed`, or in a profile without PostFilter, if the pod
    fits nowhere, `nomination_without_post_filter`.
    """

    profiles: Mapping[str, Framework]
    cache: Cache
    queue: SchedulingQueue
    algorithm: SchedulingAlgorithm
    api: ApiWriter
    waiting_pods: WaitingPods
    pods_in_pre_bind: PodsInPreBind
    pod_lister: Callable[[str, str], Pod | None]
    attempts: Attempts
    spawn: Background
    feature_gates: FeatureGates = DEFAULT_FEATURE_GATES
    version: SchedulerVersion = DEFAULT_SCHEDULER_VERSION
    pod_group_lister: Callable[[str, str], PodGroup | None] = lambda namespace, name: None
    let_others_run: Callable[[], Awaitable[None]] = run_on
    searches_all_placements: bool = False
    nomination_of_failed: NominatingInfo | None = CLEAR_NOMINATED_NODE
    nomination_without_post_filter: NominatingInfo | None = CLEAR_NOMINATED_NODE

    def activate(self, attempt: Attempt) -> None:
        """Activate the pods that plugins have requested in this attempt, once."""
        pods = attempt.state.find(PODS_TO_ACTIVATE)
        if pods:
            self.queue.activate(pods)
            pods.clear()


class Attempts:
    """Starts attempts; they record themselves in `metrics` and `stories`."""

    def __init__(self, *, clock: Clock, metrics: SchedulerMetrics, stories: PodStories) -> None:
        self.clock: Final = clock
        self.metrics: Final = metrics
        self.stories: Final = stories
        self._sampler: Final = Sampler()
        #: The exceptions of plugins whose traceback is in the log.
        self.seen_failures: Final = SeenFailures()

    def start(self, framework: Framework, queued: QueuedPodInfo) -> Attempt:
        """Return a new attempt for a popped pod. Its duration is measured from now on."""
        state = CycleState(records_plugin_metrics=self._sampler.picks())
        state.write(PODS_TO_ACTIVATE, {})
        return Attempt(framework, queued, state, started=self.metrics.stopwatch(), records=self)


class Attempt:
    """One attempt to schedule one pod.

    `queued` is the popped pod; once the pod is placed it is a copy, in which the pod's node is
    filled in. `host` is the chosen node, empty until then. `started` is in seconds, by the metrics'
    stopwatch.
    """

    __slots__ = ("_failure", "_records", "framework", "host", "queued", "started", "state")

    def __init__(
        self,
        framework: Framework,
        queued: QueuedPodInfo,
        state: CycleState,
        *,
        started: float,
        records: Attempts,
    ) -> None:
        self.framework: Final = framework
        self.queued = queued
        self.state: Final = state
        self.started = started
        self.host = ""
        self._failure: PluginFailure | None = None
        self._records: Final = records

    @property
    def pod(self) -> PodInfo:
        """The pod; its node is filled in once it is placed."""
        return self.queued.pod_info

    def placed(self, result: ScheduleResult) -> None:
        """Take the chosen node over and record it."""
        records, queued = self._records, self.queued
        records.metrics.scheduling_algorithm_duration.observe(self._seconds())
        entry = Attempted(
            records.clock.now(),
            queued.attempts,
            "scheduled",
            node=result.suggested_host,
            evaluated_nodes=result.evaluated_nodes,
            feasible_nodes=len(result.feasible_nodes),
            scores=result.host_scores(),
        )
        records.stories.add(queued.pod_info, entry)
        self.host = result.suggested_host
        self.queued = queued.clone()
        self.queued.pod_info = queued.pod_info.assigned_to(
            self.host, claim_statuses(self.state, self.host)
        )

    def reserved(self) -> None:
        """Record the notes of the plugins that have reserved something, if there are any."""
        if self.state.notes:
            records = self._records
            entry = Reserved(records.clock.now(), self.host, tuple(self.state.notes))
            records.stories.add(self.pod, entry)

    def waits_on_permit(self, wait_seconds: Mapping[str, float]) -> None:
        """Record that plugins hold the pod at Permit, each for at most its seconds."""
        records = self._records
        entry = WaitingOnPermit(records.clock.now(), self.host, wait_seconds)
        records.stories.add(self.pod, entry)

    def binding_started(self) -> None:
        """Count one more binding under way."""
        self._records.metrics.goroutines[("binding",)] += 1

    def binding_ended(self) -> None:
        """Count one binding less."""
        self._records.metrics.goroutines[("binding",)] -= 1

    def bound(self) -> None:
        """Record that the pod is bound: the attempt has succeeded."""
        records, queued = self._records, self.queued
        metrics, now = records.metrics, records.clock.now()
        self._ended("scheduled")
        metrics.pod_scheduling_attempts.observe(queued.attempts)
        if queued.initial_attempt_timestamp is not None:
            waited_seconds = now - queued.initial_attempt_timestamp
            label = attempts_label(queued.attempts)
            metrics.pod_scheduling_sli_duration.observe(waited_seconds, label)
        if queued.was_flushed_from_unschedulable:
            metrics.pod_scheduled_after_flush[()] += 1
        records.stories.add(queued.pod_info, Bound(now, self.host))

    def failed(self, status: Status, nominating_info: NominatingInfo | None) -> None:
        """Record that the attempt has failed. To be called before the pod is requeued."""
        records, pod = self._records, self.pod
        now, stories = records.clock.now(), records.stories
        if not self.host:
            # The time of the algorithm includes PostFilter.
            records.metrics.scheduling_algorithm_duration.observe(self._seconds())
        result = "unschedulable" if status.is_rejected else "error"
        self._ended(result)
        rejected = _rejected_nodes(status.cause) if isinstance(status.cause, FitError) else ()
        self.plugin_failed(status)
        entry = Attempted(
            now,
            self.queued.attempts,
            result,
            message=status.message,
            rejected=tuple(rejected),
            failure=self._failure,
        )
        stories.add(pod, entry)
        if nominating_info is None or nominating_info.mode != NominatingMode.OVERRIDE:
            return
        node_name = nominating_info.nominated_node_name
        if node_name or pod.pod.status.nominated_node_name:
            self._nominated(now, node_name)

    def _nominated(self, now: float, node_name: str) -> None:
        """Record the nomination, and in the victims' stories the preemptor."""
        stories, preemption = self._records.stories, self.state.find(PREEMPTION)
        best = preemption.choice.best if preemption is not None else None
        victims = best.victims.pods if best is not None and best.name == node_name else ()
        stories.add(self.pod, Nominated(now, node_name, tuple(victim.key for victim in victims)))
        for victim in victims:
            stories.add(victim, Preempted(now, node_name, self.pod.key))

    def plugin_failed(self, status: Status) -> None:
        """Keep a plugin's exception for the story, and log its traceback.

        Equal exceptions from one line of a plugin are logged once. A write that failed or was not
        made is no bug of a plugin.
        """
        error = status.cause
        if not isinstance(error, PluginFailedError):
            return
        cause = error.__cause__
        if cause is None or isinstance(cause, ClientError | CallNotMade):
            return
        self._failure = PluginFailure.from_exception(
            cause, plugin=error.plugin, point=error.point, node=error.node_name
        )
        if self._records.seen_failures.is_new(error.plugin, cause):
            _log.error(
                "Plugin %s failed at %s for pod %s%s; equal failures are not logged again",
                error.plugin,
                error.point,
                self.pod.key,
                f" on node {error.node_name}" if error.node_name else "",
                exc_info=cause,
            )

    def on_host_only(self, status: Status) -> Status:
        """Wrap a rejection by Reserve or Permit in a FitError about the chosen node only.

        Upstream does the same. Any other status is returned as it is.
        """
        if not status.is_rejected:
            return status
        diagnosis = Diagnosis(NodeToStatus.from_one(self.host, status))
        diagnosis.add_plugin_status(status)
        fit_error = FitError(self.pod, 1, diagnosis)
        return Status(status.code, str(fit_error), cause=fit_error)

    def _ended(self, result: str) -> None:
        profile = self.framework.profile_name
        self._records.metrics.attempt_ended(result, profile, self._seconds())

    def _seconds(self) -> float:
        """The duration of the attempt so far."""
        return self._records.metrics.stopwatch() - self.started


def _rejected_nodes(fit_error: FitError) -> list[RejectedNodes]:
    """Return each status of the diagnosis with the number of nodes that have it."""
    diagnosis = fit_error.diagnosis
    whole = diagnosis.pre_filter_status
    if whole is not None:
        statuses = [(whole, fit_error.num_all_nodes)]
    else:
        statuses = diagnosis.node_to_status.statuses()
    return [
        RejectedNodes(status.plugin, str(status.code), tuple(status.reasons), nodes)
        for status, nodes in statuses
    ]
