"""SchedulingGates: keep a pod with scheduling gates out of the queue until all gates are gone.

Mirrors `pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.events import ActionType, ClusterEventWithHint
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Status, unresolvable
from scheduler.plugins._queueing_hints import queue_for_itself

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
        return self.on_pods(queue_for_itself, target=gates_eliminated)

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        return ()
