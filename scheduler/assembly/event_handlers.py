"""From watch events to cache, queue and cluster events: one synchronous step for each change.

The only place where cache, queue and client meet. A pod with a node goes to the cache, a pod
without one that names one of our profiles to the queue; what changed is told to the queue as
cluster events, so that pods waiting for just that are tried again.
Source: `pkg/scheduler/eventhandlers.go`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from scheduler.cache import CacheCorruptedError, CacheError
from scheduler.framework.events import (
    EVENT_ASSIGNED_POD_ADD,
    EVENT_ASSIGNED_POD_DELETE,
    EVENT_ASSIGNED_POD_UPDATE,
    EVENT_UNSCHEDULED_POD_ADD,
    EVENT_UNSCHEDULED_POD_DELETE,
    EVENT_UNSCHEDULED_POD_UPDATE,
    ActionType,
    ClusterEvent,
    EventResource,
)
from scheduler.metrics import SchedulerMetrics
from scheduler.queue.property_changes import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from scheduler.snapshot.pod_info import PodInfo, priority_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scheduler.api.core import Node, Pod
    from scheduler.cache import Cache
    from scheduler.client import ApiObject
    from scheduler.clock import Clock
    from scheduler.queue import PriorityQueue
    from scheduler.runtime.waiting_pods import WaitingPods

_log: Final = logging.getLogger(__name__)

_NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
_NODE_DELETE: Final = ClusterEvent(EventResource.NODE, ActionType.DELETE)


class NodeEventHandler:
    """Nodes come, change and go."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: PriorityQueue,
        clock: Clock,
        metrics: SchedulerMetrics | None = None,
    ) -> None:
        self._metrics: Final = SchedulerMetrics() if metrics is None else metrics
        self._cache: Final = cache
        self._queue: Final = queue
        self._clock: Final = clock

    def on_add(self, node: Node, *, is_initial: bool) -> None:
        """A node there is now; `is_initial` says that it was there all along."""
        del is_initial
        started = self._metrics.stopwatch()
        self._cache.add_node(node)
        self._move(_NODE_ADD, None, node, started)

    def on_update(self, old: Node, new: Node) -> None:
        """A node that changed: every kind of change is an event of its own."""
        stopwatch = self._metrics.stopwatch
        started = stopwatch()
        self._cache.update_node(new)
        updating_seconds = stopwatch() - started
        for event in node_scheduling_properties_change(new, old):
            self._move(event, old, new, stopwatch() - updating_seconds)

    def on_delete(self, node: Node, *, final_state_unknown: bool) -> None:
        """A node that is gone; pods hear of it first, as long as it can still be looked at."""
        del final_state_unknown
        self._move(_NODE_DELETE, node, None, self._metrics.stopwatch())
        try:
            self._cache.remove_node(node)
        except CacheError as error:
            _log.error("Removing a node from the cache failed: %s", error)

    def _move(
        self, event: ClusterEvent, old: Node | None, new: Node | None, started: float
    ) -> None:
        self._queue.move_all_to_active_or_backoff_queue(event, old, new, self._clock.now())
        self._metrics.event_handled(event.label, started)


class ObjectEventHandler:
    """Objects of any other kind: what some plugin has registered for is an event, and no more.

    `resource` is the name that registrations and events give the kind (`buildEvtResHandler`).
    """

    def __init__(
        self,
        resource: str,
        actions: ActionType,
        *,
        queue: PriorityQueue,
        clock: Clock,
        metrics: SchedulerMetrics | None = None,
    ) -> None:
        self._metrics: Final = SchedulerMetrics() if metrics is None else metrics
        self._resource: Final = resource
        self._actions: Final = actions
        self._queue: Final = queue
        self._clock: Final = clock

    def on_add(self, obj: ApiObject, *, is_initial: bool) -> None:
        """An object there is now."""
        del is_initial
        self._move(ActionType.ADD, None, obj)

    def on_update(self, old: ApiObject, new: ApiObject) -> None:
        """An object that changed, however little."""
        self._move(ActionType.UPDATE, old, new)

    def on_delete(self, obj: ApiObject, *, final_state_unknown: bool) -> None:
        """An object that is gone."""
        del final_state_unknown
        self._move(ActionType.DELETE, obj, None)

    def _move(self, action: ActionType, old: ApiObject | None, new: ApiObject | None) -> None:
        if self._actions & action:
            event, started = ClusterEvent(self._resource, action), self._metrics.stopwatch()
            self._queue.move_all_to_active_or_backoff_queue(event, old, new, self._clock.now())
            self._metrics.event_handled(event.label, started)


class PodEventHandler:
    """Pods come, change and go. `scheduler_names` are the profiles we answer for.

    `on_corrupted` is told when a bound pod has moved: then no decision can be trusted.
    """

    def __init__(
        self,
        *,
        cache: Cache,
        queue: PriorityQueue,
        waiting_pods: WaitingPods,
        clock: Clock,
        scheduler_names: Collection[str],
        on_corrupted: Callable[[CacheCorruptedError], None],
        metrics: SchedulerMetrics | None = None,
    ) -> None:
        self._metrics: Final = SchedulerMetrics() if metrics is None else metrics
        self._cache: Final = cache
        self._queue: Final = queue
        self._waiting_pods: Final = waiting_pods
        self._clock: Final = clock
        self._scheduler_names: Final = scheduler_names
        self._on_corrupted: Final = on_corrupted

    def on_add(self, pod: Pod, *, is_initial: bool) -> None:
        """A pod there is now."""
        del is_initial
        if pod.spec.node_name:
            self._add_assigned(pod)
        elif self._is_ours(pod):
            started = self._metrics.stopwatch()
            self._queue.add(PodInfo(pod), self._clock.now())
            self._metrics.event_handled(EVENT_UNSCHEDULED_POD_ADD.label, started)

    def on_update(self, old: Pod, new: Pod) -> None:
        """A pod that changed; getting its node means moving from the queue to the cache."""
        if old.metadata.uid != new.metadata.uid:
            # Deleted and created again while nobody looked: two pods that share a name.
            self.on_delete(old, final_state_unknown=True)
            self.on_add(new, is_initial=False)
        elif old.spec.node_name:
            self._update_assigned(old, new)
        elif new.spec.node_name:
            self._add_assigned(new)
            if self._is_ours(old):
                # Bound, not gone: whoever bound it tells the others.
                started = self._metrics.stopwatch()
                self._queue.delete(old)
                self._metrics.event_handled(EVENT_UNSCHEDULED_POD_DELETE.label, started)
        elif self._is_ours(old):
            self._update_unassigned(old, new)

    def on_delete(self, pod: Pod, *, final_state_unknown: bool) -> None:
        """A pod that is gone. If its deletion was missed, what we knew of it may be out of date."""
        if final_state_unknown or pod.spec.node_name:
            self._delete_assigned(pod)
        if (final_state_unknown or not pod.spec.node_name) and self._is_ours(pod):
            self._delete_unassigned(pod)

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._scheduler_names

    def _add_assigned(self, pod: Pod) -> None:
        started = self._metrics.stopwatch()
        try:
            self._cache.add_pod(PodInfo(pod))
        except CacheError as error:
            _log.error("Adding pod %s to the cache failed: %s", pod.key, error)
        self._move(EVENT_ASSIGNED_POD_ADD, None, pod)
        self._metrics.event_handled(EVENT_ASSIGNED_POD_ADD.label, started)

    def _update_assigned(self, old: Pod, new: Pod) -> None:
        stopwatch = self._metrics.stopwatch
        started = stopwatch()
        try:
            self._cache.update_pod(old, PodInfo(new))
        except CacheCorruptedError as error:
            self._on_corrupted(error)
        except CacheError as error:
            _log.error("Updating pod %s in the cache failed: %s", old.key, error)
        updating_seconds = stopwatch() - started
        for event in pod_scheduling_properties_change(new, old):
            moving_since = stopwatch()
            self._move(event, old, new)
            self._metrics.event_handled(event.label, moving_since - updating_seconds)
        self._metrics.event_handled(EVENT_ASSIGNED_POD_UPDATE.label, started)

    def _delete_assigned(self, pod: Pod) -> None:
        started = self._metrics.stopwatch()
        try:
            self._cache.remove_pod(pod)
        except CacheCorruptedError as error:
            self._on_corrupted(error)
        except CacheError as error:
            _log.error("Removing pod %s from the cache failed: %s", pod.key, error)
        self._move(EVENT_ASSIGNED_POD_DELETE, pod, None)
        self._metrics.event_handled(EVENT_ASSIGNED_POD_DELETE.label, started)

    def _update_unassigned(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            # The same state once more: a pod queued twice would be scheduled twice (#96071).
            return
        started = self._metrics.stopwatch()
        self._update_queued(old, new)
        labels = [event.label for event in pod_scheduling_properties_change(new, old)]
        for label in {EVENT_UNSCHEDULED_POD_UPDATE.label: None} | dict.fromkeys(labels):
            self._metrics.event_handled(label, started)

    def _update_queued(self, old: Pod, new: Pod) -> None:
        if self._cache.is_assumed_pod(new):
            # Its binding is under way; only its going changes anything.
            if new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
                self._give_up_assumed(new)
            return
        self._queue.update(old, PodInfo(new), self._clock.now())
        nominated = old.status.nominated_node_name
        if nominated and nominated != new.status.nominated_node_name:
            self._free_nomination(old)

    def _delete_unassigned(self, pod: Pod) -> None:
        started = self._metrics.stopwatch()
        self._queue.delete(pod)
        if self._cache.is_assumed_pod(pod):
            self._give_up_assumed(pod)
        elif pod.status.nominated_node_name:
            self._free_nomination(pod)
        self._metrics.event_handled(EVENT_UNSCHEDULED_POD_DELETE.label, started)

    def _give_up_assumed(self, pod: Pod) -> None:
        """A pod that is being bound is going: give its room back now, not when the bind fails."""
        assumed = self._cache.get_pod(pod)
        if assumed is None:
            return
        if not self._waiting_pods.reject(assumed.uid):
            try:
                self._cache.forget_pod(assumed)
            except CacheError as error:
                _log.error("Forgetting pod %s failed: %s", pod.key, error)
        self._move(EVENT_ASSIGNED_POD_DELETE, assumed.pod, None)

    def _free_nomination(self, pod: Pod) -> None:
        """A pod no longer expected on a node makes room there for those that had to yield to it."""
        priority = priority_of(pod)
        self._queue.move_all_to_active_or_backoff_queue(
            EVENT_ASSIGNED_POD_DELETE,
            pod,
            None,
            self._clock.now(),
            pre_check=lambda waiting: waiting.priority <= priority,
        )

    def _move(self, event: ClusterEvent, old: Pod | None, new: Pod | None) -> None:
        self._queue.move_all_to_active_or_backoff_queue(event, old, new, self._clock.now())
