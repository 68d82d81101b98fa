"""Which waiting pods an event may help, found by asking about one pod of each group.

What the hints say of one pod holds for all that they see no difference between, but for the pods
that the event is about, if it is about any. A hint that fails is asked about each pod: its error is
logged with the pod's name, and may well be about that pod alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.core import Pod
from scheduler.framework.events import match_any_cluster_event
from scheduler.queue.pools import waiting_place
from scheduler.queue.requeueing import QueueingStrategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scheduler.queue.observer import HintAnswer
    from scheduler.queue.pools import Pools
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.queue.requeueing import Interest, Requeueing
    from scheduler.queue.unschedulable_pods import PodGroup


class Worth(NamedTuple):
    """A pod that is to be tried again, how soon, and what the hints have said."""

    pod: QueuedPodInfo
    strategy: QueueingStrategy
    asked: list[HintAnswer]


class GroupHints:
    """Asks the hints about waiting pods, and tells the observer of those that stay."""

    def __init__(self, requeueing: Requeueing, pools: Pools) -> None:
        self._requeueing: Final = requeueing
        self._pools: Final = pools

    def worth_moving(
        self, groups: Iterable[PodGroup], interest: Interest, old_obj: object, new_obj: object
    ) -> list[Worth]:
        """The pods of these groups that the event may help, in the order in which they came."""
        about = [obj for obj in (old_obj, new_obj) if isinstance(obj, Pod)]
        found = [
            worth
            for group in groups
            for worth in self._of_group(group, interest, old_obj, new_obj, about)
        ]
        turn_of = self._pools.unschedulable_pods.turn_of
        return sorted(found, key=lambda worth: turn_of(worth.pod))

    def each_worth_moving(
        self, pods: Iterable[QueuedPodInfo], interest: Interest, old_obj: object, new_obj: object
    ) -> Iterator[Worth]:
        """Those of some pods that the event may help, each asked about."""
        for pod in pods:
            if not _may_move(pod, interest):
                continue
            worth = self._of_pod(pod, interest, old_obj, new_obj)
            if worth.strategy != QueueingStrategy.QUEUE_SKIP:
                yield worth
            elif worth.asked:
                place = waiting_place(pod)
                self._pools.tell(pod, place, place, interest.label, worth.asked)

    def _of_group(
        self,
        group: PodGroup,
        interest: Interest,
        old_obj: object,
        new_obj: object,
        about: Iterable[Pod],
    ) -> Iterable[Worth]:
        first = next(iter(group.values()))
        if not _may_move(first, interest):
            return ()
        if len(group) == 1 or any(pod.key in group for pod in about):
            return self.each_worth_moving(group.values(), interest, old_obj, new_obj)
        worth = self._of_pod(first, interest, old_obj, new_obj)
        _, strategy, asked = worth
        if any(answer.answer == "Error" for answer in asked):
            others = list(group.values())[1:]
            return [worth, *self.each_worth_moving(others, interest, old_obj, new_obj)]
        if strategy != QueueingStrategy.QUEUE_SKIP:
            return [Worth(pod, strategy, asked) for pod in group.values()]
        if asked:
            self._pools.tell_stay(group, interest.label, asked)
        return ()

    def _of_pod(
        self, pod: QueuedPodInfo, interest: Interest, old_obj: object, new_obj: object
    ) -> Worth:
        asked: list[HintAnswer] = []
        strategy = self._requeueing.is_pod_worth_requeuing(pod, interest, old_obj, new_obj, asked)
        return Worth(pod, strategy, asked)


def _may_move(pod: QueuedPodInfo, interest: Interest) -> bool:
    """Whether a pod is out of its gate, or its gating plugin wants to hear of the event."""
    return not pod.is_gated or match_any_cluster_event(interest.event, pod.gating_plugin_events)
