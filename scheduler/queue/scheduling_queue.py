"""The scheduling queue: every pod that is waiting for a node, and when it is tried again.

A state machine without threads, clock or I/O: the time is passed in, and whoever drives the queue
is told through two callbacks when there is something to do.

    add ----(PreEnqueue)---------------- no -----------------------------.
                 |                                                       |
                 v                                                       |
    .-------> ACTIVE <--------(PreEnqueue)----- activate, or a hint      |
    |            |                              that means at once --.   |
    | backoff    | pop                                               |   |
    | over, or   v                                                   |   v
    | activate   IN FLIGHT ---- no event it missed helps ------> UNSCHEDULABLE
    |            ^    |  |                                         or GATED
    |  pop while |    |  '---- done ----> bound, or gone               |
    |  none is   |    |                                                |
    |  active    |    | an event it missed helps                       |
    |            |    v                                                |
    '---------- BACKOFF <-----(PreEnqueue)----- an event or update ----'
                                                helps, or 5 minutes are over

Where an arrow leads to BACKOFF, a pod that does not back off, or no longer, becomes active instead.
A pod that a PreEnqueue plugin objects to is gated, wherever it was to go. `delete` takes a pod out
from anywhere but IN FLIGHT.

What it rests on: a pod is in one of the four places at most, and in flight under its uid or in a
queue under its namespace and name; PreEnqueue plugins have passed every pod in ACTIVE and BACKOFF
when it got there; an event while pods are in flight is kept for them until they are back.
`PriorityQueue.check` verifies it.

Default feature gates of v1.36: pods are popped from backoff (SchedulerPopFromBackoffQ), queueing
hints always decide (SchedulerQueueingHints); no pod groups, asynchronous API calls or signatures.
Source: `backend/queue/scheduling_queue.go`.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from scheduler.framework.events import (
    BACKOFF_COMPLETE,
    EVENT_ASSIGNED_POD_ADD,
    EVENT_FORCE_ACTIVATE,
    EVENT_UNSCHEDULABLE_TIMEOUT,
    EVENT_UNSCHEDULED_POD_ADD,
    EVENT_UNSCHEDULED_POD_UPDATE,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF_Q,
    SCHEDULE_ATTEMPT_FAILURE,
    ActionType,
    ClusterEvent,
    EventResource,
    match_cluster_events,
)
from scheduler.metrics import SchedulerMetrics
from scheduler.queue.active_queue import sort_key_of_less
from scheduler.queue.cross_topology import has_cross_topology_term
from scheduler.queue.errors import PodAlreadyQueuedError
from scheduler.queue.gating import Gate
from scheduler.queue.group_hints import GroupHints
from scheduler.queue.invariants import complaints, whereabouts
from scheduler.queue.nominator import Nominator
from scheduler.queue.observer import Place, QueueStatistics
from scheduler.queue.pools import POPPABLE, Pools, waiting_place
from scheduler.queue.property_changes import pod_scheduling_properties_change
from scheduler.queue.queued_pod_info import QueuedPodInfo
from scheduler.queue.requeueing import Requeueing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scheduler.api.core import Pod
    from scheduler.framework.types import NominatingInfo
    from scheduler.queue.gating import NamedPreEnqueuePlugin
    from scheduler.queue.group_hints import Worth
    from scheduler.queue.heap import SortKey
    from scheduler.queue.observer import HintAnswer, QueueObserver
    from scheduler.queue.requeueing import Interest, QueueingHintFunction
    from scheduler.snapshot.pod_info import PodInfo

_log: Final = logging.getLogger(__name__)

#: How often the pods that wait for an event are looked through for those that wait too long.
LEFTOVER_FLUSH_SECONDS: Final = 30.0

_POD_ADDED: Final = EVENT_UNSCHEDULED_POD_ADD.label
_POD_UPDATED: Final = EVENT_UNSCHEDULED_POD_UPDATE.label
_SCALE_DOWN: Final = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCALE_DOWN)
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


class PriorityQueue:
    """The pods that wait for a node, the most urgent first.

    `less` orders them; a queue-sort plugin that can say the same as a tuple gives its `sort_key`,
    which is much faster. `pre_enqueue_plugins` and `queueing_hint_map` are by profile (scheduler
    name), the latter as `build_queueing_hint_map` makes it. `pod_lister` and `namespace_labels`
    answer from the informers.

    `on_ready` is called whenever a pop may succeed that may not have before. `on_deadline` is
    called when something became due earlier than `next_deadline` has last said. Both are called in
    the middle of things: they may set a flag or wake a task, but not call the queue.

    `incoming_pods` counts the pods that entered a queue, by queue and event, as upstream's metric
    `queue_incoming_pods_total`: gated pods are counted as `unschedulable`, a pod popped from
    backoff as `active`. `unschedulable_reasons` is its metric `unschedulable_pods`: how many pods
    wait because of a plugin, by plugin and profile. As upstream it forgets to count down for
    pods that are deleted while active or backing off.
    """

    def __init__(
        self,
        less: Callable[[QueuedPodInfo, QueuedPodInfo], bool],
        *,
        pre_enqueue_plugins: Mapping[str, Sequence[NamedPreEnqueuePlugin]],
        queueing_hint_map: Mapping[str, Mapping[ClusterEvent, Sequence[QueueingHintFunction]]],
        pod_lister: Callable[[str, str], Pod | None],
        sort_key: Callable[[QueuedPodInfo], SortKey] | None = None,
        namespace_labels: Callable[[str], Mapping[str, str]] = lambda namespace: _NO_LABELS,
        initial_backoff_seconds: float = 1.0,
        max_backoff_seconds: float = 10.0,
        max_in_unschedulable_pods_seconds: float = 300.0,
        log: logging.Logger = _log,
        on_ready: Callable[[], None] = lambda: None,
        on_deadline: Callable[[], None] = lambda: None,
        observer: QueueObserver | None = None,
        metrics: SchedulerMetrics | None = None,
    ) -> None:
        self.unschedulable_reasons: Final[Counter[tuple[str, str]]] = Counter()
        metrics = SchedulerMetrics() if metrics is None else metrics
        self.requeueing: Final = Requeueing(queueing_hint_map, metrics, log)
        self.nominator: Final = Nominator(pod_lister)
        gate = Gate(
            pre_enqueue_plugins,
            self.requeueing.events_of,
            self.unschedulable_reasons,
            metrics,
            log,
        )
        self.pools: Final = Pools(
            sort_key=sort_key if sort_key is not None else sort_key_of_less(less),
            initial_backoff_seconds=initial_backoff_seconds,
            max_backoff_seconds=max_backoff_seconds,
            wait_seconds_max=max_in_unschedulable_pods_seconds,
            known_profiles=queueing_hint_map.keys(),
            likeness=self.requeueing.likeness,
            gate=gate,
            nominator=self.nominator,
            on_deadline=on_deadline,
            observer=observer,
            log=log,
        )
        self._hints_of_groups: Final = GroupHints(self.requeueing, self.pools)
        self.active_q: Final = self.pools.active_q
        self.backoff_q: Final = self.pools.backoff_q
        self.unschedulable_pods: Final = self.pools.unschedulable_pods
        self.incoming_pods: Final = self.pools.incoming_pods
        self._collects_hints: Final = observer is not None
        self._less: Final = less
        self._namespace_labels: Final = namespace_labels
        self._wait_seconds_max: Final = max_in_unschedulable_pods_seconds
        self._log: Final = log
        self._on_ready: Final = on_ready
        self._first_leftover_flush: float | None = None
        self._last_leftover_flush = -math.inf
        self.is_closed = False

    # Pods come, change and go.

    def add(self, pod: PodInfo, now: float) -> None:
        """A pod without a node has appeared. It becomes active, or is gated."""
        self.pools.now = now
        info = QueuedPodInfo(pod, timestamp=now)
        if self.pools.move_to_active_q(info, self.pools.place_of(info.key), _POD_ADDED):
            self._on_ready()

    def update(self, old: Pod, new: PodInfo, now: float) -> None:
        """A pod without a node has changed.

        In flight, the change is kept for when it comes back. Active or backing off, it is only
        replaced. Waiting for an event, the change is taken as one: the hints of its rejector
        plugins decide. A pod nobody knows is added.
        """
        self.pools.now = now
        events = pod_scheduling_properties_change(new.pod, old)
        key = new.key
        if self.active_q.add_events_if_pod_in_flight(new.uid, old, new.pod, events):
            return
        if self.active_q.update(key, new) or self.backoff_q.update(key, new):
            self.nominator.update_nominated_pod(old, new)
        elif (info := self.unschedulable_pods.get(key)) is not None:
            info.pod_info = new
            self.unschedulable_pods.add_or_update(key, info)  # it may be like others now
            self.nominator.update_nominated_pod(old, new)
            self._update_unschedulable(info, old, events)
        else:
            info = QueuedPodInfo(new, timestamp=now)
            if self.pools.move_to_active_q(info, Place.OUTSIDE, _POD_UPDATED):
                self._on_ready()

    def delete(self, pod: Pod) -> None:
        """A pod is gone, or has got a node. One in flight stays so until its attempt is over."""
        self.nominator.forget(pod.metadata.uid)
        key = pod.key
        if (info := self.active_q.delete(key)) is not None:
            self.pools.tell(info, Place.ACTIVE, Place.OUTSIDE)
        elif (info := self.backoff_q.delete(key)) is not None:
            self.pools.tell(info, Place.BACKOFF, Place.OUTSIDE)
        elif (info := self.unschedulable_pods.delete(key)) is not None:
            self._count_reasons(info, -1)
            self.pools.tell(info, waiting_place(info), Place.OUTSIDE)

    # Attempts.

    def pop_nowait(self, now: float) -> QueuedPodInfo | None:
        """Take the most urgent pod; None if there is none to be tried.

        While no pod is active this is the one whose backoff ends first, even before its end. The
        pod is in flight from now on: it must be given back with
        `add_unschedulable_if_not_present`, or `done` be called.
        """
        self.pools.now = now
        while True:
            source = Place.ACTIVE
            info = self.active_q.pop()
            if info is None:
                source = Place.BACKOFF
                info = self.backoff_q.pop_backoff()
                if info is None:
                    return None
                self.incoming_pods[Place.ACTIVE, POP_FROM_BACKOFF_Q] += 1
            if self._move_pod_to_in_flight(info, source):
                return info

    def pop_specific_pod(self, pod: Pod, now: float) -> QueuedPodInfo | None:
        """Take this pod, wherever it waits, as if it had been activated and then popped.

        None if it is not waiting, or is gated.
        """
        self.pools.now = now
        self._activate(pod.key)
        info = self.active_q.delete(pod.key)
        if info is None or not self._move_pod_to_in_flight(info, Place.ACTIVE):
            return None
        return info

    def add_unschedulable_if_not_present(self, info: QueuedPodInfo, now: float) -> None:
        """A popped pod could not be scheduled. Its rejector plugins, if any, are set already.

        The events it has missed decide where it goes: it waits for the next one, backs off, or
        becomes active again. Its attempt is over in any case, as if `done` had been called.
        Raises `PodAlreadyQueuedError` if it is waiting already.
        """
        self.pools.now = now
        uid = info.uid
        try:
            self._refuse_if_queued(info.key)
            if info.unschedulable_plugins or info.pending_plugins:
                info.unschedulable_count += 1
                info.consecutive_errors_count = 0
            else:
                info.consecutive_errors_count += 1
            info.timestamp = now
            info.backoff_expiration = 0.0
            info.was_flushed_from_unschedulable = False
            self.nominator.refresh(info.pod_info)
            self._count_reasons(info, +1)
            asked = self._hints()
            missed = self.active_q.cluster_events_for_pod(uid)
            strategy = self.requeueing.strategy_after_attempt(info, missed, asked)
            place = self.pools.requeue(
                info, strategy, Place.IN_FLIGHT, SCHEDULE_ATTEMPT_FAILURE, asked
            )
            if place in POPPABLE:
                self._on_ready()
        finally:
            self.active_q.done(uid)

    def done(self, uid: str) -> None:
        """A popped pod will not be given back, or needs none of the events it may have missed.

        May be called for a pod that is not in flight, and more than once.
        """
        info = self.active_q.done(uid)
        if info is not None:
            self.pools.tell(info, Place.IN_FLIGHT, Place.OUTSIDE)

    def activate(self, pods: Mapping[str, PodInfo], now: float) -> None:
        """Try these pods at once, whatever their backoff; PreEnqueue plugins may still object.

        A pod in flight will be tried again after its backoff, should it come back. Pods that are
        active already, or that nobody knows, are left alone.
        """
        self.pools.now = now
        activated = False
        for pod in pods.values():
            if self._activate(pod.key):
                activated = True
            else:
                self.active_q.add_events_if_pod_in_flight(
                    pod.uid, None, pod.pod, (EVENT_FORCE_ACTIVATE,)
                )
        if activated:
            self._on_ready()

    # Events.

    def move_all_to_active_or_backoff_queue(
        self,
        event: ClusterEvent,
        old_obj: object,
        new_obj: object,
        now: float,
        *,
        pre_check: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        """Something has happened: move the waiting pods that it may help.

        `old_obj` and `new_obj` are the object before and after, None where there is none; the
        hints see them. Pods that fail `pre_check` are left out. An event that no plugin has
        registered for is forgotten at once; any other is kept for the pods in flight.
        """
        self.pools.now = now
        interest = self.requeueing.interest(event)
        if not interest.is_of_interest:
            return
        groups = self.unschedulable_pods.concerned_by(interest)
        if pre_check is None:
            worth = self._hints_of_groups.worth_moving(groups, interest, old_obj, new_obj)
            self._move(worth, interest, old_obj, new_obj)
            return
        pods = [info for group in groups for info in group.values() if pre_check(info.pod_info)]
        pods.sort(key=self.unschedulable_pods.turn_of)
        self._move_pods(pods, interest, old_obj, new_obj)

    def assigned_pod_added(self, pod: Pod, now: float) -> None:
        """A pod has got a node: move those that want to be near it or spread around it.

        Unlike a move of all, this never reaches pods that other plugins have rejected.
        """
        self.pools.now = now
        self._move_pods_near(pod, EVENT_ASSIGNED_POD_ADD, None)

    def assigned_pod_updated(
        self, old: Pod | None, new: Pod, event: ClusterEvent, now: float
    ) -> None:
        """A pod on a node has changed: likewise, but a scale-down may help any pod."""
        if match_cluster_events(_SCALE_DOWN, event):
            self.move_all_to_active_or_backoff_queue(event, old, new, now)
        else:
            self.pools.now = now
            self._move_pods_near(new, event, old)

    # Time.

    def flush_backoff_q_completed(self, now: float) -> None:
        """Activate the pods whose backoff is over. To be called once a second."""
        self.pools.now = now
        activated = False
        for info in self.backoff_q.pop_all_backoff_completed(now):
            if self.pools.move_to_active_q(
                info, Place.BACKOFF, BACKOFF_COMPLETE, skip_pre_enqueue=True
            ):
                activated = True
        if activated:
            self._on_ready()

    def flush_unschedulable_pods_leftover(self, now: float) -> None:
        """Move the pods that no event has helped for too long.

        To be called at start, and then every 30 seconds: `next_deadline` counts in such steps from
        the first call on. Gated pods are marked and stay, but even they make it an event for the
        pods in flight.
        """
        self.pools.now = now
        if self._first_leftover_flush is None:
            self._first_leftover_flush = now
        self._last_leftover_flush = now
        overdue = self.unschedulable_pods.overdue(now, self._wait_seconds_max)
        for info in overdue:
            info.was_flushed_from_unschedulable = True
        if overdue:
            interest = self.requeueing.interest(EVENT_UNSCHEDULABLE_TIMEOUT)
            self._move_pods(overdue, interest, None, None)

    def flush_due(self, now: float) -> None:
        """Run whichever flush is due, both at the moments at which upstream's timers run them."""
        self.flush_backoff_q_completed(now)
        leftover = self._leftover_deadline()
        if self._first_leftover_flush is None or (leftover is not None and leftover <= now):
            self.flush_unschedulable_pods_leftover(now)

    def next_deadline(self) -> float | None:
        """When `flush_due` will next have an effect, in epoch seconds; None if nothing is waiting.

        It may lie in the past. Any call that brings a pod here may make it earlier: `on_deadline`
        tells.
        """
        deadlines = (self.backoff_q.next_deadline(), self._leftover_deadline())
        deadline = min((d for d in deadlines if d is not None), default=None)
        self.pools.announced_deadline = math.inf if deadline is None else deadline
        return deadline

    # Nominations (satisfies `scheduler.framework.handle.PodNominator`).

    def add_nominated_pod(self, pod: PodInfo, nominating_info: NominatingInfo | None) -> None:
        """See `Nominator.add_nominated_pod`."""
        self.nominator.add_nominated_pod(pod, nominating_info)

    def delete_nominated_pod_if_exists(self, pod: PodInfo) -> None:
        """See `Nominator.delete_nominated_pod_if_exists`."""
        self.nominator.delete_nominated_pod_if_exists(pod)

    def nominated_pods_for_node(self, node_name: str) -> list[PodInfo]:
        """See `Nominator.nominated_pods_for_node`."""
        return self.nominator.nominated_pods_for_node(node_name)

    # Looking in, for debugging, metrics and tests.

    @property
    def scheduling_cycle(self) -> int:
        """How many pods were ever popped."""
        return self.active_q.scheduling_cycle

    def get_pod(self, namespace: str, name: str) -> QueuedPodInfo | None:
        """A pod that is waiting, not one in flight."""
        return self.pools.find(f"{namespace}/{name}")

    def pods_in_active_q(self) -> list[Pod]:
        """The active pods, the most urgent first."""
        return _pods(self.active_q.in_order())

    def pods_in_backoff_q(self) -> list[Pod]:
        """The pods backing off, those that can be popped first."""
        return _pods(self.backoff_q.in_order())

    def pods_in_unschedulable_pods(self) -> list[Pod]:
        """The pods that wait for an event, gated ones among them, in the order of arrival."""
        return _pods(self.unschedulable_pods)

    def in_flight_pods(self) -> list[Pod]:
        """The pods that were popped and are not done, the first popped first."""
        return _pods(self.active_q.in_flight_pods())

    def pending_pods(self) -> tuple[list[Pod], str]:
        """All waiting pods, and upstream's line about how many are where."""
        active, backoff = self.pods_in_active_q(), self.pods_in_backoff_q()
        waiting = self.pods_in_unschedulable_pods()
        return active + backoff + waiting, (
            f"activeQ:{len(active)}; backoffQ:{len(backoff)}; unschedulablePods:{len(waiting)}"
        )

    def statistics(self) -> QueueStatistics:
        """How many pods are where; the first four are upstream's metric `pending_pods`."""
        return QueueStatistics(
            active=len(self.active_q),
            backoff=len(self.backoff_q),
            unschedulable=self.unschedulable_pods.unschedulable_total,
            gated=self.unschedulable_pods.gated_total,
            in_flight_pods=self.active_q.in_flight_pods_total,
            in_flight_events=self.active_q.in_flight_events_total,
            scheduling_cycle=self.active_q.scheduling_cycle,
        )

    def close(self) -> None:
        """Forget what is in flight and wake whoever waits for a pod, to see `is_closed`."""
        self.active_q.close()
        self.is_closed = True
        self._on_ready()

    def check(self) -> None:
        """Verify every invariant; for tests, after each step. It takes time.

        Raises AssertionError with a line for each thing that is wrong and where all pods are.
        """
        wrong = list(complaints(self.pools, self.nominator, self._less))
        if wrong:
            raise AssertionError("\n".join((*wrong, *whereabouts(self.pools, self.nominator))))

    # The rest is private.

    def _update_unschedulable(
        self, info: QueuedPodInfo, old: Pod, events: Iterable[ClusterEvent]
    ) -> None:
        """A waiting pod has changed: the first of the changes that helps it moves it."""
        for event in events:
            interest = self.requeueing.interest(event)
            asked = self._hints()
            strategy = self.requeueing.is_pod_worth_requeuing(
                info, interest, old, info.pod_info.pod, asked
            )
            source = waiting_place(info)
            if self.pools.requeue(info, strategy, source, interest.label, asked) in POPPABLE:
                self._on_ready()
                return

    def _activate(self, key: str) -> bool:
        source = self.pools.place_of(key)
        backs_off = source == Place.BACKOFF
        info = self.backoff_q.get(key) if backs_off else self.unschedulable_pods.get(key)
        return info is not None and self.pools.move_to_active_q(
            info, source, FORCE_ACTIVATE, skip_pre_enqueue=backs_off
        )

    def _move_pod_to_in_flight(self, info: QueuedPodInfo, source: Place) -> bool:
        if not self.active_q.move_pod_to_in_flight(info):
            self._log.error(
                "Discarding the popped pod: the same pod is tracked in multiple places in the "
                "scheduler: %s",
                info.key,
            )
            self.pools.tell(info, source, Place.OUTSIDE)
            return False
        self._count_reasons(info, -1)
        self.pools.tell(info, source, Place.IN_FLIGHT)
        return True

    def _refuse_if_queued(self, key: str) -> None:
        if key in self.unschedulable_pods:
            raise PodAlreadyQueuedError(key, "unschedulable queue")
        if key in self.active_q:
            raise PodAlreadyQueuedError(key, "the active queue")
        if key in self.backoff_q:
            raise PodAlreadyQueuedError(key, "the backoff queue")

    def _move_pods(
        self,
        pods: Iterable[QueuedPodInfo],
        interest: Interest,
        old_obj: object,
        new_obj: object,
    ) -> None:
        worth = self._hints_of_groups.each_worth_moving(pods, interest, old_obj, new_obj)
        self._move(list(worth), interest, old_obj, new_obj)

    def _move(
        self, worth: Iterable[Worth], interest: Interest, old_obj: object, new_obj: object
    ) -> None:
        ready = False
        for info, strategy, asked in worth:
            source = waiting_place(info)
            # Out first: a pod that is gated again has entered anew, and is counted so.
            self.unschedulable_pods.delete(info.key)
            place = self.pools.requeue(info, strategy, source, interest.label, asked)
            ready = ready or place in POPPABLE
        self.active_q.add_event_if_any_in_flight(interest.event, old_obj, new_obj)
        if ready:
            self._on_ready()

    def _move_pods_near(self, pod: Pod, event: ClusterEvent, old: Pod | None) -> None:
        interest = self.requeueing.interest(event)
        if not interest.is_of_interest:
            return
        labels = self._namespace_labels(pod.metadata.namespace)
        pods = [
            info for info in self.unschedulable_pods if has_cross_topology_term(info, pod, labels)
        ]
        self._move_pods(pods, interest, old, pod)

    def _leftover_deadline(self) -> float | None:
        """The next tick at which the longest waiting pod is overdue."""
        oldest = self.unschedulable_pods.oldest()
        if oldest is None:
            return None
        since = oldest.timestamp
        start = self._first_leftover_flush or 0.0
        earliest = max(since + self._wait_seconds_max, self._last_leftover_flush)
        ticks = math.floor((earliest - start) / LEFTOVER_FLUSH_SECONDS)
        tick = start + ticks * LEFTOVER_FLUSH_SECONDS
        # The same comparison as the flush makes: rounded otherwise, the two might never agree.
        while tick - since <= self._wait_seconds_max or tick <= self._last_leftover_flush:
            tick += LEFTOVER_FLUSH_SECONDS
        return tick

    def _count_reasons(self, info: QueuedPodInfo, count: int) -> None:
        profile = info.pod_info.spec.scheduler_name
        for plugin in info.unschedulable_plugins | info.pending_plugins:
            self.unschedulable_reasons[plugin, profile] += count

    def _hints(self) -> list[HintAnswer] | None:
        """A place to collect the hints' answers in, if anybody is going to hear of them."""
        return [] if self._collects_hints else None


def _pods(infos: Iterable[QueuedPodInfo]) -> list[Pod]:
    return [info.pod_info.pod for info in infos]
