"""SchedulingGates: a pod with scheduling gates stays out of the queue until all are gone.

Mirrors `pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.api.core import Pod
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    as_kind,
)
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Status, unresolvable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.snapshot.pod_info import PodInfo


class SchedulingGates(Plugin):
    """Keep gated pods aside."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Reject a pod that has a gate, naming all of them."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return unresolvable(f"waiting for scheduling gates: [{names}]")

    def events_to_register(self) -> list[ClusterEventWithHint]:
        """A pod whose last gate is removed."""
        gates_eliminated = ClusterEvent(
            EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        )
        return [ClusterEventWithHint(gates_eliminated, self.is_schedulable_after_gates_eliminated)]

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        """Nothing of other pods than the one that has changed."""
        return ()

    def is_schedulable_after_gates_eliminated(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if it is this pod that has lost its gates."""
        _, modified = as_kind(Pod, old, new)
        is_this_pod = modified is not None and modified.metadata.uid == pod.uid
        return QueueingHint.QUEUE if is_this_pod else QueueingHint.QUEUE_SKIP
