"""From watch events to the cache, the queue and cluster events: one synchronous step per change.

The only place where cache, queue and client meet. A pod with a node goes to the cache, a pod
without one that names one of our profiles to the queue. Each change becomes cluster events, so that
the pods that wait for such a change are tried again.
Source: `pkg/scheduler/eventhandlers.go`.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scheduler.cache import CacheCorruptedError, CacheError
from scheduler.config.types import GANG_SCHEDULING
from scheduler.devices.taint_rules import taints_of
from scheduler.framework.events import (
    DEFAULT_POD_EVENTS,
    EVENT_ASSIGNED_POD_ADD,
    EVENT_ASSIGNED_POD_DELETE,
    EVENT_ASSIGNED_POD_UPDATE,
    ActionType,
    ClusterEvent,
    EventResource,
    PodEvents,
)
from scheduler.framework.resizes import waits_for_resize
from scheduler.queue.property_changes import (
    node_scheduling_properties_change,
    pod_scheduling_properties_change,
)
from scheduler.snapshot.pod_info import PodInfo, priority_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scheduler.api.core import Node, Pod
    from scheduler.api.dynamic_resources import DeviceTaintRule, ResourceSlice
    from scheduler.cache import Cache
    from scheduler.client import ApiObject
    from scheduler.config.types import FeatureGates
    from scheduler.cycle.scheduling_queue import SchedulingQueue
    from scheduler.devices.taint_rules import Selects
    from scheduler.framework.handle import Lister
    from scheduler.metrics import SchedulerMetrics
    from scheduler.queue.without_hints import PreChecks
    from scheduler.runtime.waiting_pods import WaitingPods

_log: Final = logging.getLogger(__name__)

_NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
_NODE_DELETE: Final = ClusterEvent(EventResource.NODE, ActionType.DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEventHandler:
    """Updates the cache for nodes that are added, changed or deleted.

    `pre_checks` are there without queueing hints, here and in the other handlers.
    """

    cache: Cache
    queue: SchedulingQueue
    metrics: SchedulerMetrics
    pre_checks: PreChecks | None = None

    def on_add(self, node: Node, *, is_initial: bool) -> None:
        del is_initial
        with self.metrics.event(_NODE_ADD.label):
            self.cache.add_node(node)
            self._move(_NODE_ADD, None, node)

    def on_update(self, old: Node, new: Node) -> None:
        """Update the node; each kind of change is an event of its own."""
        started = self.metrics.stopwatch()
        self.cache.add_node(new)
        updating_seconds = self.metrics.stopwatch() - started
        for event in node_scheduling_properties_change(new, old):
            with self.metrics.change(event.label, spent_seconds=updating_seconds):
                self._move(event, old, new)

    def on_delete(self, node: Node, *, final_state_unknown: bool) -> None:
        """Remove the node, after the hints have seen the event: they may still read the node."""
        del final_state_unknown
        with self.metrics.event(_NODE_DELETE.label):
            self.queue.move_all_to_active_or_backoff_queue(_NODE_DELETE, node, None)
        try:
            self.cache.remove_node(node)
        except CacheError as error:
            _log.error("Removing a node from the cache failed: %s", error)

    def _move(self, event: ClusterEvent, old: Node | None, new: Node) -> None:
        check = None if self.pre_checks is None else self.pre_checks.for_node(new)
        self.queue.move_all_to_active_or_backoff_queue(event, old, new, pre_check=check)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEventHandler:
    """Makes events of objects of any other kind, as far as plugins have registered for `actions`.

    `resource` is the name of the kind in registrations and events (`buildEvtResHandler`).
    """

    resource: str
    actions: ActionType
    queue: SchedulingQueue
    metrics: SchedulerMetrics
    pre_checks: PreChecks | None = None

    def on_change(self, old: ApiObject | None, new: ApiObject | None) -> None:
        """Make an event of the change, or two if the object was deleted and created again.

        Upstream makes one update of the two, and the pods that wait for an addition miss it.
        """
        if old is not None and new is not None and old.metadata.uid == new.metadata.uid:
            self._move(ActionType.UPDATE, old, new)
            return
        if old is not None:
            self._move(ActionType.DELETE, old, None)
        if new is not None:
            self._move(ActionType.ADD, None, new)

    def _move(self, action: ActionType, old: ApiObject | None, new: ApiObject | None) -> None:
        if self.actions & action:
            event = ClusterEvent(self.resource, action)
            measure = self.metrics.event if action is ActionType.ADD else self.metrics.change
            with measure(event.label):
                if self.pre_checks is None or self.pre_checks.may_help(event, new):
                    self.queue.move_all_to_active_or_backoff_queue(event, old, new)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintRuleEventHandler:
    """Makes events of the slices whose taints a rule changes; rules have no events of their own.

    Source: `syncSlice` in `k8s.io/dynamic-resource-allocation/resourceslice/tracker/tracker.go`.
    """

    slices: Lister[ResourceSlice]
    selects: Selects
    on_slice_change: Callable[[ResourceSlice, ResourceSlice], None]

    def on_change(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        for slice in self.slices.list():
            before, after = (taints_of(rule, slice, self.selects) for rule in (old, new))
            if before != after:
                self.on_slice_change(slice, slice)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEventHandler:
    """Updates cache and queue for pods that are added, changed or deleted.

    `scheduler_names` are those of our profiles. With the feature gate GangScheduling a new pod
    without a node is an event, because it may complete a gang. A pod that waits for its resize is
    in the queue, too. `on_corrupted` is called if a bound pod has moved to another node: no
    decision can be trusted then. With `frees_assumed` what a pod holds that is deleted while it is
    being bound is free at once; in 1.34 it is when the binding has failed.
    """

    cache: Cache
    queue: SchedulingQueue
    waiting_pods: WaitingPods
    scheduler_names: Collection[str]
    feature_gates: FeatureGates
    on_corrupted: Callable[[CacheCorruptedError], None]
    metrics: SchedulerMetrics
    pod_events: PodEvents = DEFAULT_POD_EVENTS
    frees_assumed: bool = True
    pre_checks: PreChecks | None = None

    def on_add(self, pod: Pod, *, is_initial: bool) -> None:
        del is_initial
        if self._is_ours(pod) and (not pod.spec.node_name or self._waits_for_resize(pod)):
            self._add_unassigned(pod)
        if pod.spec.node_name:
            self._add_assigned(pod)

    def on_update(self, old: Pod, new: Pod) -> None:
        """Update the pod; once it has a node it moves from the queue to the cache."""
        if old.metadata.uid != new.metadata.uid:
            # Deleted and created again between two events: two pods with the same name.
            self.on_delete(old, final_state_unknown=True)
            self.on_add(new, is_initial=False)
        elif old.spec.node_name:
            if self._is_ours(new):
                self._update_resize(old, new)
            self._update_assigned(old, new)
        elif new.spec.node_name:
            self._add_assigned(new)
            if self._is_ours(old):
                # Bound, not deleted: no other pod can use what it held.
                with self.metrics.event(self.pod_events.label(ActionType.DELETE)):
                    self.queue.delete(old)
                    if not self.frees_assumed:
                        # In 1.34 it leaves the queue as a deleted pod does.
                        self._release_waiting(old)
        elif self._is_ours(old):
            self._update_unassigned(old, new)

    def on_delete(self, pod: Pod, *, final_state_unknown: bool) -> None:
        """Remove the pod. If the deletion itself was missed, its last known state may be old."""
        if final_state_unknown or pod.spec.node_name:
            self._delete_assigned(pod)
        is_queued = not pod.spec.node_name or self._waits_for_resize(pod)
        if (final_state_unknown or is_queued) and self._is_ours(pod):
            self._delete_unassigned(pod)

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self.scheduler_names

    def _waits_for_resize(self, pod: Pod) -> bool:
        return waits_for_resize(pod, self.feature_gates)

    def _update_resize(self, old: Pod, new: Pod) -> None:
        """Keep a pod with a node in the queue while its node defers its resize."""
        waited, waits = self._waits_for_resize(old), self._waits_for_resize(new)
        if waited and waits:
            self.queue.update(old, PodInfo(new))
        elif waits:
            self._add_unassigned(new)
        elif waited:
            self._delete_unassigned(new)

    def _add_unassigned(self, pod: Pod) -> None:
        with self.metrics.event(self.pod_events.label(ActionType.ADD)):
            info = PodInfo(pod)
            self.cache.set_pod_group_member(info)
            self.queue.add(info)
            if GANG_SCHEDULING in self.feature_gates:
                added = self.pod_events.event(ActionType.ADD)
                self.queue.move_all_to_active_or_backoff_queue(added, None, pod)

    def _add_assigned(self, pod: Pod) -> None:
        with self.metrics.event(EVENT_ASSIGNED_POD_ADD.label):
            try:
                self.cache.add_pod(PodInfo(pod))
            except CacheError as error:
                _log.error("Adding pod %s to the cache failed: %s", pod.key, error)
            self._move(EVENT_ASSIGNED_POD_ADD, None, pod)

    def _update_assigned(self, old: Pod, new: Pod) -> None:
        with self.metrics.event(EVENT_ASSIGNED_POD_UPDATE.label):
            started = self.metrics.stopwatch()
            try:
                self.cache.update_pod(old, PodInfo(new))
            except CacheCorruptedError as error:
                self.on_corrupted(error)
            except CacheError as error:
                _log.error("Updating pod %s in the cache failed: %s", old.key, error)
            updating_seconds = self.metrics.stopwatch() - started
            for event in pod_scheduling_properties_change(new, old, self.pod_events):
                with self.metrics.change(event.label, spent_seconds=updating_seconds):
                    self._move(event, old, new)

    def _move(self, event: ClusterEvent, old: Pod | None, new: Pod) -> None:
        """Move the pods that a pod with a node may help."""
        check = None if self.pre_checks is None else self.pre_checks.for_assigned_pod(event, new)
        self.queue.move_all_to_active_or_backoff_queue(event, old, new, pre_check=check)

    def _delete_assigned(self, pod: Pod) -> None:
        with self.metrics.event(EVENT_ASSIGNED_POD_DELETE.label):
            try:
                self.cache.remove_pod(pod)
            except CacheCorruptedError as error:
                self.on_corrupted(error)
            except CacheError as error:
                _log.error("Removing pod %s from the cache failed: %s", pod.key, error)
            self.queue.move_all_to_active_or_backoff_queue(EVENT_ASSIGNED_POD_DELETE, pod, None)

    def _update_unassigned(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            # The same state again: a pod queued twice would be scheduled twice (#96071).
            return
        changes = [
            event.label for event in pod_scheduling_properties_change(new, old, self.pod_events)
        ]
        with contextlib.ExitStack() as timers:
            for label in dict.fromkeys((self.pod_events.label(ActionType.UPDATE), *changes)):
                timers.enter_context(self.metrics.event(label))
            self._update_queued(old, new)

    def _update_queued(self, old: Pod, new: Pod) -> None:
        info = PodInfo(new)
        self.cache.set_pod_group_member(info)
        if self.cache.is_assumed_pod(new):
            # Its binding is under way; only a deletion changes anything.
            is_going = new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp
            if is_going and self.frees_assumed:
                self._forget_assumed(new)
            return
        self.queue.update(old, info)
        nominated = old.status.nominated_node_name
        if nominated and nominated != new.status.nominated_node_name:
            self._free_nomination(old)

    def _delete_unassigned(self, pod: Pod) -> None:
        with self.metrics.event(self.pod_events.label(ActionType.DELETE)):
            self.queue.delete(pod)
            if pod.spec.scheduling_group is not None or pod.spec.workload_ref is not None:
                self.cache.remove_pod_group_member(PodInfo(pod))
            if not self.frees_assumed:
                self._release_waiting(pod)
            elif self.cache.is_assumed_pod(pod):
                self._forget_assumed(pod)
            elif pod.status.nominated_node_name:
                self._free_nomination(pod)

    def _release_waiting(self, pod: Pod) -> None:
        """Reject a pod at Permit, or free its nomination: the rule of 1.34."""
        if self.waiting_pods.reject(pod.metadata.uid):
            self.queue.move_all_to_active_or_backoff_queue(EVENT_ASSIGNED_POD_DELETE, pod, None)
        elif pod.status.nominated_node_name:
            self._free_nomination(pod)

    def _forget_assumed(self, pod: Pod) -> None:
        """Free the resources of a pod that is deleted while being bound, before the bind fails."""
        assumed = self.cache.get_pod(pod)
        if assumed is None:
            return
        if not self.waiting_pods.reject(assumed.uid):
            try:
                self.cache.forget_pod(assumed)
            except CacheError as error:
                _log.error("Forgetting pod %s failed: %s", pod.key, error)
        self.queue.move_all_to_active_or_backoff_queue(EVENT_ASSIGNED_POD_DELETE, assumed.pod, None)

    def _free_nomination(self, pod: Pod) -> None:
        """Move the pods of no higher priority, which the end of a nomination may help."""
        priority = priority_of(pod)
        self.queue.move_all_to_active_or_backoff_queue(
            EVENT_ASSIGNED_POD_DELETE,
            pod,
            None,
            pre_check=lambda waiting: waiting.pod_info.priority <= priority,
        )
