"""Measure the extension points and the plugins of a profile, under upstream's metric names.

    @measured("Reserve")                                 # the whole extension point
    def reserve(self, state, pod, node_name): ...

    with self.meter.plugin(state, name, "Reserve") as timing:      # one plugin
        timing.status = ...                              # its status, unless it is success

An exception counts as an error. Plugins are measured only in the cycles that a sampler has picked
(`CycleState.records_plugin_metrics`), because measuring costs more than many a plugin's call.
Source: `RunXPlugins` and `runXPlugin` in `pkg/scheduler/framework/runtime/framework.go`.
"""

from __future__ import annotations

import functools
import inspect
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
)

from scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from scheduler.metrics import Histogram, HistogramVec, SchedulerMetrics, Stopwatch

Labels: TypeAlias = "tuple[str, str, str]"

_WORDS: Final[Mapping[Code, str]] = {code: str(code) for code in Code}


def _status_of(result: object) -> Status | None:
    return result if isinstance(result, Status) else None


P = ParamSpec("P")
R = TypeVar("R")


class _Recording(Protocol):
    @property
    def records_plugin_metrics(self) -> bool: ...


class _Metered(Protocol):
    @property
    def meter(self) -> Meter: ...


M = TypeVar("M", bound=_Metered)


class Timing:
    """One measured call. `status` is its result; None is success."""

    __slots__ = ("_by_code", "_histograms", "_labels", "_started", "_stopwatch", "status")

    def __init__(
        self, stopwatch: Stopwatch, histograms: HistogramVec, labels: Callable[[str], Labels]
    ) -> None:
        self._stopwatch: Final = stopwatch
        self._histograms: Final = histograms
        self._labels: Final = labels
        self._by_code: Final[dict[Code, Histogram]] = {}
        self.status: Status | None = None

    def __enter__(self) -> Timing:
        self.status = None
        self._started = self._stopwatch()
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        duration_seconds = self._stopwatch() - self._started
        if kind is not None:
            code = Code.ERROR
        else:
            code = Code.SUCCESS if self.status is None else self.status.code
        histogram = self._by_code.get(code)
        if histogram is None:
            histogram = self._histograms.of(*self._labels(_WORDS[code]))
            self._by_code[code] = histogram
        histogram.observe(duration_seconds)


class _NoTiming(Timing):
    """A call in a cycle that is not measured."""

    __slots__ = ()

    def __enter__(self) -> Timing:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.status = None


def measured(
    point: str, *, status: Callable[[Any], Status | None] = _status_of
) -> Callable[[Callable[Concatenate[M, P], R]], Callable[Concatenate[M, P], R]]:
    """Measure a method that runs all plugins of an extension point, plain or `async`.

    `status` extracts the status of the method's result; without it the result is the status.
    """

    def decorate(run: Callable[Concatenate[M, P], R]) -> Callable[Concatenate[M, P], R]:
        if inspect.iscoroutinefunction(run):
            waits = cast("Callable[Concatenate[M, P], Awaitable[object]]", run)

            async def measured_wait(self: M, /, *args: P.args, **kwargs: P.kwargs) -> object:
                with self.meter.waiting_point(point) as timing:
                    result = await waits(self, *args, **kwargs)
                    timing.status = status(result)
                    return result

            measured_run = cast("Callable[Concatenate[M, P], R]", measured_wait)
        else:

            def measured_run(self: M, /, *args: P.args, **kwargs: P.kwargs) -> R:
                with self.meter.point(point) as timing:
                    result = run(self, *args, **kwargs)
                    timing.status = status(result)
                    return result

        functools.update_wrapper(measured_run, run)
        return measured_run

    return decorate


class Meter:
    """The measurements of one profile."""

    def __init__(self, metrics: SchedulerMetrics, profile_name: str) -> None:
        self._metrics: Final = metrics
        self._profile: Final = profile_name
        self._points: Final[dict[str, Timing]] = {}
        self._unmeasured: Final = _NoTiming(
            metrics.stopwatch, metrics.plugin_execution_duration, lambda code: ("", "", "")
        )

    def point(self, name: str) -> Timing:
        """Measure all plugins of an extension point together, where none of them waits.

        Each point has one `Timing`, so calls of the same point must not overlap.
        """
        timing = self._points.get(name)
        if timing is None:
            timing = self._points[name] = self.waiting_point(name)
        return timing

    def waiting_point(self, name: str) -> Timing:
        """Measure all plugins of an extension point together, where calls may overlap."""
        return Timing(
            self._metrics.stopwatch,
            self._metrics.framework_extension_point_duration,
            lambda code: (name, code, self._profile),
        )

    def plugin(self, state: _Recording, plugin: str, point: str) -> Timing:
        """Measure one call of a plugin, if the plugins of this cycle are measured."""
        return self._plugin(plugin, point) if state.records_plugin_metrics else self._unmeasured

    def timed(
        self,
        run: Callable[P, R],
        plugin: str,
        point: str,
        status: Callable[[R], Status | None] = _status_of,
    ) -> Callable[P, R]:
        """Return `run` with each call measured as a call of the plugin.

        For the points with many plugins: the runner keeps both forms of each call, so that an
        unmeasured cycle pays nothing. `status` extracts the status of a result.
        """

        def timed_run(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._plugin(plugin, point) as timing:
                result = run(*args, **kwargs)
                timing.status = status(result)
                return result

        return timed_run

    def _plugin(self, plugin: str, point: str) -> Timing:
        return Timing(
            self._metrics.stopwatch,
            self._metrics.plugin_execution_duration,
            lambda code: (plugin, point, code),
        )

    def evaluations(self, plugin: str, point: str) -> list[int]:
        """Return the cell that counts a plugin's evaluations at a point.

        Filter and Score count one evaluation per node.
        """
        return self._metrics.plugin_evaluations.cell(plugin, point, self._profile)
