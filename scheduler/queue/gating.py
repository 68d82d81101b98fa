"""PreEnqueue: decides if a pod may become active or back off.

A pod that a plugin rejects is *gated*: it waits among the unschedulable pods, and the plugin counts
as one of its rejectors and is its gating plugin. Of all events, only those that the gating plugin
has registered for can move the pod. Before it moves, all plugins run again, the gating plugin
first, as it is the likeliest to reject the pod.
Source: `runPreEnqueuePlugins`, `runPreEnqueuePlugin`.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Final, Protocol

from scheduler.framework import status as statuses
from scheduler.framework.failures import PluginFailure, SeenFailures
from scheduler.framework.status import Code
from scheduler.metrics import Sampler

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Hashable, Mapping, Sequence

    from scheduler.framework.events import ClusterEvent
    from scheduler.framework.status import Status
    from scheduler.metrics import SchedulerMetrics
    from scheduler.metrics.instruments import Histogram
    from scheduler.queue.queued_pod_info import CountedReasons, QueuedPodInfo
    from scheduler.snapshot.pod_info import PodInfo

_log: Final = logging.getLogger(__name__)

_PRE_ENQUEUE: Final = "PreEnqueue"
_SUCCESS: Final = str(Code.SUCCESS)


class NamedPreEnqueuePlugin(Protocol):
    """A `PreEnqueuePlugin` with the name that all plugins have."""

    @property
    def name(self) -> str: ...

    def pre_enqueue(self, pod: PodInfo) -> Status | None: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Runs the PreEnqueue plugins of all profiles. `plugins` are by profile."""

    plugins: Mapping[str, Sequence[NamedPreEnqueuePlugin]]
    #: The events that each plugin has registered for, by plugin name.
    events_of: Mapping[str, Sequence[ClusterEvent]]
    #: The number of waiting pods by rejector plugin and profile. A first rejection adds one.
    unschedulable_reasons: Counter[tuple[str, str]]
    counted_reasons: CountedReasons
    metrics: SchedulerMetrics
    #: The durations of all plugins together, by profile.
    _durations: dict[str, Histogram] = dataclasses.field(default_factory=dict, init=False)
    _sampler: Sampler = dataclasses.field(default_factory=Sampler, init=False)
    _seen_failures: SeenFailures = dataclasses.field(default_factory=SeenFailures, init=False)

    def run_pre_enqueue_plugins(self, pod: QueuedPodInfo) -> PluginFailure | None:
        """Run the plugins up to the first rejection, and set the pod's gating plugin or clear it.

        Returns the exception of a plugin that failed, which counts as a rejection.
        A plugin that passes the pod later stays one of its rejectors until the next attempt.
        """
        profile = pod.pod_info.spec.scheduler_name
        stopwatch = self.metrics.stopwatch
        started = stopwatch()
        failure = self._run(pod, self.plugins.get(profile, ()))
        ended = stopwatch()
        # As upstream, the label is Success even if a plugin has rejected the pod.
        histogram = self._durations.get(profile)
        if histogram is None:
            durations = self.metrics.framework_extension_point_duration
            histogram = self._durations[profile] = durations.of(_PRE_ENQUEUE, _SUCCESS, profile)
        histogram.observe(ended - started)
        return failure

    def gating_key(self, pod: QueuedPodInfo) -> Hashable | None:
        """Return a key: gated pods with equal keys are rejected alike. None if there is no key.

        See `SharedPreEnqueuePlugin`.
        """
        gating = pod.gating_plugin
        if not gating:
            return None
        profile = pod.pod_info.spec.scheduler_name
        for plugin in self.plugins.get(profile, ()):
            if plugin.name == gating and hasattr(plugin, "pre_enqueue_depends_on"):
                return profile, gating, plugin.pre_enqueue_depends_on(pod.pod_info)
        return None

    def rejects_all(self, pods: Mapping[str, QueuedPodInfo], results: dict[Hashable, bool]) -> bool:
        """True for gated pods with one gating key if the plugins still reject the first of them.

        So a pod that joins a gang costs the same however many members wait for the others: with a
        thousand of them the arrival of the gang took longer than its scheduling cycle.
        `results` holds the results for other pods after the same event, and gets this one.
        """
        first = next(iter(pods.values()))
        gating_key = self.gating_key(first)
        if gating_key is None or self.counted_reasons.each_rejection:
            return False
        if gating_key not in results:
            failure = self.run_pre_enqueue_plugins(first)
            results[gating_key] = failure is None and self.gating_key(first) == gating_key
        return results[gating_key]

    def _run(
        self, pod: QueuedPodInfo, plugins: Sequence[NamedPreEnqueuePlugin]
    ) -> PluginFailure | None:
        is_sampled = self._sampler.picks()
        if (gating := pod.gating_plugin) and len(plugins) > 1:
            plugins = sorted(plugins, key=lambda plugin: plugin.name != gating)
        stopwatch = self.metrics.stopwatch
        for plugin in plugins:
            started = stopwatch() if is_sampled else 0.0
            try:
                status = plugin.pre_enqueue(pod.pod_info)
            except Exception as failure:  # noqa: BLE001 - code of a plugin
                status = statuses.error(failure)
            if is_sampled:
                code = _SUCCESS if status is None else str(status.code)
                self.metrics.plugin_execution_duration.observe(
                    stopwatch() - started, plugin.name, _PRE_ENQUEUE, code
                )
            if status is not None and not status.is_success:
                return self._reject(plugin.name, pod, status)
        pod.gating_plugin = ""
        return None

    def _reject(self, plugin: str, pod: QueuedPodInfo, status: Status) -> PluginFailure | None:
        if self.counted_reasons.each_rejection or plugin not in pod.rejector_plugins:
            self.unschedulable_reasons[plugin, pod.pod_info.spec.scheduler_name] += 1
        pod.unschedulable_plugins.add(plugin)
        pod.gating_plugin = plugin
        pod.gating_plugin_events = self.events_of.get(plugin, ())
        if status.code != Code.ERROR:
            return None
        cause = status.cause
        is_new = cause is not None and self._seen_failures.is_new(plugin, cause)
        _log.error(
            "Unexpected error running PreEnqueue plugin: pod=%s plugin=%s err=%s",
            pod.key, plugin, status.message, exc_info=cause if is_new else None,
        )  # fmt: skip
        if cause is None:
            return None
        return PluginFailure.from_exception(cause, plugin=plugin, point=_PRE_ENQUEUE)
