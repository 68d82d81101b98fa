"""The scheduling cycle: one pod from the head of the queue to a node, or back to the queue.

The cycle reads the snapshot and nothing else, and waits for nobody except PostFilter. Once the pod
is assumed and permitted its binding goes on in the background.
Source: `pkg/scheduler/schedule_one.go` (`scheduleOnePod`, `schedulingCycle`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from scheduler.cache import CacheError
from scheduler.cycle.binding_cycle import CLEAR_NOMINATED_NODE, Assumed, fit_error_on
from scheduler.cycle.schedule_pod import NoNodesAvailableError
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code, Status, error
from scheduler.framework.types import PODS_TO_ACTIVATE, FitError
from scheduler.runtime.errors import FrameworkError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.cache import Cache
    from scheduler.cycle.attempt_recorder import AttemptRecorder
    from scheduler.cycle.binding_cycle import BindingCycle
    from scheduler.cycle.failure_handler import FailureHandler
    from scheduler.cycle.schedule_pod import SchedulingAlgorithm
    from scheduler.framework.types import NominatingInfo, QueuedPodInfo
    from scheduler.queue import PriorityQueue
    from scheduler.runtime.binding import WaitingPods
    from scheduler.runtime.framework import Framework
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.snapshot import Snapshot

_log: Final = logging.getLogger(__name__)


class ScheduleOne:
    """Schedules pods one after another."""

    def __init__(
        self,
        *,
        profiles: Mapping[str, Framework],
        cache: Cache,
        queue: PriorityQueue,
        snapshot: Snapshot,
        algorithm: SchedulingAlgorithm,
        binding_cycle: BindingCycle,
        failures: FailureHandler,
        waiting_pods: WaitingPods,
        recorder: AttemptRecorder,
        spawn: Callable[..., object],
    ) -> None:
        self._recorder: Final = recorder
        self._profiles: Final = profiles
        self._cache: Final = cache
        self._queue: Final = queue
        self._snapshot: Final = snapshot
        self._algorithm: Final = algorithm
        self._binding_cycle: Final = binding_cycle
        self._failures: Final = failures
        self._waiting_pods: Final = waiting_pods
        self._spawn: Final = spawn

    async def schedule_one(self, queued: QueuedPodInfo) -> None:
        """Run a popped pod's whole scheduling cycle and send its binding on its way."""
        pod = queued.pod_info
        framework = self._profiles.get(pod.spec.scheduler_name)
        if framework is None:
            _log.error('profile not found for scheduler name "%s"', pod.spec.scheduler_name)
            self._queue.done(pod.uid)
            return
        if self._skip_pod_schedule(framework, pod):
            self._queue.done(pod.uid)
            return
        await self._schedule(framework, queued, self._recorder.start())

    async def _schedule(self, framework: Framework, queued: QueuedPodInfo, started: float) -> None:
        state = CycleState(records_plugin_metrics=self._recorder.samples_plugins)
        state.write(PODS_TO_ACTIVATE, {})
        try:
            self._cache.update_snapshot(self._snapshot)
            verdict = self._algorithm.schedule_pod(framework, state, queued.pod_info)
        except FitError as fit_error:
            await self._try_to_make_room(framework, state, queued, fit_error, started)
        except NoNodesAvailableError as nothing:
            status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, str(nothing), cause=nothing)
            self._give_up(framework, queued, status, CLEAR_NOMINATED_NODE, started)
        except FrameworkError as failure:
            self._give_up(framework, queued, error(failure), CLEAR_NOMINATED_NODE, started)
        except Exception as bug:
            _log.exception("The scheduling cycle of pod %s broke", queued.key)
            self._give_up(framework, queued, error(bug), CLEAR_NOMINATED_NODE, started)
        else:
            self._recorder.decided(started)
            self._recorder.placed(queued, verdict)
            self._proceed(framework, state, queued, verdict.suggested_host, started)

    def _skip_pod_schedule(self, framework: Framework, pod: PodInfo) -> bool:
        """Whether there is nothing to schedule: the pod is going, or on its way to a node."""
        if pod.pod.metadata.deletion_timestamp is not None:
            framework.handle.event_recorder.event(
                pod.pod,
                type="Warning",
                reason="FailedScheduling",
                action="Scheduling",
                note=f"skip schedule deleting pod: {pod.key}",
            )
            return True
        return self._cache.is_assumed_pod(pod.pod)

    async def _try_to_make_room(
        self,
        framework: Framework,
        state: CycleState,
        queued: QueuedPodInfo,
        fit_error: FitError,
        started: float,
    ) -> None:
        """Run PostFilter for a pod that fits nowhere, and put it back either way."""
        nominating_info: NominatingInfo | None = CLEAR_NOMINATED_NODE
        if framework.has_post_filter_plugins:
            result, status = await framework.run_post_filter_plugins(
                state, queued.pod_info, fit_error.diagnosis.node_to_status
            )
            fit_error.diagnosis.post_filter_message = status.message
            if status.code == Code.ERROR:
                _log.error("PostFilter of pod %s failed: %s", queued.key, status.message)
            nominating_info = result.nominating_info if result is not None else None
        status = Status(Code.UNSCHEDULABLE, str(fit_error), cause=fit_error)
        self._give_up(framework, queued, status, nominating_info, started)

    def _proceed(
        self,
        framework: Framework,
        state: CycleState,
        queued: QueuedPodInfo,
        host: str,
        started: float,
    ) -> None:
        """Assume, reserve and permit; then bind in the background."""
        assumed_queued = queued.clone()
        assumed_queued.pod_info = queued.pod_info.assigned_to(host)
        assumed = Assumed(framework, state, assumed_queued, host, started)
        try:
            self._cache.assume_pod(assumed.pod)
        except CacheError as failure:
            self._fail(framework, queued, error(failure), CLEAR_NOMINATED_NODE, started)
            return
        self._queue.delete_nominated_pod_if_exists(assumed.pod)
        status = self._reserve_and_permit(assumed)
        if status is not None:
            self._binding_cycle.unreserve_and_forget(assumed)
            if status.is_rejected:
                status = fit_error_on(queued.pod_info, host, status)
            self._fail(framework, assumed_queued, status, CLEAR_NOMINATED_NODE, started)
            return
        self._binding_cycle.activate(assumed)
        self._spawn(self._binding_cycle.run(assumed), f"bind {assumed.pod.key}")

    def _reserve_and_permit(self, assumed: Assumed) -> Status | None:
        framework, state, _, host, _ = assumed
        status = framework.binding.reserve(state, assumed.pod, host)
        if status is not None:
            return status
        outcome = framework.binding.permit(state, assumed.pod, host)
        if outcome.wait_seconds:
            self._waiting_pods.add(assumed.pod, outcome.wait_seconds)
            self._recorder.waits_on_permit(assumed.pod, host, outcome.wait_seconds)
        return outcome.status

    def _give_up(
        self,
        framework: Framework,
        queued: QueuedPodInfo,
        status: Status,
        nominating_info: NominatingInfo | None,
        started: float,
    ) -> None:
        """The algorithm has found no node."""
        self._recorder.decided(started)
        self._fail(framework, queued, status, nominating_info, started)

    def _fail(
        self,
        framework: Framework,
        queued: QueuedPodInfo,
        status: Status,
        nominating_info: NominatingInfo | None,
        started: float,
    ) -> None:
        self._failures.handle(framework, queued, status, nominating_info, started)
