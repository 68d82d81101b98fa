"""The three pools of waiting pods, and the elementary moves into them.

Here it is decided whether a pod may enter where it is sent (PreEnqueue, is it backing off), and
every arrival is counted and told. Why pods are sent anywhere is for `PriorityQueue` to know.
Source: `moveToActiveQ`, `moveToBackoffQ`, `requeuePodWithQueueingStrategy`.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from scheduler.framework.events import (
    EVENT_UNSCHEDULED_POD_ADD,
    EVENT_UNSCHEDULED_POD_UPDATE,
)
from scheduler.queue.active_queue import ActiveQueue
from scheduler.queue.backoff_queue import BackoffQueue
from scheduler.queue.observer import Place, PodMove, PodsStay
from scheduler.queue.requeueing import QueueingStrategy
from scheduler.queue.unschedulable_pods import UnschedulablePods

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Container, Hashable, Sequence

    from scheduler.queue.gating import Gate
    from scheduler.queue.heap import SortKey
    from scheduler.queue.nominator import Nominator
    from scheduler.queue.observer import HintAnswer, QueueObserver
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.queue.unschedulable_pods import PodGroup

#: The places from which a pod can be popped.
POPPABLE: Final = (Place.ACTIVE, Place.BACKOFF)

#: A pod that becomes active because of one of these is nominated to the node in its status.
_NOMINATING: Final = (EVENT_UNSCHEDULED_POD_ADD.label, EVENT_UNSCHEDULED_POD_UPDATE.label)


class Pools:
    """Active, backing off, unschedulable or gated: a waiting pod is in exactly one of them."""

    def __init__(
        self,
        *,
        sort_key: Callable[[QueuedPodInfo], SortKey],
        initial_backoff_seconds: float,
        max_backoff_seconds: float,
        wait_seconds_max: float,
        known_profiles: Container[str],
        likeness: Callable[[QueuedPodInfo], Hashable],
        gate: Gate,
        nominator: Nominator,
        on_deadline: Callable[[], None],
        observer: QueueObserver | None,
        log: logging.Logger,
    ) -> None:
        self.active_q: Final = ActiveQueue(sort_key)
        self.backoff_q: Final = BackoffQueue(
            initial_backoff_seconds=initial_backoff_seconds,
            max_backoff_seconds=max_backoff_seconds,
            sort_key=sort_key,
        )
        self.unschedulable_pods: Final = UnschedulablePods(known_profiles, likeness)
        self.incoming_pods: Final[Counter[tuple[str, str]]] = Counter()
        #: The time, as the last call had it.
        self.now = 0.0
        #: The earliest deadline that the driver of the queue knows of.
        self.announced_deadline = math.inf
        self._wait_seconds_max: Final = wait_seconds_max
        self._gate: Final = gate
        self._nominator: Final = nominator
        self._on_deadline: Final = on_deadline
        self._observer: Final = observer
        self._log: Final = log

    def place_of(self, key: str) -> Place:
        """Where a pod waits; `OUTSIDE` if it does not."""
        if key in self.active_q:
            return Place.ACTIVE
        if key in self.backoff_q:
            return Place.BACKOFF
        info = self.unschedulable_pods.get(key)
        return Place.OUTSIDE if info is None else waiting_place(info)

    def find(self, key: str) -> QueuedPodInfo | None:
        """A waiting pod, wherever it is."""
        for pool in (self.backoff_q, self.unschedulable_pods, self.active_q):
            if (info := pool.get(key)) is not None:
                return info
        return None

    def requeue(
        self,
        info: QueuedPodInfo,
        strategy: QueueingStrategy,
        source: Place,
        event_label: str,
        hints: Sequence[HintAnswer] | None = None,
    ) -> Place:
        """Send a pod where a strategy says; where it has arrived (gated counts as unschedulable).

        A pod whose backoff ended while it waited becomes active straight away.
        """
        if strategy == QueueingStrategy.QUEUE_SKIP:
            self._set_aside(info, source, event_label, hints)
            return Place.UNSCHEDULABLE
        if strategy == QueueingStrategy.QUEUE_AFTER_BACKOFF and self.backoff_q.is_pod_backing_off(
            info, self.now
        ):
            entered = self.move_to_backoff_q(info, source, event_label, hints)
            return Place.BACKOFF if entered else Place.UNSCHEDULABLE
        entered = self.move_to_active_q(info, source, event_label, hints)
        return Place.ACTIVE if entered else Place.UNSCHEDULABLE

    def move_to_active_q(
        self,
        info: QueuedPodInfo,
        source: Place,
        event_label: str,
        hints: Sequence[HintAnswer] | None = None,
        *,
        skip_pre_enqueue: bool = False,
    ) -> bool:
        """Make a pod active, wherever it is; False if a PreEnqueue plugin objects.

        It is then gated, unless it is active or backing off: there it stays. A pod that moves here
        from backoff has passed PreEnqueue on its way there; it skips it now.
        """
        key = info.key
        if not skip_pre_enqueue:
            self._gate.run_pre_enqueue_plugins(info)
            if info.is_gated:
                if key not in self.active_q and key not in self.backoff_q:
                    self._set_aside(info, source, event_label, hints)
                return False
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = self.now
        self.unschedulable_pods.delete(key)
        self.backoff_q.delete(key)
        self.active_q.add(key, info)
        self._arrived(info, source, Place.ACTIVE, event_label, hints)
        if event_label in _NOMINATING:
            self._nominator.add_nominated_pod(info.pod_info, None)
        return True

    def move_to_backoff_q(
        self,
        info: QueuedPodInfo,
        source: Place,
        event_label: str,
        hints: Sequence[HintAnswer] | None = None,
    ) -> bool:
        """Let a pod back off; False if a PreEnqueue plugin objects, and it is gated instead.

        Asked now and not when the backoff is over: from here the pod may be popped.
        """
        self._gate.run_pre_enqueue_plugins(info)
        if info.is_gated:
            self._set_aside(info, source, event_label, hints)
            return False
        key = info.key
        self.unschedulable_pods.delete(key)
        if self.backoff_q.add(key, info):
            self._arrived(info, source, Place.BACKOFF, event_label, hints)
        else:
            self._log.error("Pod %s was added to backoffQ while it was in its other half", key)
        self._note_deadline(self.backoff_q.release_time(info))
        return True

    def _set_aside(
        self,
        info: QueuedPodInfo,
        source: Place,
        event_label: str,
        hints: Sequence[HintAnswer] | None,
    ) -> None:
        """Let a pod wait for an event. One that waits already is filed anew, and not counted."""
        target = waiting_place(info)
        self._nominator.refresh(info.pod_info)
        if self.unschedulable_pods.add_or_update(info.key, info):
            self._arrived(info, source, target, event_label, hints)
        else:
            self.tell(info, source, target, event_label, hints)
        if self.unschedulable_pods.oldest() is info:
            self._note_deadline(info.timestamp + self._wait_seconds_max)

    def _arrived(
        self,
        info: QueuedPodInfo,
        source: Place,
        target: Place,
        event_label: str,
        hints: Sequence[HintAnswer] | None,
    ) -> None:
        # Upstream's metric has no label for gated pods: they enter the unschedulable ones.
        queue = Place.UNSCHEDULABLE if target == Place.GATED else target
        self.incoming_pods[queue, event_label] += 1
        self._log.debug(
            "Pod moved to an internal scheduling queue: pod=%s event=%s queue=%s",
            info, event_label, target,
        )  # fmt: skip
        self.tell(info, source, target, event_label, hints)

    def tell(
        self,
        info: QueuedPodInfo,
        source: Place,
        target: Place,
        event_label: str = "",
        hints: Sequence[HintAnswer] | None = None,
    ) -> None:
        """Tell the observer, if any, that a pod has moved, or was asked about and stays."""
        if self._observer is not None:
            self._observer.pod_moved(
                PodMove(self.now, info, source, target, event_label, tuple(hints or ()))
            )

    def tell_stay(self, group: PodGroup, event_label: str, hints: Sequence[HintAnswer]) -> None:
        """Tell the observer, if any, that an event does not help any pod of a group."""
        if self._observer is not None:
            place = waiting_place(next(iter(group.values())))
            self._observer.pods_stay(PodsStay(self.now, group, place, event_label, tuple(hints)))

    def _note_deadline(self, deadline: float) -> None:
        if deadline < self.announced_deadline:
            self.announced_deadline = deadline
            self._on_deadline()


def waiting_place(info: QueuedPodInfo) -> Place:
    """What a pod that waits for an event is called."""
    return Place.GATED if info.is_gated else Place.UNSCHEDULABLE
