"""Pods held at Permit.

Source: `pkg/scheduler/framework/runtime/waiting_pods_map.go`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from scheduler.api.duration import Duration
from scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.clock import Clock
    from scheduler.metrics import SchedulerMetrics
    from scheduler.snapshot.pod_info import PodInfo

_NANOSECONDS: Final = 10**9


class _WaitingPod:
    """A pod held at Permit; satisfies `scheduler.framework.handle.WaitingPod`.

        waiting --allow by the last pending plugin--> allowed
           |----reject, preempt or a timeout--------> rejected

    The first outcome stands.
    """

    def __init__(self, pod: PodInfo, wait_seconds: Mapping[str, float], clock: Clock) -> None:
        self.pod: Final = pod
        self._outcome: Final[asyncio.Future[Status | None]] = (
            asyncio.get_running_loop().create_future()
        )
        self._timers: Final = {
            plugin: asyncio.create_task(self._expire(plugin, seconds, clock))
            for plugin, seconds in wait_seconds.items()
        }

    @property
    def pending_plugins(self) -> Sequence[str]:
        return list(self._timers)

    def allow(self, plugin_name: str) -> None:
        if (timer := self._timers.pop(plugin_name, None)) is not None:
            timer.cancel()
        if not self._timers and not self._outcome.done():
            self._outcome.set_result(None)

    def reject(self, plugin_name: str, message: str) -> bool:
        return self._stop(Status(Code.UNSCHEDULABLE, message, plugin=plugin_name))

    def preempt(self, plugin_name: str, message: str) -> bool:
        return self._stop(Status(Code.ERROR, message, plugin=plugin_name))

    async def wait(self) -> Status | None:
        """Return None when the pod is allowed, or the status that rejects it."""
        return await self._outcome

    def close(self) -> None:
        """Stop all timers."""
        for timer in self._timers.values():
            timer.cancel()

    def _stop(self, status: Status) -> bool:
        if self._outcome.done():
            return False
        self._outcome.set_result(status)
        self.close()
        return True

    async def _expire(self, plugin: str, seconds: float, clock: Clock) -> None:
        await clock.sleep(seconds)
        waited = Duration(round(seconds * _NANOSECONDS))
        self._timers.pop(plugin, None)
        self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")


class WaitingPods:
    """All pods held at Permit, of every profile, by uid."""

    def __init__(self, clock: Clock, metrics: SchedulerMetrics) -> None:
        self._clock: Final = clock
        self._metrics: Final = metrics
        self._pods: Final[dict[str, _WaitingPod]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, pod: PodInfo, wait_seconds: Mapping[str, float]) -> None:
        """Hold a pod. `wait_seconds` are the timeouts by plugin; they start now."""
        self._pods[pod.uid] = _WaitingPod(pod, wait_seconds, self._clock)

    def get(self, uid: str) -> _WaitingPod | None:
        """Return the pod of this uid; None if it is not held."""
        return self._pods.get(uid)

    def iterate(self, callback: Callable[[_WaitingPod], None]) -> None:
        """Call `callback` with every pod held here. It may allow or reject the pod."""
        for waiting in list(self._pods.values()):
            callback(waiting)

    def reject(self, uid: str) -> bool:
        """Reject a pod because it is deleted; False if it is not held."""
        waiting = self._pods.get(uid)
        return waiting is not None and waiting.reject("", "removed")

    async def wait_on_permit(self, uid: str) -> Status | None:
        """Return None when the pod is allowed or not held, or the status that rejects it."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return None
        started = self._metrics.stopwatch()
        try:
            status = await waiting.wait()
            waited_seconds = self._metrics.stopwatch() - started
            result = str(Code.SUCCESS if status is None else status.code)
            self._metrics.permit_wait_duration.observe(waited_seconds, result)
        finally:
            waiting.close()
            self._pods.pop(uid, None)
        if status is None or status.is_rejected:
            return status
        return status.with_reasons_before("waiting on permit for pod: ")
