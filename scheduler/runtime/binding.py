"""Reserve, Permit, PreBind, Bind, PostBind: from a decision to a bound pod.

Source: `pkg/scheduler/framework/runtime/framework.go`, `waiting_pods_map.go`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from scheduler.config.duration import Duration
from scheduler.framework.status import Code, Status, as_verdict, error, skip
from scheduler.framework.types import PreBindPreFlightResult
from scheduler.metrics import SchedulerMetrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from scheduler.clock import Clock
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.interface import (
        BindPlugin,
        PermitPlugin,
        Plugin,
        PostBindPlugin,
        PreBindPlugin,
        PreBindPreFlightPlugin,
        ReservePlugin,
    )
    from scheduler.runtime.meter import Meter
    from scheduler.snapshot.pod_info import PodInfo

_log: Final = logging.getLogger(__name__)

#: No plugin can hold a pod longer, whatever it asks for.
_PERMIT_TIMEOUT_MAX_SECONDS: Final = 15 * 60.0
_NANOSECONDS: Final = 10**9


class PermitOutcome(NamedTuple):
    """What Permit came to: a rejection, or who wants the pod to wait and how long at most."""

    status: Status | None
    wait_seconds: Mapping[str, float]


class PreFlight(NamedTuple):
    """Which PreBind plugins have work to do, in groups that may run at the same time."""

    status: Status | None
    groups: Sequence[Sequence[Plugin]]


class _WaitingPod:
    """A pod held at Permit until every plugin that asked has allowed it.

        waiting --allow by the last plugin--> allowed
           |----reject, or a timeout--------> rejected

    Whatever comes first stands.
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
        """The plugins whose word is still out."""
        return list(self._timers)

    def allow(self, plugin_name: str) -> None:
        """A plugin lets the pod go."""
        if (timer := self._timers.pop(plugin_name, None)) is not None:
            timer.cancel()
        if not self._timers and not self._outcome.done():
            self._outcome.set_result(None)

    def reject(self, plugin_name: str, message: str) -> bool:
        """A plugin turns the pod down."""
        return self._stop(Status(Code.UNSCHEDULABLE, message, plugin=plugin_name))

    def preempt(self, plugin_name: str, message: str) -> bool:
        """Another pod takes the place; this one is tried again as after an error."""
        return self._stop(Status(Code.ERROR, message, plugin=plugin_name))

    async def wait(self) -> Status | None:
        """Return once the pod is allowed (None) or turned down."""
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

    def __init__(self, clock: Clock, metrics: SchedulerMetrics | None = None) -> None:
        self._clock: Final = clock
        self._metrics: Final = SchedulerMetrics() if metrics is None else metrics
        self._pods: Final[dict[str, _WaitingPod]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, pod: PodInfo, wait_seconds: Mapping[str, float]) -> None:
        """Hold a pod; its timers start now."""
        self._pods[pod.uid] = _WaitingPod(pod, wait_seconds, self._clock)

    def get(self, uid: str) -> _WaitingPod | None:
        """A pod held here."""
        return self._pods.get(uid)

    def iterate(self, callback: Callable[[_WaitingPod], None]) -> None:
        """Show every pod held here to `callback`, which may allow or reject it."""
        for waiting in list(self._pods.values()):
            callback(waiting)

    def reject(self, uid: str) -> bool:
        """Turn a pod down because it is gone; False if it was not held."""
        waiting = self._pods.get(uid)
        return waiting is not None and waiting.reject("", "removed")

    async def wait_on_permit(self, uid: str) -> Status | None:
        """Return once the pod may go on (None) or is turned down; at once if it is not held."""
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


class _CalledBack(Exception):
    """Why somebody has canceled a pod; travels with the cancellation of the plugins' work."""


class _PodInPreBind:
    """A pod that PreBind plugins are at work for.

    at work --cancel_pod--> canceled: the binding fails
       |----all done------> finished: nobody can stop it any more
    """

    def __init__(self, work: Coroutine[None, None, Status | None]) -> None:
        self._work: Final = asyncio.ensure_future(work)
        self._cause: str | None = None

    def cancel_pod(self, message: str) -> bool:
        """Stop the plugins; the pod is tried again as after an error. False if it is too late."""
        if self._work.done() and self._cause is None:
            return False
        if self._cause is None:
            self._cause = message
            self._work.cancel(_CalledBack(message))
        return True

    async def wait(self) -> Status | None:
        """What the plugins answer, or an error if the pod was canceled, whatever they made of it.

        A cancellation of the caller stops the plugins and goes on to the caller.
        """
        try:
            status = await self._work
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._cause is None or (task is not None and task.cancelling()):
                raise
            status = None
        if self._cause is not None and status is None:
            return Status(Code.ERROR, self._cause)
        return status


class PodsInPreBind:
    """All pods that PreBind plugins are at work for, of every profile, by uid."""

    def __init__(self) -> None:
        self._pods: Final[dict[str, _PodInPreBind]] = {}

    def get(self, uid: str) -> _PodInPreBind | None:
        """One of them."""
        return self._pods.get(uid)

    async def run(self, uid: str, work: Coroutine[None, None, Status | None]) -> Status | None:
        """Let the plugins do their work for a pod, unless somebody cancels it."""
        pod = self._pods[uid] = _PodInPreBind(work)
        try:
            return await pod.wait()
        finally:
            del self._pods[uid]


class BindingPlugins:
    """The plugins of a profile from Reserve to PostBind, in order."""

    def __init__(
        self,
        *,
        reserve: Sequence[Plugin],
        permit: Sequence[Plugin],
        pre_bind: Sequence[Plugin],
        bind: Sequence[Plugin],
        post_bind: Sequence[Plugin],
        meter: Meter,
    ) -> None:
        self._meter: Final = meter
        self._reserve: Final = reserve
        self._permit: Final = permit
        self._pre_bind: Final = pre_bind
        self._bind: Final = bind
        self._post_bind: Final = post_bind

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Run Reserve; the caller undoes all of it if a status comes back."""
        with self._meter.point("Reserve") as timing:
            timing.status = self._run_reserve(state, pod, node_name)
            return timing.status

    def _run_reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        for plugin in self._reserve:
            reserve = getattr(plugin, "reserve", None)
            if reserve is None:
                continue
            with self._meter.plugin(state, plugin.name, "Reserve") as timing:
                status = timing.status = _run(reserve, state, pod, node_name)
            if status is not None:
                return _verdict(status, plugin, f'running Reserve plugin "{plugin.name}": ')
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undo Reserve, last plugin first; a plugin that fails does not stop the others."""
        with self._meter.point("Unreserve"):
            for plugin in reversed(self._reserve):
                if not hasattr(plugin, "unreserve"):
                    continue
                try:
                    with self._meter.plugin(state, plugin.name, "Unreserve"):
                        cast("ReservePlugin", plugin).unreserve(state, pod, node_name)
                except Exception:
                    _log.exception("Unreserve of plugin %s failed for pod %s", plugin.name, pod.key)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitOutcome:
        """Run Permit: the first rejection ends it, a wish to wait does not."""
        with self._meter.point("Permit") as timing:
            outcome = self._run_permit(state, pod, node_name)
            timing.status = Status(Code.WAIT) if outcome.wait_seconds else outcome.status
            return outcome

    def _run_permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitOutcome:
        wait_seconds: dict[str, float] = {}
        for plugin in self._permit:
            with self._meter.plugin(state, plugin.name, "Permit") as timing:
                status = _run(cast("PermitPlugin", plugin).permit, state, pod, node_name)
                timing.status = status
            if status is None:
                continue
            if not status.is_wait:
                failed = f'running Permit plugin "{plugin.name}": '
                return PermitOutcome(_verdict(status, plugin, failed).with_plugin(plugin.name), {})
            wait_seconds[plugin.name] = min(status.timeout_seconds, _PERMIT_TIMEOUT_MAX_SECONDS)
        return PermitOutcome(None, wait_seconds)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreFlight:
        """Ask who will have work to do before the bind; status Skip means nobody."""
        with self._meter.point("PreBindPreFlight") as timing:
            pre_flight = self._run_pre_flight(state, pod, node_name)
            timing.status = pre_flight.status
            return pre_flight

    def _run_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreFlight:
        groups: list[list[Plugin]] = []
        may_join = False
        for plugin in self._pre_bind:
            with self._meter.plugin(state, plugin.name, "PreBindPreFlight") as timing:
                answer = _pre_flight_answer(plugin, state, pod, node_name)
                timing.status = answer if isinstance(answer, Status) else _skip_of(answer)
            if isinstance(answer, Status):
                return PreFlight(answer, ())
            if not answer.skip:
                if answer.allow_parallel and may_join:
                    groups[-1].append(plugin)
                else:
                    groups.append([plugin])
                may_join = answer.allow_parallel
            elif not answer.allow_parallel:
                # Though left out, it keeps its neighbours apart.
                may_join = False
        return PreFlight(None if groups else skip(), groups)

    async def pre_bind(
        self, pre_flight: PreFlight, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | None:
        """Run PreBind group by group; the first failure cancels the rest of its group."""
        with self._meter.waiting_point("PreBind") as timing:
            timing.status = await self._run_pre_bind(pre_flight, state, pod, node_name)
            return timing.status

    async def _run_pre_bind(
        self, pre_flight: PreFlight, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | None:
        for group in pre_flight.groups:
            runs = [self._pre_bind_one(plugin, state, pod, node_name) for plugin in group]
            status = await (runs[0] if len(runs) == 1 else _first_failure(runs))
            if status is not None:
                return status
        return None

    async def _pre_bind_one(
        self, plugin: Plugin, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | None:
        run = cast("PreBindPlugin", plugin).pre_bind
        with self._meter.plugin(state, plugin.name, "PreBind") as timing:
            try:
                status = await _run_async(run, state, pod, node_name)
            except asyncio.CancelledError as canceled:
                status = error(_reason_of(canceled))
            timing.status = status
        failed = f'running PreBind plugin "{plugin.name}": '
        return None if status is None else _verdict(status, plugin, failed)

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Run Bind plugins until one does not answer Skip."""
        with self._meter.waiting_point("Bind") as timing:
            timing.status = await self._run_bind(state, pod, node_name)
            return timing.status

    async def _run_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        status: Status | None = skip()
        for plugin in self._bind:
            with self._meter.plugin(state, plugin.name, "Bind") as timing:
                status = await _run_async(cast("BindPlugin", plugin).bind, state, pod, node_name)
                timing.status = status
            if status is None or not status.is_skip:
                break
        if status is None or status.is_skip:
            return status
        return _verdict(status, plugin, f'running Bind plugin "{plugin.name}": ')

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Run PostBind; it informs, so failures are logged and nothing else."""
        with self._meter.waiting_point("PostBind"):
            for plugin in self._post_bind:
                try:
                    with self._meter.plugin(state, plugin.name, "PostBind"):
                        await cast("PostBindPlugin", plugin).post_bind(state, pod, node_name)
                except Exception:
                    _log.exception("PostBind of plugin %s failed for pod %s", plugin.name, pod.key)


async def _first_failure(runs: Sequence[Awaitable[Status | None]]) -> Status | None:
    """Run all at once; the first one to fail cancels the others, and its status is the answer."""
    tasks = [asyncio.ensure_future(run) for run in runs]
    try:
        for finished in asyncio.as_completed(tasks):
            if (status := await finished) is not None:
                return status
    except asyncio.CancelledError as canceled:
        for task in tasks:
            task.cancel(_reason_of(canceled))
        statuses = await asyncio.gather(*tasks)
        return next((status for status in statuses if status is not None), None)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return None


def _reason_of(canceled: asyncio.CancelledError) -> _CalledBack:
    """Why the pod was canceled; a cancellation for any other reason goes on."""
    for reason in canceled.args:
        if isinstance(reason, _CalledBack):
            return reason
    raise canceled


def _run(
    method: Callable[[CycleState, PodInfo, str], object],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
) -> Status | None:
    """What a plugin answers, success as None, an exception as an error."""
    try:
        return as_verdict(method(state, pod, node_name))
    except Exception as failure:
        return error(failure)


async def _run_async(
    method: Callable[[CycleState, PodInfo, str], Awaitable[object]],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
) -> Status | None:
    try:
        return as_verdict(await method(state, pod, node_name))
    except Exception as failure:
        return error(failure)


def _verdict(status: Status, plugin: Plugin, failed: str) -> Status:
    """A rejection in the plugin's name; anything else is an error behind upstream's words."""
    if status.is_rejected:
        return status.with_plugin(plugin.name)
    return Status(Code.ERROR, f"{failed}{status.message}", cause=status.cause)


def _skip_of(answer: PreBindPreFlightResult) -> Status | None:
    return skip() if answer.skip else None


def _pre_flight_answer(
    plugin: Plugin, state: CycleState, pod: PodInfo, node_name: str
) -> PreBindPreFlightResult | Status:
    """What a plugin says beforehand; a status comes back only for a failure."""
    if not hasattr(plugin, "pre_bind_pre_flight"):
        return PreBindPreFlightResult()
    pre_flight = cast("PreBindPreFlightPlugin", plugin).pre_bind_pre_flight
    try:
        given = pre_flight(state, pod, node_name)
        if isinstance(given, PreBindPreFlightResult):
            return given
        answer = as_verdict(given)
    except Exception as failure:
        answer = error(failure)
    if answer is None:
        return PreBindPreFlightResult()
    if answer.is_skip:
        return PreBindPreFlightResult(skip=True)
    if answer.code == Code.ERROR:
        text = f'running PreBindPreFlight "{plugin.name}": {answer.message}'
    else:
        text = (
            f'PreBindPreFlight {plugin.name} returned "{answer.code}", which is unsupported. '
            "It is supposed to return Success, Skip, or Error status"
        )
    return Status(Code.ERROR, text, cause=answer.cause)
