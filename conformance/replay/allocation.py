"""The state of the cluster as pods arrive: allocation, unschedulable pods and fragmentation.

Samples are taken at equal distances of *arrived load*: the requests of all pods on which the
scheduler has decided so far, in percent of the cluster. So a curve shows the scheduler's decisions
and not the speed of the machine.
"""

from __future__ import annotations

import bisect
import collections
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from .amounts import NOTHING, Amounts, capacity_of_row, demand_of_row, total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .recording import Recorder
    from .trace import Trace

__all__ = ["Sample", "samples_by_load"]

_CPU: Final = Amounts._fields.index("cpu_milli")
_GPU: Final = Amounts._fields.index("gpu_milli")


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The state after a decision; percentages are of the cluster.

    The load is the arrived load in the cluster's scarce resource: GPUs, or CPU without GPUs.
    Fragmentation is the free part of this resource on nodes that do not fit a pod of the trace
    that requests it, averaged over these pods (fragmentation gradient descent, USENIX ATC 2023).
    """

    load_percent: float
    seconds: float
    bound: int
    unschedulable: int
    unschedulable_percent: float
    cpu_percent: float
    memory_percent: float
    gpu_percent: float
    fragmentation_percent: float


def samples_by_load(
    trace: Trace, recorder: Recorder, *, start_seconds: float, samples: int
) -> list[Sample]:
    """Return samples from the first to the last decision; `unschedulable` are those that wait."""
    cluster = _Cluster(trace)
    arrived = cluster.arrived_loads([verdict.pod for verdict in recorder.verdicts])
    found: list[Sample] = []
    for number in _equally_distant(arrived, samples):
        seconds = recorder.verdicts[number - 1].seconds if number else start_seconds
        cluster.apply_placements(recorder, seconds)
        waiting = _last_before(recorder.unschedulable_counts, seconds)
        used = cluster.used_percent()
        found.append(
            Sample(
                load_percent=arrived[number],
                seconds=seconds - start_seconds,
                bound=used.pods,
                unschedulable=waiting,
                unschedulable_percent=100.0 * waiting / max(number, 1),
                cpu_percent=used.cpu_percent,
                memory_percent=used.memory_percent,
                gpu_percent=used.gpu_percent,
                fragmentation_percent=cluster.fragmentation_percent(),
            )
        )
    return found


class _Used(NamedTuple):
    pods: int
    cpu_percent: float
    memory_percent: float
    gpu_percent: float


class _Cluster:
    """Nodes and the pods on them, as arrays of nodes by resources (the fields of Amounts)."""

    def __init__(self, trace: Trace) -> None:
        self._demands = {pod.name: demand_of_row(pod) for pod in trace.pods}
        self._row_of = {node.name: row for row, node in enumerate(trace.nodes)}
        self._free = np.array([capacity_of_row(node) for node in trace.nodes], dtype=np.int64)
        self._capacity = total(map(capacity_of_row, trace.nodes))
        self._scarce = _GPU if self._capacity.gpu_milli else _CPU
        self._on_a_node: dict[str, tuple[int, Amounts]] = {}
        self._applied = 0
        kinds = collections.Counter(
            (demand, pod.models)
            for pod in trace.pods
            if (demand := demand_of_row(pod))[self._scarce]
        )
        self._shares = np.array(list(kinds.values())) / max(kinds.total(), 1)
        self._kinds = [
            (
                np.array(demand),
                np.array([node.model in models for node in trace.nodes]) | (not models),
            )
            for demand, models in kinds
        ]

    def arrived_loads(self, pods: Sequence[str]) -> list[float]:
        """Return the load before the first and after each of these pods, ascending."""
        loads = [0.0]
        for name in pods:
            demand = self._demands.get(name, NOTHING)[self._scarce]
            loads.append(loads[-1] + _percent(demand, self._capacity[self._scarce]))
        return loads

    def apply_placements(self, recorder: Recorder, until_seconds: float) -> None:
        """Apply all placements up to a time; times of successive calls ascend."""
        while self._applied < len(recorder.placements):
            placement = recorder.placements[self._applied]
            if placement.seconds > until_seconds:
                return
            self._applied += 1
            row, demand = self._on_a_node.pop(placement.uid, (-1, NOTHING))
            if row >= 0:
                self._free[row] += demand
            row = self._row_of.get(placement.node, -1)
            if row >= 0:
                demand = self._demands.get(placement.pod, NOTHING)
                self._on_a_node[placement.uid] = row, demand
                self._free[row] -= demand

    def used_percent(self) -> _Used:
        """Return the allocated part of the cluster."""
        used = Amounts(*self._capacity).minus(Amounts(*map(int, self._free.sum(axis=0))))
        cpu, memory, gpu, _ = map(_percent, used, self._capacity)
        return _Used(len(self._on_a_node), cpu, memory, gpu)

    def fragmentation_percent(self) -> float:
        """Return the free part of the scarce resource that an average pod cannot use."""
        free = np.maximum(self._free[:, self._scarce], 0)
        unusable = [free[~self._fits(demand, models)].sum() for demand, models in self._kinds]
        if not unusable:
            return 0.0
        return _percent(float(self._shares @ np.array(unusable)), self._capacity[self._scarce])

    def _fits(self, demand: NDArray[np.int64], models: NDArray[np.bool_]) -> NDArray[np.bool_]:
        wanted = demand > 0
        fits: NDArray[np.bool_] = (self._free[:, wanted] >= demand[wanted]).all(axis=1) & models
        return fits


def _equally_distant(arrived: Sequence[float], samples: int) -> list[int]:
    """Return the numbers of decisions at equal distances of load, the last one included."""
    loads = np.linspace(0.0, arrived[-1], samples)
    numbers = [bisect.bisect_right(arrived, load) - 1 for load in loads[:-1]]
    return [*numbers, len(arrived) - 1]


def _last_before(counts: Sequence[tuple[float, int]], seconds: float) -> int:
    index = bisect.bisect_right(counts, seconds, key=lambda count: count[0])
    return counts[index - 1][1] if index else 0


def _percent(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else 0.0
