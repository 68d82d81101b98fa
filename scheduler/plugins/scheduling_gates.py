"""SchedulingGates: keep a pod with scheduling gates out of the queue until all gates are gone.

Mirrors `pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Status, unresolvable
from scheduler.plugins._queueing_hints import updated_self

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.snapshot.pod_info import PodInfo


class SchedulingGates(Plugin):
    """Keep gated pods out of the queue."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Reject a pod that has gates; the status names them."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return unresolvable(f"waiting for scheduling gates: [{names}]")

    def events_to_register(self) -> list[ClusterEventWithHint]:
        gates_eliminated = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        hint = self.is_schedulable_after_gates_eliminated
        return self.on_pods(hint, target=gates_eliminated)

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        return ()

    def is_schedulable_after_gates_eliminated(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        return QueueingHint(updated_self(pod, old, new) is not None)
