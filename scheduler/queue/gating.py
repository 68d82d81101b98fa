"""PreEnqueue: whether a pod may enter the queue at all.

A pod that a plugin turns down is *gated*: it waits among the unschedulable pods, the plugin counts
as its rejector and is remembered as its gating plugin, and only events that this plugin has
registered for are looked at on its behalf. Before the pod moves again all plugins are asked again,
the gating one first, since it is the likeliest to say no.
Source: `runPreEnqueuePlugins`, `runPreEnqueuePlugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from scheduler.framework import status as statuses
from scheduler.framework.status import Code
from scheduler.metrics import Sampler

if TYPE_CHECKING:
    import logging
    from collections import Counter
    from collections.abc import Mapping, Sequence

    from scheduler.framework.events import ClusterEvent
    from scheduler.framework.status import Status
    from scheduler.metrics import SchedulerMetrics
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.snapshot.pod_info import PodInfo


_PRE_ENQUEUE: Final = "PreEnqueue"
_SUCCESS: Final = str(Code.SUCCESS)


class NamedPreEnqueuePlugin(Protocol):
    """A plugin that takes part in PreEnqueue."""

    @property
    def name(self) -> str:
        """The plugin's name."""
        ...

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """See `scheduler.framework.interface.PreEnqueuePlugin`."""
        ...


class Gate:
    """Runs the PreEnqueue plugins of all profiles.

    `unschedulable_reasons` counts the waiting pods by rejector plugin and profile; a pod's first
    rejection by a plugin is added to it here.
    """

    def __init__(
        self,
        plugins: Mapping[str, Sequence[NamedPreEnqueuePlugin]],
        events_of: Mapping[str, Sequence[ClusterEvent]],
        unschedulable_reasons: Counter[tuple[str, str]],
        metrics: SchedulerMetrics,
        log: logging.Logger,
    ) -> None:
        self._metrics: Final = metrics
        self._sampler: Final = Sampler()
        self._plugins: Final = plugins
        self._events_of: Final = events_of
        self._unschedulable_reasons: Final = unschedulable_reasons
        self._log: Final = log

    def run_pre_enqueue_plugins(self, pod: QueuedPodInfo) -> None:
        """Ask until one says no; the answer is in the pod's `gating_plugin` afterwards.

        The plugin stays among the pod's rejectors when it lets it pass later: a verdict stands
        until the next attempt.
        """
        metrics, profile = self._metrics, pod.pod_info.spec.scheduler_name
        started = metrics.stopwatch()
        self._ask_all(pod, self._plugins.get(profile, ()))
        duration_seconds = metrics.stopwatch() - started
        # As upstream, whatever the plugins have said.
        labels = (_PRE_ENQUEUE, _SUCCESS, profile)
        metrics.framework_extension_point_duration.observe(duration_seconds, *labels)

    def _ask_all(self, pod: QueuedPodInfo, plugins: Sequence[NamedPreEnqueuePlugin]) -> None:
        ask = self._measured if self._sampler.picks() else _ask
        if (gating := pod.gating_plugin) and len(plugins) > 1:
            plugins = sorted(plugins, key=lambda plugin: plugin.name != gating)
        for plugin in plugins:
            if not self._passes(plugin, pod, ask(plugin, pod)):
                return
        pod.gating_plugin = ""

    def _measured(self, plugin: NamedPreEnqueuePlugin, pod: QueuedPodInfo) -> Status | None:
        metrics = self._metrics
        started = metrics.stopwatch()
        status = _ask(plugin, pod)
        duration_seconds = metrics.stopwatch() - started
        word = _SUCCESS if status is None else str(status.code)
        labels = (plugin.name, _PRE_ENQUEUE, word)
        metrics.plugin_execution_duration.observe(duration_seconds, *labels)
        return status

    def _passes(
        self, plugin: NamedPreEnqueuePlugin, pod: QueuedPodInfo, status: Status | None
    ) -> bool:
        if status is None or status.is_success:
            return True
        name = plugin.name
        if name not in pod.unschedulable_plugins and name not in pod.pending_plugins:
            self._unschedulable_reasons[name, pod.pod_info.spec.scheduler_name] += 1
        pod.unschedulable_plugins.add(name)
        pod.gating_plugin = name
        pod.gating_plugin_events = self._events_of.get(name, ())
        if status.code == Code.ERROR:
            self._log.error(
                "Unexpected error running PreEnqueue plugin: pod=%s plugin=%s err=%s",
                pod.key, name, status.message, exc_info=status.cause,
            )  # fmt: skip
        return False


def _ask(plugin: NamedPreEnqueuePlugin, pod: QueuedPodInfo) -> Status | None:
    try:
        return plugin.pre_enqueue(pod.pod_info)
    except Exception as failure:
        return statuses.error(failure)
