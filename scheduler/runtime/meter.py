"""Measures a profile's extension points and plugins, under upstream's names.

    with meter.point("PreFilter") as timing:
        timing.status = ...          # what came of it, unless that is success

An exception counts as an error. Plugins are measured in some cycles only (`CycleState`).
Source: `RunXPlugins` and `runXPlugin` in `pkg/scheduler/framework/runtime/framework.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from scheduler.metrics import Histogram, HistogramVec, SchedulerMetrics, Stopwatch

Labels: TypeAlias = "tuple[str, str, str]"

_WORDS: Final = {code: str(code) for code in Code}


class _Recording(Protocol):
    """What of a cycle's state decides whether plugins are measured."""

    @property
    def records_plugin_metrics(self) -> bool: ...


class Timing:
    """One measured call. `status` is what came of it; None is success."""

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
    """A call that nobody measures."""

    __slots__ = ()

    def __enter__(self) -> Timing:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.status = None


class Meter:
    """Measures in the name of one profile."""

    def __init__(self, metrics: SchedulerMetrics, profile_name: str) -> None:
        self._metrics: Final = metrics
        self._profile: Final = profile_name
        self._points: Final[dict[str, Timing]] = {}
        self._unmeasured: Final = _NoTiming(
            metrics.stopwatch, metrics.plugin_execution_duration, lambda code: ("", "", "")
        )

    def point(self, name: str) -> Timing:
        """Measure all plugins of an extension point together.

        There is one measure for each point, so nobody may wait while it runs.
        """
        timing = self._points.get(name)
        if timing is None:
            timing = self._points[name] = self.waiting_point(name)
        return timing

    def waiting_point(self, name: str) -> Timing:
        """Likewise, where the plugins may wait, and others may run meanwhile."""
        return Timing(
            self._metrics.stopwatch,
            self._metrics.framework_extension_point_duration,
            lambda code: (name, code, self._profile),
        )

    def plugin(self, state: _Recording, plugin: str, point: str) -> Timing:
        """Measure one plugin, if this is a cycle in which they are."""
        if not state.records_plugin_metrics:
            return self._unmeasured
        return Timing(
            self._metrics.stopwatch,
            self._metrics.plugin_execution_duration,
            lambda code: (plugin, point, code),
        )

    def evaluations(self, plugin: str, point: str) -> list[int]:
        """The count of a plugin's evaluations at a point: one for each node in Filter and Score."""
        return self._metrics.plugin_evaluations.cell(plugin, point, self._profile)
