"""Moves pods between the pools of the scheduling queue, many at once.

An event may move tens of thousands of pods in one call, which holds the event loop. So whatever is
equal for all of them is done once, and the rest takes few steps for each.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

from scheduler.framework.events import DEFAULT_POD_EVENTS, POD_EVENTS_OF_1_37, ActionType
from scheduler.klog import V5
from scheduler.queue.hints import QueueingStrategy
from scheduler.queue.queued_pod_info import POPPABLE, HintAnswer, Move, Place, QueuedPodInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scheduler.queue.backoff_queue import BackoffQueue
    from scheduler.queue.gating import Gate
    from scheduler.queue.hints import Decision
    from scheduler.queue.invariants import Pool
    from scheduler.queue.nominator import Nominator

_log: Final = logging.getLogger(__name__)

#: A pod, where it shall go, and the answers of the hints that decided.
Wanted: TypeAlias = tuple[QueuedPodInfo, Place, tuple[HintAnswer, ...]]

# Members are looked up once: each look-up costs as much as the call of a function.
_ACTIVE: Final = Place.ACTIVE
_IMMEDIATELY: Final = QueueingStrategy.QUEUE_IMMEDIATELY
_SKIP: Final = QueueingStrategy.QUEUE_SKIP

#: The causes after which an active pod is nominated to the node that its status names.
_NOMINATING: Final = frozenset(
    events.label(action)
    for events in (DEFAULT_POD_EVENTS, POD_EVENTS_OF_1_37)
    for action in (ActionType.ADD, ActionType.UPDATE)
)


class PodMover:
    """Moves pods between the pools, which are by the places of their pods.

    `incoming_pods` counts the arrivals by queue and event.
    """

    def __init__(
        self,
        pool_at: Mapping[Place, Pool],
        backoff_q: BackoffQueue,
        gate: Gate,
        nominator: Nominator,
    ) -> None:
        self.incoming_pods: Final[Counter[tuple[str, str]]] = Counter()
        self._pool_at: Final = pool_at
        self._backoff_q: Final = backoff_q
        self._gate: Final = gate
        self._nominator: Final = nominator

    def target_of(self, info: QueuedPodInfo, strategy: QueueingStrategy, now: float) -> Place:
        """Return where a strategy leads. A pod whose backoff is over becomes active at once."""
        if strategy == _SKIP:
            return Place.UNSCHEDULABLE
        if strategy == _IMMEDIATELY or not self._backoff_q.is_pod_backing_off(info, now):
            return _ACTIVE
        return Place.BACKOFF

    def requeue_all(
        self,
        taken: Iterable[QueuedPodInfo],
        decision_of: Mapping[str, Decision],
        event_label: str,
        now: float,
    ) -> list[Move]:
        """Move pods that are taken out of their pools, as it was decided for each key."""
        wanted = self._wanted(taken, decision_of, now)
        return self.move_all(wanted, event_label, now, taken=True)

    def _wanted(
        self, pods: Iterable[QueuedPodInfo], decision_of: Mapping[str, Decision], now: float
    ) -> Iterator[Wanted]:
        target_of = self.target_of
        for info in pods:
            _, strategy, answers = decision_of[info.key]
            yield info, target_of(info, strategy, now), answers

    def move_all(
        self,
        wanted: Iterable[Wanted],
        event_label: str,
        now: float,
        *,
        pre_enqueue: bool = True,
        taken: bool = False,
    ) -> list[Move]:
        """Move each pod from its place to its target; all arrivals in a pool are made here.

        If a PreEnqueue plugin rejects a pod, it is gated instead. `pre_enqueue` is False for pods
        that have passed PreEnqueue before, as those in backoff have. `taken` is True for pods that
        are out of their pools already.
        """
        moves: list[Move] = []
        arrivals: Counter[Place] = Counter()
        run_pre_enqueue_plugins, pool_at = self._gate.run_pre_enqueue_plugins, self._pool_at
        poppable = self._backoff_q.poppable
        logs, nominates = _log.isEnabledFor(V5), event_label in _NOMINATING
        for info, target, answers in wanted:
            source, failure = info.place, None
            if pre_enqueue and target in poppable:
                failure = run_pre_enqueue_plugins(info)
                if info.gating_plugin:
                    target = Place.GATED
            if target == _ACTIVE and info.initial_attempt_timestamp is None:
                info.initial_attempt_timestamp = now
            pool = pool_at[target]
            if not taken:
                left = pool_at.get(source)
                if left is not None and left is not pool:
                    left.delete(info.key)
            if pool.add(info):
                arrivals[info.place] += 1
                if logs:
                    _log_arrival(info, event_label)
            if target not in POPPABLE:
                self._nominator.refresh(info.pod_info)
            elif nominates and target == _ACTIVE:
                self._nominator.add_nominated_pod(info.pod_info, None)
            moves.append(Move(now, info, source, info.place, event_label, answers, failure))
        for place, count in arrivals.items():
            # Upstream's metric has no label for gated pods: they enter the unschedulable ones.
            queue = Place.UNSCHEDULABLE if place == Place.GATED else place
            self.incoming_pods[queue, event_label] += count
        return moves


def _log_arrival(info: QueuedPodInfo, event_label: str) -> None:
    _log.log(
        V5,
        "Pod moved to an internal scheduling queue",
        {"pod": info.key, "event": event_label, "queue": str(info.place)},
    )
