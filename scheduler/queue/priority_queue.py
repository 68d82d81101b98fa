"""The scheduling queue: all pods that wait for a node, and the time of each one's next attempt.

A state machine without threads, clock or I/O: the time is an argument, and each call returns the
moves it has made (`Moves`). `scheduler.cycle.scheduling_queue` runs it.

    add ----(PreEnqueue)---------------- rejected -----------------------.
                 |                                                       |
                 v                                                       |
    .-------> ACTIVE <--------(PreEnqueue)----- activate, or a hint      |
    |            |                              that means at once --.   |
    | backoff    | pop                                               |   |
    | over, or   v                                                   |   v
    | activate   IN FLIGHT ---- no event it missed helps ------> UNSCHEDULABLE
    |            ^    |  |                                         or GATED
    |  pop while |    |  '---- done ----> OUTSIDE                      |
    |  none is   |    |                                                |
    |  active    |    | an event it missed helps                       |
    |            |    v                                                |
    '---------- BACKOFF <-----(PreEnqueue)----- an event or update ----'
                                                helps, or 5 minutes are over

Where an arrow leads to BACKOFF, a pod without a backoff, or whose backoff is over, becomes active.
A pod that a PreEnqueue plugin rejects is gated, whatever its target was. `delete` removes a pod
from every place but IN FLIGHT.

Invariants: a pod is in one of the pools at most, and the pod's `place` is the pool's; a pod in
flight is known by its uid, a pod in a pool by namespace and name; PreEnqueue plugins have passed
every pod in ACTIVE and BACKOFF when it entered; an event while pods are in flight is kept for them
until they are back. `PriorityQueue.check` verifies them.

Without SchedulerQueueingHints (`uses_hints`) an update of a pod retries it, whatever its rejectors,
and a pod backs off after its attempt if any event came since a pod was last popped.
No asynchronous API calls or signatures.
Source: `backend/queue/scheduling_queue.go`.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from scheduler.framework.events import (
    BACKOFF_COMPLETE,
    DEFAULT_POD_EVENTS,
    EVENT_FORCE_ACTIVATE,
    EVENT_UNSCHEDULABLE_TIMEOUT,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF_Q,
    SCHEDULE_ATTEMPT_FAILURE,
    ActionType,
    ClusterEvent,
    PodEvents,
)
from scheduler.queue.active_queue import (
    ActiveQueue,
    ChangingActiveQueue,
    InFlight,
    UntrackedInFlight,
    sort_key_from_less,
)
from scheduler.queue.backoff_queue import BackoffQueue
from scheduler.queue.gating import Gate
from scheduler.queue.hints import QueueingHints, QueueingStrategy
from scheduler.queue.invariants import Pool, complaints, contents
from scheduler.queue.leftover_flush import LeftoverFlush
from scheduler.queue.pod_mover import PodMover
from scheduler.queue.property_changes import is_pod_updated, pod_scheduling_properties_change
from scheduler.queue.queued_pod_info import (
    COUNTED_IN_1_36,
    NO_MOVES,
    POPPABLE,
    CountedReasons,
    HintsSkipped,
    Move,
    Moves,
    Place,
    PodAlreadyQueuedError,
    QueuedPodInfo,
    QueueStatistics,
)
from scheduler.queue.requeues import Requeues
from scheduler.queue.unschedulable_pods import UnschedulablePods

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from scheduler.api.core import Pod
    from scheduler.metrics import SchedulerMetrics
    from scheduler.queue.gating import NamedPreEnqueuePlugin
    from scheduler.queue.heap import SortKey
    from scheduler.queue.hints import Decision, Decisions, QueueingHintFunction, RegisteredHints
    from scheduler.queue.nominator import Nominator
    from scheduler.queue.pod_mover import Wanted
    from scheduler.queue.queued_pod_info import HintAnswer
    from scheduler.snapshot.pod_info import PodInfo

_log: Final = logging.getLogger(__name__)

#: The pods that move in one call; they take some 50 ms.
MOVED_AT_ONCE: Final = 5000

_AFTER_BACKOFF: Final = QueueingStrategy.QUEUE_AFTER_BACKOFF


class PriorityQueue:
    """The pods that wait for a node, the most urgent first.

    With `generic_workload` (the feature gate) a pod of a group backs off after each attempt,
    whatever events arrive. Upstream pops any pod early when no pod is active, and so tries a group
    that does not fit again and again without a pause. With `members_back_off` pods of groups are
    not popped before their backoff ends. An event, or the end of backoffs, moves `moved_at_once`
    pods in a call, and leaves the others for later calls.

    `less` is the order of the pods. A queue-sort plugin that can express the order as a tuple has a
    `sort_key`, which is much faster. `pre_enqueue_plugins` and `queueing_hint_map` are by profile
    (scheduler name); `build_queueing_hint_map` makes the map of a profile.

    With `order_changes` the active pods are compared anew whenever one is popped.

    `incoming_pods` counts the pods that entered a queue, by queue and event, as upstream's metric
    `queue_incoming_pods_total`: gated pods are counted as `unschedulable`, a pod popped from
    backoff as `active`. `unschedulable_reasons` is upstream's metric `unschedulable_pods`: the
    number of pods that wait because of a plugin, by plugin and profile, as `counted_reasons` has
    it. `gated_wait_anew` is for the flush, see `UnschedulablePods`.
    """

    def __init__(
        self,
        less: Callable[[QueuedPodInfo, QueuedPodInfo], bool],
        *,
        pre_enqueue_plugins: Mapping[str, Sequence[NamedPreEnqueuePlugin]],
        queueing_hint_map: Mapping[str, Mapping[ClusterEvent, Sequence[QueueingHintFunction]]],
        nominator: Nominator,
        metrics: SchedulerMetrics,
        sort_key: Callable[[QueuedPodInfo], SortKey] | None = None,
        generic_workload: bool = False,
        members_back_off: bool = False,
        pops_from_backoff: bool = True,
        uses_hints: bool = True,
        order_changes: bool = False,
        initial_backoff_seconds: float = 1.0,
        max_backoff_seconds: float = 10.0,
        max_in_unschedulable_pods_seconds: float = 300.0,
        gated_wait_anew: bool = False,
        counted_reasons: CountedReasons = COUNTED_IN_1_36,
        moved_at_once: int = MOVED_AT_ONCE,
        pod_events: PodEvents = DEFAULT_POD_EVENTS,
    ) -> None:
        sort_key = sort_key or sort_key_from_less(less)
        self.unschedulable_reasons: Final[Counter[tuple[str, str]]] = Counter()
        self.nominator: Final = nominator
        hints = QueueingHints(queueing_hint_map, metrics, generic_workload=generic_workload)
        self.hints: Final = hints
        self.active_q: Final = (ChangingActiveQueue if order_changes else ActiveQueue)(sort_key)
        self.in_flight: Final = InFlight() if uses_hints else UntrackedInFlight()
        nominator.in_flight = self.in_flight.uids
        self.backoff_q: Final = BackoffQueue(
            initial_backoff_seconds=initial_backoff_seconds,
            max_backoff_seconds=max_backoff_seconds,
            sort_key=sort_key,
            pops_early=pops_from_backoff,
        )
        self._gate: Final = Gate(
            plugins=pre_enqueue_plugins,
            events_of=hints.events_of,
            unschedulable_reasons=self.unschedulable_reasons,
            counted_reasons=counted_reasons,
            metrics=metrics,
        )
        self.unschedulable_pods: Final = UnschedulablePods(
            hints.rejectors_of,
            lambda i: (hints.hint_group_key(i), self._gate.gating_key(i)),
            waits_anew=gated_wait_anew,
        )
        self.pool_at: Final[Mapping[Place, Pool]] = {
            Place.ACTIVE: self.active_q,
            Place.BACKOFF: self.backoff_q,
            Place.UNSCHEDULABLE: self.unschedulable_pods,
            Place.GATED: self.unschedulable_pods,
        }
        self._mover: Final = PodMover(self.pool_at, self.backoff_q, self._gate, nominator)
        self._requeues: Final = Requeues(self.unschedulable_pods, self._mover, moved_at_once)
        self._less: Final = less
        self._pod_events: Final = pod_events
        self._members_back_off: Final = members_back_off
        self._leftover_flush: Final = LeftoverFlush(max_in_unschedulable_pods_seconds)

    @property
    def pools(self) -> Mapping[str, Pool]:
        """The pools by upstream's names."""
        return {
            "activeQ": self.active_q,
            "backoffQ": self.backoff_q,
            "unschedulablePods": self.unschedulable_pods,
        }

    @property
    def incoming_pods(self) -> Counter[tuple[str, str]]:
        return self._mover.incoming_pods

    # Watch events of pods without a node.

    def add(self, pod: PodInfo, now: float) -> Moves:
        """Add a new pod. It becomes active, or is gated."""
        info = QueuedPodInfo(pod, timestamp=now)
        self.nominator.enter(pod)
        queued = self.find(info.key)
        label = self._pod_events.label(ActionType.ADD)
        if queued is None:
            return _moves(self._move(info, Place.ACTIVE, label, now))
        # A pod of the same name, whose place it takes over; it stays if it cannot enter anew.
        info.place = queued.place
        passes = queued.place in POPPABLE
        if passes:
            self._gate.run_pre_enqueue_plugins(info)
            if info.is_gated:
                return NO_MOVES
        return _moves(self._move(info, Place.ACTIVE, label, now, pre_enqueue=not passes))

    def update(self, old: Pod, new: PodInfo, now: float) -> Moves:
        """Replace a pod that has changed.

        For a pod in flight, the change is kept as an event until the pod is given back. An active
        pod or one that backs off stays where it is. For other waiting pods the change is an event:
        the hints of the rejector plugins decide. An unknown pod is added.
        """
        events = pod_scheduling_properties_change(new.pod, old, self._pod_events, is_target=True)
        if self.in_flight.add_events_for(new.uid, old, new.pod, events):
            return NO_MOVES
        info = self.find(new.key)
        if info is None:
            info = QueuedPodInfo(new, timestamp=now)
            return _moves(
                self._move(info, Place.ACTIVE, self._pod_events.label(ActionType.UPDATE), now)
            )
        info.pod_info = new
        self.pool_at[info.place].add(info)
        self.nominator.update_nominated_pod(old, new)
        if info.place in POPPABLE:
            return NO_MOVES
        if isinstance(self.in_flight, UntrackedInFlight):
            if not is_pod_updated(new.pod, old):
                return NO_MOVES
            label, strategy = self._pod_events.label(ActionType.UPDATE), _AFTER_BACKOFF
            return _moves(self._requeue(info, strategy, label, now, ()))
        moved: list[Move] = []
        for event in events:
            registered = self.hints.registered_for(event)
            answers: list[HintAnswer] = []
            strategy = self.hints.is_pod_worth_requeuing(info, registered, old, new.pod, answers)
            backs_off = bool(moved) and moved[-1].target == Place.BACKOFF
            if backs_off and strategy == QueueingStrategy.QUEUE_SKIP:
                continue  # Upstream leaves such a pod in two pools.
            move = self._requeue(info, strategy, registered.label, now, answers)
            moved.append(move)
            if move.target in self.backoff_q.poppable:
                break
        return Moves(moved)

    def delete(self, pod: Pod, now: float) -> Moves:
        """Remove a pod that was deleted or has got a node. A pod in flight stays until `done`."""
        self.nominator.forget(pod.metadata.uid)
        info = self.find(pod.key)
        if info is None:
            return NO_MOVES
        source = info.place
        self.pool_at[source].delete(info.key)
        info.place = Place.OUTSIDE
        if source in self._gate.counted_reasons.without_deleted:
            self._count_reasons(info, -1)
        return _moves(Move(now, info, source, Place.OUTSIDE))

    # Attempts.

    def pop_nowait(self, now: float) -> tuple[QueuedPodInfo | None, Moves]:
        """Remove and return the most urgent pod; None if no pod can be popped.

        While no pod is active, the pod whose backoff ends first is popped, even before the end,
        unless the gate for it is off. The pod is in flight until it is given back with
        `add_unschedulable_if_not_present`, or until `done` is called.
        """
        moved: list[Move] = []
        while self._requeues:
            moved += self._requeues.move_some()
        while (info := self.active_q.pop() or self._pop_from_backoff_q()) is not None:
            if info.place == Place.BACKOFF:
                self.incoming_pods[Place.ACTIVE, POP_FROM_BACKOFF_Q] += 1
            move = self._move_to_in_flight(info, now)
            moved.append(move)
            if move.target == Place.IN_FLIGHT:
                return info, Moves(moved)
        return None, Moves(moved)

    def _pop_from_backoff_q(self) -> QueuedPodInfo | None:
        if not self.backoff_q.pops_early:
            return None
        return self.backoff_q.pop(leaves_members=self._members_back_off)

    def pop_specific_pod(self, key: str, now: float) -> tuple[QueuedPodInfo | None, Moves]:
        """Remove and return one pod, by `namespace/name`, as if it was activated and popped.

        None if the pod is not waiting, or a PreEnqueue plugin rejects it. Source: `PopSpecificPod`.
        """
        info = self.find(key)
        if info is None:
            return None, NO_MOVES
        moved = []
        if info.place != Place.ACTIVE:
            passed = info.place == Place.BACKOFF and self.backoff_q.pops_early
            move = self._move(info, Place.ACTIVE, FORCE_ACTIVATE, now, pre_enqueue=not passed)
            moved.append(move)
        if info.place == Place.ACTIVE:
            self.active_q.delete(key)
            moved.append(self._move_to_in_flight(info, now))
        return (info if info.place == Place.IN_FLIGHT else None), Moves(moved)

    def add_unschedulable_if_not_present(self, info: QueuedPodInfo, now: float) -> Moves:
        """Give back a popped pod that could not be scheduled; its rejector plugins are set.

        The events during its attempt decide: the pod waits for the next event, backs off, or
        becomes active. The attempt is over in any case, as after `done`.
        Raises `PodAlreadyQueuedError` if a pod of its name is in the queue.
        """
        uid = info.uid
        try:
            self._refuse_if_queued(info.key)
            if info.unschedulable_plugins or info.pending_plugins:
                info.unschedulable_count += 1
                info.consecutive_errors_count = 0
            else:
                info.consecutive_errors_count += 1
            info.place = Place.IN_FLIGHT
            info.timestamp = now
            info.backoff_expiration = 0.0
            info.was_flushed_from_unschedulable, info.flushed_at = False, 0.0
            self.nominator.refresh(info.pod_info)
            self._count_reasons(info, +1)
            answers: list[HintAnswer] = []
            if isinstance(self.in_flight, UntrackedInFlight):
                retries = self.in_flight.had_event or not info.rejector_plugins
                target = Place.BACKOFF if retries else Place.UNSCHEDULABLE
                return _moves(self._move(info, target, SCHEDULE_ATTEMPT_FAILURE, now))
            missed = self.in_flight.missed_by(uid)
            strategy = self.hints.strategy_after_attempt(info, missed, answers)
            return _moves(self._requeue(info, strategy, SCHEDULE_ATTEMPT_FAILURE, now, answers))
        finally:
            self.in_flight.done(uid)

    def done(self, uid: str, now: float) -> Moves:
        """End the attempt of a popped pod that will not be given back, or misses no more events.

        A no-op for a pod that is not in flight.
        """
        if (info := self.in_flight.done(uid)) is None:
            return NO_MOVES
        if not isinstance(self.in_flight, UntrackedInFlight) or self.find(info.key) is None:
            self.nominator.strip(info.pod_info)
        info.place = Place.OUTSIDE
        return _moves(Move(now, info, Place.IN_FLIGHT, Place.OUTSIDE))

    def activate(self, pods: Mapping[str, PodInfo], now: float) -> Moves:
        """Make waiting pods active, whatever their backoff; PreEnqueue plugins may reject them.

        A pod in flight is retried after its backoff, if it is given back. Pods that are active or
        unknown are skipped.
        """
        moved, in_flight = [], self.in_flight.uids_with_events
        # A gang activates itself once per member, mostly in flight: few steps for each.
        others = [pod for pod in pods.values() if pod.uid not in in_flight]
        if len(others) < len(pods):
            for pod in pods.values():
                # A member of a pod group is retried in any case (see `QueueingHints`).
                if pod.uid in in_flight and not self.hints.is_member(pod):
                    self.in_flight.add_event(EVENT_FORCE_ACTIVATE, None, pod.pod)
        for pod in others:
            info = self.find(pod.key)
            if info is not None and info.place != Place.ACTIVE:
                passed = info.place == Place.BACKOFF and self.backoff_q.pops_early
                move = self._move(info, Place.ACTIVE, FORCE_ACTIVATE, now, pre_enqueue=not passed)
                moved.append(move)
        if isinstance(self.in_flight, UntrackedInFlight):
            is_active = len(pods) == sum(move.target == Place.ACTIVE for move in moved)
            self.in_flight.had_event = self.in_flight.had_event or not is_active
        return Moves(moved) if moved else NO_MOVES

    # Events.

    def move_all_to_active_or_backoff_queue(
        self,
        event: ClusterEvent,
        old_obj: object,
        new_obj: object,
        now: float,
        *,
        pre_check: Callable[[QueuedPodInfo], bool] | None = None,
    ) -> Moves:
        """Move the waiting pods that an event may help.

        `old_obj` and `new_obj` are the object before and after, None where there is none; they are
        passed to the hints. Pods that fail `pre_check` are left out. An event that no plugin has
        registered for is dropped; any other event is kept for the pods in flight. If the event
        moves very many pods, some are left for `requeue_some`.
        """
        registered = self.hints.registered_for(event)
        if not registered.is_of_interest:
            return NO_MOVES
        groups: Iterable[Mapping[str, QueuedPodInfo]]
        groups = self.unschedulable_pods.groups_for(registered)
        if pre_check is not None:
            pods = [info for group in groups for info in group.values() if pre_check(info)]
            groups = self.unschedulable_pods.in_groups(pods)
        decisions = self.hints.decide(groups, registered, old_obj, new_obj)
        moves = self._apply(decisions, registered, now)
        self.in_flight.add_event(event, old_obj, new_obj)
        return moves

    @property
    def requeues_left(self) -> bool:
        """True if events have decided to move pods that have not moved yet."""
        return bool(self._requeues)

    def requeue_some(self) -> Moves:
        """Move a part of the pods that are left from earlier events."""
        return Moves(self._requeues.move_some())

    # Time.

    def flush_backoff_q_completed(self, now: float) -> Moves:
        """Make pods active whose backoff is over; of very many, some are left for the next call."""
        completed = self.backoff_q.pop_backoff_completed(now, pods_max=self._requeues.pods_max)
        wanted: Iterator[Wanted] = ((info, Place.ACTIVE, ()) for info in completed)
        # Pods that may be popped from backoff have passed PreEnqueue before.
        moved = self._mover.move_all(
            wanted, BACKOFF_COMPLETE, now, pre_enqueue=not self.backoff_q.pops_early, taken=True
        )
        return Moves(moved)

    def flush_unschedulable_pods_leftover(self, now: float) -> Moves:
        """Move the pods that no event has helped for too long.

        Called at start and then every 30 seconds (`LeftoverFlush`). Gated pods are marked and stay;
        they too cause an event for the pods in flight.
        """
        self._leftover_flush.begin(now)
        overdue = self.unschedulable_pods.overdue(now, self._leftover_flush.max_wait_seconds)
        if not overdue:
            return NO_MOVES
        self.unschedulable_pods.begin_flush(overdue, now)
        registered = self.hints.registered_for(EVENT_UNSCHEDULABLE_TIMEOUT)
        groups = self.unschedulable_pods.in_groups(overdue)
        decisions = self.hints.decide(groups, registered, None, None)
        moves = self._apply(decisions, registered, now)
        self.unschedulable_pods.end_flush(overdue)
        self.in_flight.add_event(EVENT_UNSCHEDULABLE_TIMEOUT, None, None)
        return moves

    def flush_due(self, now: float) -> Moves:
        """Run the flushes that are due, at the moments at which upstream's timers run them."""
        moves = self.flush_backoff_q_completed(now)
        if self._leftover_flush.is_due(now, self.unschedulable_pods.oldest_timestamp):
            more = self.flush_unschedulable_pods_leftover(now)
            moves = Moves([*moves.moved, *more.moved], more.skipped)
        return moves

    def next_deadline(self) -> float | None:
        """Return when `flush_due` next has an effect, in epoch seconds; None if no pod waits.

        The deadline may lie in the past. A call that brings a pod here may make it earlier.
        """
        leftover = self._leftover_flush.deadline(self.unschedulable_pods.oldest_timestamp)
        deadlines = (self.backoff_q.next_deadline(), leftover)
        return min((d for d in deadlines if d is not None), default=None)

    # For debugging, metrics and tests.

    def active_pods(self, count: int) -> list[PodInfo]:
        """Return the next pods of the active queue, at most `count`, in order."""
        return [info.pod_info for info in self.active_q.first(count)]

    def find(self, key: str) -> QueuedPodInfo | None:
        """Return a waiting pod by `namespace/name`; None for other pods and pods in flight."""
        for pool in (self.active_q, self.backoff_q, self.unschedulable_pods):
            if (info := pool.get(key)) is not None:
                return info
        return None

    def in_flight_pods(self) -> list[Pod]:
        """Return the pods that were popped and are not done, the first popped first."""
        return _pods(self.in_flight.pods())

    def pending_pods(self) -> tuple[list[Pod], str]:
        """Return all waiting pods, and upstream's line with the number in each pool."""
        pods = [pod for pool in self.pools.values() for pod in _pods(pool.in_order())]
        sizes = (f"{name}:{len(pool)}" for name, pool in self.pools.items())
        return pods, "; ".join(sizes)

    def statistics(self) -> QueueStatistics:
        """Return the number of pods at each place; the first four are metric `pending_pods`."""
        return QueueStatistics(
            active=len(self.active_q),
            backoff=len(self.backoff_q),
            unschedulable=self.unschedulable_pods.unschedulable_total,
            gated=self.unschedulable_pods.gated_total,
            in_flight_pods=len(self.in_flight),
            in_flight_events=self.in_flight.events_total,
        )

    def check(self) -> None:
        """Verify every invariant; for tests, after each step. Slow.

        Raises AssertionError with a line for each broken invariant and the queue's contents.
        """
        wrong = list(complaints(self, self._less))
        if wrong:
            raise AssertionError("\n".join((*wrong, *contents(self))))

    # The moves.

    def _requeue(
        self,
        info: QueuedPodInfo,
        strategy: QueueingStrategy,
        event_label: str,
        now: float,
        answers: Sequence[HintAnswer],
    ) -> Move:
        target = self._mover.target_of(info, strategy, now)
        return self._move(info, target, event_label, now, answers)

    def _move(
        self,
        info: QueuedPodInfo,
        target: Place,
        event_label: str,
        now: float,
        answers: Sequence[HintAnswer] = (),
        *,
        pre_enqueue: bool = True,
    ) -> Move:
        wanted = (info, target, tuple(answers))
        (move,) = self._mover.move_all((wanted,), event_label, now, pre_enqueue=pre_enqueue)
        return move

    def _move_to_in_flight(self, info: QueuedPodInfo, now: float) -> Move:
        """Move a pod that was taken out of its pool; it is dropped if its uid is in flight."""
        source = info.place
        if self.in_flight.add(info):
            self._count_reasons(info, -1)
        else:
            _log.error(
                "Discarding the popped pod: the same pod is tracked in multiple places in the "
                "scheduler: %s",
                info.key,
            )
            info.place = Place.OUTSIDE
        return Move(now, info, source, info.place)

    def _apply(self, decisions: Decisions, registered: RegisteredHints, now: float) -> Moves:
        """Requeue pods, at once or in parts; gated ones stay together if one of them stays."""
        stay: list[Decision] = []
        decision_of: dict[str, Decision] = {}
        gating_keys: dict[Hashable, bool] = {}
        for decision in decisions.requeues:
            if self._gate.rejects_all(decision.pods, gating_keys):
                # As upstream, where each of them leaves the pool and enters it again.
                self.incoming_pods[Place.UNSCHEDULABLE, registered.label] += len(decision.pods)
                stay.append(decision)
            else:
                decision_of.update(dict.fromkeys(decision.pods, decision))
        self._requeues.add(decision_of, registered.label, now)
        moved = self._requeues.move_some()
        skipped = [
            HintsSkipped(now, pods, next(iter(pods.values())).place, registered.label, answers)
            for pods, _, answers in (*stay, *decisions.skips)
        ]
        return Moves(moved, skipped)

    def _refuse_if_queued(self, key: str) -> None:
        if (queued := self.find(key)) is not None:
            raise PodAlreadyQueuedError(key, queued.place)

    def _count_reasons(self, info: QueuedPodInfo, count: int) -> None:
        if rejectors := info.rejector_plugins:
            profile = info.pod_info.spec.scheduler_name
            for plugin in rejectors:
                self.unschedulable_reasons[plugin, profile] += count


def _moves(move: Move) -> Moves:
    return Moves((move,))


def _pods(infos: Iterable[QueuedPodInfo]) -> list[Pod]:
    return [info.pod_info.pod for info in infos]
