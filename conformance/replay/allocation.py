"""The allocation of the cluster over time: a running sum over the placements."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, NamedTuple

from .amounts import NOTHING, Amounts, capacity_of_row, demand_of_row, total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .recording import Placement, Verdict
    from .trace import Trace

__all__ = ["Sample", "allocation_over_time"]


class Sample(NamedTuple):
    """One moment: seconds since the first pod was sent, pods so far, percent of the cluster."""

    seconds: float
    bound: int
    unschedulable: int
    cpu_percent: float
    memory_percent: float
    gpu_percent: float


def allocation_over_time(
    trace: Trace,
    placements: Sequence[Placement],
    verdicts: Sequence[Verdict],
    *,
    start_seconds: float,
    samples: int,
) -> list[Sample]:
    """Return samples at equal distances from `start_seconds` to the last verdict, both included.

    `unschedulable` counts pods whose first verdict was that; a pod bound later counts in both.
    """
    end_seconds = max(
        [start_seconds, *(p.seconds for p in placements[-1:]), *(v.seconds for v in verdicts[-1:])]
    )
    times = [
        start_seconds + (end_seconds - start_seconds) * index / max(samples - 1, 1)
        for index in range(samples)
    ]
    times[-1] = end_seconds  # rounding must not leave out the last placement
    refusals = [verdict.seconds for verdict in verdicts if not verdict.bound]
    capacity = total(map(capacity_of_row, trace.nodes))
    states = _states(trace, placements, times)
    return [
        Sample(
            seconds=moment - start_seconds,
            bound=used.pods,
            unschedulable=bisect.bisect_right(refusals, moment),
            cpu_percent=_percent(used.cpu_milli, capacity.cpu_milli),
            memory_percent=_percent(used.memory_bytes, capacity.memory_bytes),
            gpu_percent=_percent(used.gpu_milli, capacity.gpu_milli),
        )
        for moment, used in zip(times, states, strict=True)
    ]


def _states(trace: Trace, placements: Sequence[Placement], times: Sequence[float]) -> list[Amounts]:
    """Return the requests of all bound pods at each of the times (ascending)."""
    demands = {pod.name: demand_of_row(pod) for pod in trace.pods}
    on_a_node: dict[str, Amounts] = {}
    states: list[Amounts] = []
    used, next_placement = NOTHING, 0
    for moment in times:
        while next_placement < len(placements) and placements[next_placement].seconds <= moment:
            placement = placements[next_placement]
            next_placement += 1
            used = used.minus(on_a_node.pop(placement.uid, NOTHING))
            if placement.node:
                on_a_node[placement.uid] = demands.get(placement.pod, NOTHING)
                used = used.plus(on_a_node[placement.uid])
        states.append(used)
    return states


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
