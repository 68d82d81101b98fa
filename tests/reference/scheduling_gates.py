"""SchedulingGates: `schedulinggates/scheduling_gates.go`."""

from __future__ import annotations

from scheduler.api.core import Pod
from tests.reference.cluster import UNRESOLVABLE, Verdict


def pre_enqueue(pod: Pod) -> Verdict | None:
    gates = [gate.name for gate in pod.spec.scheduling_gates]
    if gates:
        return UNRESOLVABLE, ("waiting for scheduling gates: [" + " ".join(gates) + "]",)
    return None
