"""The binding plugins of a profile: Reserve, Permit, PreBind, Bind, PostBind, in their order.

Source: `pkg/scheduler/framework/runtime/framework.go`.
"""

from __future__ import annotations

import asyncio
import logging
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from scheduler.framework.status import Code, Status, as_verdict, error, skip
from scheduler.framework.types import PreBindPreFlightResult
from scheduler.runtime.meter import measured
from scheduler.runtime.pods_in_pre_bind import PodCanceled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

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

#: The upper bound of the timeouts that Permit plugins return.
_PERMIT_TIMEOUT_MAX_SECONDS: Final = 15 * 60.0


class PermitOutcome(NamedTuple):
    """The result of Permit: a rejection, or the plugins that hold the pod with their timeouts."""

    status: Status | None
    wait_seconds: Mapping[str, float]


class PreFlight(NamedTuple):
    """The PreBind plugins that have work to do, in groups that may run at the same time."""

    status: Status | None
    groups: Sequence[Sequence[Plugin]]


def _permit_status(outcome: PermitOutcome) -> Status | None:
    return Status(Code.WAIT) if outcome.wait_seconds else outcome.status


class BindingPlugins:
    """Runs the plugins of a profile from Reserve to PostBind."""

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
        self.meter: Final = meter
        self._reserve: Final = reserve
        self._permit: Final = permit
        self._pre_bind: Final = pre_bind
        self._bind: Final = bind
        self._post_bind: Final = post_bind

    @measured("Reserve")
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Run Reserve. If it returns a status the caller must call `unreserve`."""
        for plugin in self._reserve:
            reserve = getattr(plugin, "reserve", None)
            if reserve is None:
                continue
            with self.meter.plugin(state, plugin.name, "Reserve") as timing:
                status = timing.status = _run(reserve, state, pod, node_name)
            if status is not None:
                return _failure(status, plugin, f'running Reserve plugin "{plugin.name}": ')
        return None

    @measured("Unreserve")
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undo Reserve, last plugin first; a plugin that fails does not stop the others."""
        for plugin in reversed(self._reserve):
            if not hasattr(plugin, "unreserve"):
                continue
            try:
                with self.meter.plugin(state, plugin.name, "Unreserve"):
                    cast("ReservePlugin", plugin).unreserve(state, pod, node_name)
            except Exception:
                _log.exception("Unreserve of plugin %s failed for pod %s", plugin.name, pod.key)

    @measured("Permit", status=_permit_status)
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitOutcome:
        """Run Permit. The first rejection ends it; after a Wait the next plugin is called."""
        wait_seconds: dict[str, float] = {}
        for plugin in self._permit:
            with self.meter.plugin(state, plugin.name, "Permit") as timing:
                status = _run(cast("PermitPlugin", plugin).permit, state, pod, node_name)
                timing.status = status
            if status is None:
                continue
            if not status.is_wait:
                failed = f'running Permit plugin "{plugin.name}": '
                return PermitOutcome(_failure(status, plugin, failed).with_plugin(plugin.name), {})
            wait_seconds[plugin.name] = min(status.timeout_seconds, _PERMIT_TIMEOUT_MAX_SECONDS)
        return PermitOutcome(None, wait_seconds)

    @measured("PreBindPreFlight", status=attrgetter("status"))
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreFlight:
        """Return the PreBind plugins that have work to do; with status Skip if there are none."""
        groups: list[list[Plugin]] = []
        may_join = False
        for plugin in self._pre_bind:
            with self.meter.plugin(state, plugin.name, "PreBindPreFlight") as timing:
                answer = _pre_flight_answer(plugin, state, pod, node_name)
                if isinstance(answer, Status):
                    timing.status = answer
                elif answer.skip:
                    timing.status = skip()
            if isinstance(answer, Status):
                return PreFlight(answer, ())
            if not answer.skip:
                if answer.allow_parallel and may_join:
                    groups[-1].append(plugin)
                else:
                    groups.append([plugin])
                may_join = answer.allow_parallel
            elif not answer.allow_parallel:
                # A skipped plugin still keeps its neighbours apart.
                may_join = False
        return PreFlight(None if groups else skip(), groups)

    @measured("PreBind")
    async def pre_bind(
        self, pre_flight: PreFlight, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | None:
        """Run PreBind group by group; the first failure cancels the rest of its group."""
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
        with self.meter.plugin(state, plugin.name, "PreBind") as timing:
            try:
                status = await _run_async(run, state, pod, node_name)
            except asyncio.CancelledError as canceled:
                status = error(PodCanceled.from_cancellation(canceled))
            timing.status = status
        failed = f'running PreBind plugin "{plugin.name}": '
        return None if status is None else _failure(status, plugin, failed)

    @measured("Bind")
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Run Bind plugins until one returns another status than Skip."""
        status: Status | None = skip()
        for plugin in self._bind:
            with self.meter.plugin(state, plugin.name, "Bind") as timing:
                status = await _run_async(cast("BindPlugin", plugin).bind, state, pod, node_name)
                timing.status = status
            if status is None or not status.is_skip:
                break
        if status is None or status.is_skip:
            return status
        return _failure(status, plugin, f'running Bind plugin "{plugin.name}": ')

    @measured("PostBind")
    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Run PostBind; failures are logged and change nothing."""
        for plugin in self._post_bind:
            try:
                with self.meter.plugin(state, plugin.name, "PostBind"):
                    await cast("PostBindPlugin", plugin).post_bind(state, pod, node_name)
            except Exception:
                _log.exception("PostBind of plugin %s failed for pod %s", plugin.name, pod.key)


async def _first_failure(runs: Sequence[Awaitable[Status | None]]) -> Status | None:
    """Run all at once. The first to fail cancels the others, and its status is returned."""
    tasks = [asyncio.ensure_future(run) for run in runs]
    try:
        for finished in asyncio.as_completed(tasks):
            if (status := await finished) is not None:
                return status
    except asyncio.CancelledError as canceled:
        for task in tasks:
            task.cancel(PodCanceled.from_cancellation(canceled))
        statuses = await asyncio.gather(*tasks)
        return next((status for status in statuses if status is not None), None)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return None


def _run(
    method: Callable[[CycleState, PodInfo, str], object],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
) -> Status | None:
    """Return the plugin's status: None for success, an Error status for an exception."""
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


def _failure(status: Status, plugin: Plugin, failed: str) -> Status:
    """Return a rejection under the plugin's name, and any other status as an Error status."""
    if status.is_rejected:
        return status.with_plugin(plugin.name)
    return Status(Code.ERROR, f"{failed}{status.message}", cause=status.cause)


def _pre_flight_answer(
    plugin: Plugin, state: CycleState, pod: PodInfo, node_name: str
) -> PreBindPreFlightResult | Status:
    """Call a plugin's PreBindPreFlight; a status is returned for a failure only."""
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
