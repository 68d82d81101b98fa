"""Measures a profile's extension points and plugins, under upstream's names.

    with meter.point("PreFilter") as timing:
        timing.status = ...          # what came of it, unless that is success

An exception counts as an error. Plugins are measured in some cycles only (`CycleState`).
Source: `RunXPlugins` and `runXPlugin` in `pkg/scheduler/framework/runtime/framework.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from types import TracebackType

    from scheduler.metrics import HistogramVec, SchedulerMetrics

__all__ = ["Meter", "Timing"]

_WORDS: Final = {code: str(code) for code in Code}


class _Recording(Protocol):
    """What of a cycle's state decides whether plugins are measured."""

    @property
    def records_plugin_metrics(self) -> bool: ...


class Timing:
    """One measured call. `status` is what came of it; None is success."""

    __slots__ = ("_histograms", "_labels", "_metrics", "_started", "status")

    def __init__(
        self, metrics: SchedulerMetrics, histograms: HistogramVec, labels: tuple[str, str]
    ) -> None:
        self._metrics: Final = metrics
        self._histograms: Final = histograms
        self._labels: Final = labels
        self.status: Status | None = None

    def __enter__(self) -> Timing:
        self._started = self._metrics.stopwatch()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        duration_seconds = self._metrics.stopwatch() - self._started
        code = Code.SUCCESS if self.status is None else self.status.code
        if kind is not None:
            code = Code.ERROR
        self._observe(duration_seconds, _WORDS[code])

    def _observe(self, duration_seconds: float, code: str) -> None:
        point, profile = self._labels
        self._histograms.observe(duration_seconds, point, code, profile)


class _PluginTiming(Timing):
    """Likewise, of one plugin: the labels are in another order."""

    __slots__ = ()

    def _observe(self, duration_seconds: float, code: str) -> None:
        plugin, point = self._labels
        self._histograms.observe(duration_seconds, plugin, point, code)


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
        #: How often plugins were asked: once for each node in Filter and Score.
        self.evaluations: Final = metrics.plugin_evaluations
        self._unmeasured: Final = _NoTiming(metrics, metrics.plugin_execution_duration, ("", ""))

    def point(self, name: str) -> Timing:
        """Measure all plugins of an extension point together."""
        points = self._metrics.framework_extension_point_duration
        return Timing(self._metrics, points, (name, self._profile))

    def plugin(self, state: _Recording, plugin: str, point: str) -> Timing:
        """Measure one plugin, if this is a cycle in which they are."""
        if not state.records_plugin_metrics:
            return self._unmeasured
        plugins = self._metrics.plugin_execution_duration
        return _PluginTiming(self._metrics, plugins, (plugin, point))

    def evaluation(self, plugin: str, point: str) -> tuple[str, str, str]:
        """The key in `evaluations` of a plugin at a point, for whoever counts many times."""
        key = (plugin, point, self._profile)
        self.evaluations[key] += 0
        return key
