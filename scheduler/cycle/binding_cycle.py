"""The binding cycle: from an assumed pod to a bound one, while the next pod is being scheduled.

    assumed --Permit allows--> done in the queue --PreBind--> --Bind--> bound, PostBind
       |            |                                |          |
       +--rejected--+-------------failed-------------+----------+--> unreserved, forgotten, requeued

Up to Permit a plugin may turn the pod down, and the events of that time are kept for it; after that
a failure is an error, and the pod is tried again from scratch.
Source: `pkg/scheduler/schedule_one.go` (`bindingCycle`, `handleBindingCycleError`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.cache import CacheError
from scheduler.client import ClientError
from scheduler.framework.events import EVENT_ASSIGNED_POD_DELETE
from scheduler.framework.status import NodeToStatus, Status, error
from scheduler.framework.types import (
    PODS_TO_ACTIVATE,
    Diagnosis,
    FitError,
    NominatingInfo,
    NominatingMode,
)

if TYPE_CHECKING:
    from scheduler.api_calls.dispatcher import ApiDispatcher
    from scheduler.cache import Cache
    from scheduler.clock import Clock
    from scheduler.cycle.attempt_recorder import AttemptRecorder
    from scheduler.cycle.failure_handler import FailureHandler
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.types import QueuedPodInfo
    from scheduler.queue import PriorityQueue
    from scheduler.runtime.binding import PodsInPreBind, PreFlight, WaitingPods
    from scheduler.runtime.framework import Framework
    from scheduler.snapshot.pod_info import PodInfo

_log: Final = logging.getLogger(__name__)

#: A failure here means that the pod is expected on no node any more.
CLEAR_NOMINATED_NODE: Final = NominatingInfo("", NominatingMode.OVERRIDE)


class Assumed(NamedTuple):
    """A pod that counts as being on its node, on its way there."""

    framework: Framework
    state: CycleState
    queued: QueuedPodInfo
    node_name: str
    #: When its attempt began, by the recorder's stopwatch.
    started: float

    @property
    def pod(self) -> PodInfo:
        """The pod, its node filled in."""
        return self.queued.pod_info


def fit_error_on(pod: PodInfo, node_name: str, status: Status) -> Status:
    """A rejection after the node was chosen, as the verdict that no node fits: of one there are."""
    diagnosis = Diagnosis(NodeToStatus.of_one(node_name, status))
    diagnosis.add_plugin_status(status)
    fit_error = FitError(pod, 1, diagnosis)
    return Status(status.code, str(fit_error), cause=fit_error)


class BindingCycle:
    """Binds assumed pods. `bound` counts them."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: PriorityQueue,
        dispatcher: ApiDispatcher,
        failures: FailureHandler,
        waiting_pods: WaitingPods,
        pods_in_pre_bind: PodsInPreBind,
        recorder: AttemptRecorder,
        clock: Clock,
    ) -> None:
        self._recorder: Final = recorder
        self._cache: Final = cache
        self._queue: Final = queue
        self._dispatcher: Final = dispatcher
        self._failures: Final = failures
        self._waiting_pods: Final = waiting_pods
        self._pods_in_pre_bind: Final = pods_in_pre_bind
        self._clock: Final = clock
        self.bound = 0

    async def run(self, assumed: Assumed) -> None:
        """Bind a pod, or undo all that was done for it and put it back in the queue."""
        self._recorder.binding_started()
        try:
            status = await self._bind(assumed)
        except Exception as failure:
            _log.exception("The binding cycle of pod %s broke", assumed.pod.key)
            status = error(failure)
        finally:
            self._recorder.binding_ended()
        if status is not None:
            self._fail(assumed, status)

    def unreserve_and_forget(self, assumed: Assumed) -> bool:
        """Undo Reserve and give the node back; False if the cache no longer counted the pod so."""
        assumed.framework.binding.unreserve(assumed.state, assumed.pod, assumed.node_name)
        try:
            self._cache.forget_pod(assumed.pod)
        except CacheError as failure:
            _log.error("Forgetting pod %s failed: %s", assumed.pod.key, failure)
            return False
        return True

    def activate(self, assumed: Assumed) -> None:
        """Try the pods that plugins of this cycle have asked for, once."""
        pods = assumed.state.find(PODS_TO_ACTIVATE)
        if pods:
            self._queue.activate(pods, self._clock.now())
            pods.clear()

    async def _bind(self, assumed: Assumed) -> Status | None:
        framework, state, queued, node_name, started = assumed
        pod = assumed.pod
        pre_flight = framework.binding.pre_bind_pre_flight(state, pod, node_name)
        if pre_flight.status is not None and not pre_flight.status.is_skip:
            return pre_flight.status
        if pre_flight.status is None or self._waiting_pods.get(pod.uid) is not None:
            await self._nominate(pod, node_name)

        status = await self._waiting_pods.wait_on_permit(pod.uid)
        if status is not None:
            return fit_error_on(pod, node_name, status) if status.is_rejected else status
        # No rejection from here on, hence no need of the events that happen meanwhile.
        self._queue.done(pod.uid)

        status = await self._pre_bind_and_bind(assumed, pre_flight)
        if status is not None:
            return status
        self.bound += 1
        self._recorder.bound(framework.profile_name, queued, node_name, started)
        _log.info("Bound pod %s to node %s, attempt %d", pod.key, node_name, queued.attempts)
        framework.handle.event_recorder.event(
            pod.pod,
            type="Normal",
            reason="Scheduled",
            action="Binding",
            note=f"Successfully assigned {pod.key} to {node_name}",
        )
        await framework.binding.post_bind(state, pod, node_name)
        self.activate(assumed)
        return None

    async def _pre_bind_and_bind(self, assumed: Assumed, pre_flight: PreFlight) -> Status | None:
        framework, state, _, node_name, _ = assumed
        status = None
        if pre_flight.status is not None:
            with framework.meter.point("PreBind"):
                pass  # nobody has anything to do, and that is counted, too
        else:
            # For as long as this takes, a preemption can have the place without deleting the pod.
            work = framework.binding.pre_bind(pre_flight, state, assumed.pod, node_name)
            status = await self._pods_in_pre_bind.run(assumed.pod.uid, work)
        if status is None:
            status = await framework.binding.bind(state, assumed.pod, node_name)
        return status

    async def _nominate(self, pod: PodInfo, node_name: str) -> None:
        """Tell the world where a pod is going that will take a while to get there."""
        info = NominatingInfo(node_name, NominatingMode.OVERRIDE)
        try:
            await self._dispatcher.patch_pod_status(pod.pod, condition=None, nominating_info=info)
        except ClientError as failure:
            _log.error("Nominating pod %s to node %s failed: %s", pod.key, node_name, failure)

    def _fail(self, assumed: Assumed, status: Status) -> None:
        pod = assumed.pod
        forgotten = self.unreserve_and_forget(assumed)
        if forgotten and not status.is_rejected:
            self._move_others(pod)
        self._failures.handle(
            assumed.framework, assumed.queued, status, CLEAR_NOMINATED_NODE, assumed.started
        )
        if forgotten and status.is_rejected:
            # Only now, and not for the pod itself: its own going is no reason to try it again.
            self._move_others(pod, but=pod.uid)

    def _move_others(self, pod: PodInfo, *, but: str | None = None) -> None:
        """The room this pod held is free again, as if it had been deleted from its node."""
        self._queue.move_all_to_active_or_backoff_queue(
            EVENT_ASSIGNED_POD_DELETE,
            pod.pod,
            None,
            self._clock.now(),
            pre_check=None if but is None else lambda waiting: waiting.uid != but,
        )
