"""The binding plugins of a profile: Reserve, Permit, PreBind, Bind, PostBind, in their order.

Source: `pkg/scheduler/framework/runtime/framework.go`.
"""

from __future__ import annotations

import asyncio
import logging
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.framework.failures import PluginFailedError
from scheduler.framework.status import Code, Status, as_verdict, error, skip
from scheduler.framework.types import PreBindPreFlightResult
from scheduler.runtime.meter import measured
from scheduler.runtime.pods_in_pre_bind import PodCanceled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.interface import Plugin
    from scheduler.runtime.meter import Meter
    from scheduler.snapshot.pod_info import PodInfo

_log: Final = logging.getLogger(__name__)

#: The upper bound of the timeouts that Permit plugins return.
_PERMIT_TIMEOUT_MAX_SECONDS: Final = 15 * 60.0


#: The reason after those of the last plugin that holds a pod.
_ASKED_TO_WAIT: Final = "one or more plugins asked to wait and no plugin rejected pod"


class PermitOutcome(NamedTuple):
    """The result of Permit: a rejection, or the plugins that hold the pod with their timeouts.

    `waiting` is the status of a pod that is held, with the reasons of the last such plugin.
    """

    status: Status | None
    wait_seconds: Mapping[str, float]
    waiting: Status | None = None


class PreFlight(NamedTuple):
    """The PreBind plugins that have work to do, in groups that may run at the same time."""

    status: Status | None
    groups: Sequence[Sequence[Plugin]]


class BindingPlugins:
    """Runs the plugins of a profile, which are by extension point, from Reserve to PostBind.

    With `joins_pre_binds` PreBind plugins that allow it run at the same time, as since 1.36.
    """

    def __init__(
        self, plugins: Mapping[str, Sequence[Plugin]], meter: Meter, *, joins_pre_binds: bool
    ) -> None:
        self.meter: Final = meter
        self._plugins: Final = plugins
        self._joins_pre_binds: Final = joins_pre_binds

    @measured("Reserve")
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Run Reserve. If it returns a status the caller must call `unreserve`."""
        for plugin in self._plugins["reserve"]:
            reserve = getattr(plugin, "reserve", None)
            if reserve is None:
                continue
            with self.meter.plugin(state, plugin.name, "Reserve") as timing:
                status = timing.status = _run(reserve, state, pod, node_name)
            if status is not None:
                return _failure(status, plugin, "Reserve", node_name)
        return None

    @measured("Unreserve")
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undo Reserve, last plugin first; a plugin that fails does not stop the others."""
        for plugin in reversed(self._plugins["reserve"]):
            if not hasattr(plugin, "unreserve"):
                continue
            try:
                with self.meter.plugin(state, plugin.name, "Unreserve"):
                    plugin.unreserve(state, pod, node_name)
            except Exception:  # noqa: BLE001 - code of a plugin
                _log.exception(
                    "Unreserve of plugin %s failed for pod %s on node %s",
                    plugin.name,
                    pod.key,
                    node_name,
                )

    @measured("Permit", status=lambda outcome: outcome.waiting or outcome.status)
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitOutcome:
        """Run Permit. The first rejection ends it; after a Wait the next plugin is called."""
        wait_seconds: dict[str, float] = {}
        waiting: Status | None = None
        for plugin in self._plugins["permit"]:
            with self.meter.plugin(state, plugin.name, "Permit") as timing:
                status = _run(plugin.permit, state, pod, node_name)
                timing.status = status
            if status is None:
                continue
            if not status.is_wait:
                failure = _failure(status, plugin, "Permit", node_name)
                return PermitOutcome(failure.with_plugin(plugin.name), {})
            wait_seconds[plugin.name] = min(status.timeout_seconds, _PERMIT_TIMEOUT_MAX_SECONDS)
            waiting = Status(Code.WAIT, *status.reasons, _ASKED_TO_WAIT)
        return PermitOutcome(None, wait_seconds, waiting)

    @measured("PreBindPreFlight", status=attrgetter("status"))
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreFlight:
        """Return the PreBind plugins that have work to do; with status Skip if there are none."""
        groups: list[list[Plugin]] = []
        may_join = False
        for plugin in self._plugins["pre_bind"]:
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
                may_join = answer.allow_parallel and self._joins_pre_binds
            elif not answer.allow_parallel:
                # A skipped plugin still keeps its neighbours apart.
                may_join = False
        return PreFlight(None if groups else skip(), groups)

    def all_pre_binds(self) -> PreFlight:
        """Return all PreBind plugins, to run one after another without PreBindPreFlight."""
        return PreFlight(None, [[plugin] for plugin in self._plugins["pre_bind"]])

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
        run = plugin.pre_bind
        with self.meter.plugin(state, plugin.name, "PreBind") as timing:
            try:
                status = await _run_async(run, state, pod, node_name)
            except asyncio.CancelledError as canceled:
                status = error(PodCanceled.from_cancellation(canceled))
            timing.status = status
        return None if status is None else _failure(status, plugin, "PreBind", node_name)

    @measured("Bind")
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Run Bind plugins until one returns another status than Skip."""
        status: Status | None = skip()
        for plugin in self._plugins["bind"]:
            with self.meter.plugin(state, plugin.name, "Bind") as timing:
                status = await _run_async(plugin.bind, state, pod, node_name)
                timing.status = status
            if status is None or not status.is_skip:
                break
        if status is None or status.is_skip:
            return status
        return _failure(status, plugin, "Bind", node_name)

    @measured("PostBind")
    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Run PostBind; failures are logged and change nothing."""
        for plugin in self._plugins["post_bind"]:
            try:
                with self.meter.plugin(state, plugin.name, "PostBind"):
                    await plugin.post_bind(state, pod, node_name)
            except Exception:  # noqa: BLE001 - code of a plugin
                _log.exception(
                    "PostBind of plugin %s failed for pod %s on node %s",
                    plugin.name,
                    pod.key,
                    node_name,
                )


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
    except Exception as failure:  # noqa: BLE001 - code of a plugin
        return error(_raised(failure))


async def _run_async(
    method: Callable[[CycleState, PodInfo, str], Awaitable[object]],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
) -> Status | None:
    try:
        return as_verdict(await method(state, pod, node_name))
    except Exception as failure:  # noqa: BLE001 - code of a plugin
        return error(_raised(failure))


def _raised(failure: Exception) -> PluginFailedError:
    """Return an exception of a plugin as the cause of a status, apart from statuses it returns."""
    error = PluginFailedError(str(failure))
    error.__cause__ = failure
    return error


def _failure(status: Status, plugin: Plugin, point: str, node_name: str) -> Status:
    """Return a rejection under the plugin's name, and any other status as an Error status."""
    if status.is_rejected:
        return status.with_plugin(plugin.name)
    text = f'running {point} plugin "{plugin.name}": {status.message}'
    return _error_status(text, plugin, point, node_name, status.cause)


def _error_status(
    text: str, plugin: Plugin, point: str, node_name: str, cause: BaseException | None
) -> Status:
    """Return an Error status. The cause of an exception names plugin, point and node."""
    if isinstance(cause, PluginFailedError):
        raised = cause.__cause__
        cause = PluginFailedError(text, plugin=plugin.name, point=point, node_name=node_name)
        cause.__cause__ = raised
    return Status(Code.ERROR, text, cause=cause)


def _pre_flight_answer(
    plugin: Plugin, state: CycleState, pod: PodInfo, node_name: str
) -> PreBindPreFlightResult | Status:
    """Call a plugin's PreBindPreFlight; a status is returned for a failure only."""
    if not hasattr(plugin, "pre_bind_pre_flight"):
        return PreBindPreFlightResult()
    pre_flight = plugin.pre_bind_pre_flight
    try:
        result = pre_flight(state, pod, node_name)
        if isinstance(result, PreBindPreFlightResult):
            return result
        answer = as_verdict(result)
    except Exception as failure:  # noqa: BLE001 - code of a plugin
        answer = error(_raised(failure))
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
    return _error_status(text, plugin, "PreBindPreFlight", node_name, answer.cause)
