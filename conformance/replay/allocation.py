"""The state of the cluster as pods arrive: allocation, unschedulable pods and fragmentation.

Samples are taken at equal distances of *arrived load*: the requests of all pods on which the
scheduler has decided so far, in percent of the cluster. So a curve shows the scheduler's decisions
and not the speed of the machine.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from ..format.resources import part
from ..invariants.matching import node_affinity_matches
from ..judge.allocation import Allocation, PodShape, percent
from .amounts import NOTHING, Amounts, capacity_of, demand_of, total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .history import History, HistoryPod
    from .recording import Recorder

__all__ = ["Sample", "rules_of", "samples_by_load"]

_CPU: Final = Amounts._fields.index("cpu_milli")
_GPU: Final = Amounts._fields.index("gpu_milli")


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The state after a decision; percentages are of the cluster.

    The load is the arrived load in the cluster's scarce resource: GPUs, or CPU without GPUs.
    `Allocation` defines fragmentation.
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
    history: History, recorder: Recorder, *, start_seconds: float, samples: int
) -> list[Sample]:
    """Return samples from the first to the last decision; `unschedulable` pods wait."""
    cluster = _Cluster(history)
    arrived = cluster.arrived_loads([verdict.pod for verdict in recorder.verdicts])
    drawn: list[Sample] = []
    for number in _equally_distant(arrived, samples):
        seconds = recorder.verdicts[number - 1].seconds if number else start_seconds
        cluster.apply_placements(recorder, seconds)
        waiting = _last_before(recorder.unschedulable_counts, seconds)
        cpu, memory, gpu, _ = cluster.allocation.used_percent()
        drawn.append(
            Sample(
                load_percent=arrived[number],
                seconds=seconds - start_seconds,
                bound=cluster.pods,
                unschedulable=waiting,
                unschedulable_percent=100.0 * waiting / max(number, 1),
                cpu_percent=cpu,
                memory_percent=memory,
                gpu_percent=gpu,
                fragmentation_percent=cluster.allocation.fragmentation_percent(),
            )
        )
    return drawn


class _Cluster:
    """The history's nodes with the pods placed so far; resources are the fields of Amounts."""

    def __init__(self, history: History) -> None:
        self._demands = {pod.name: demand_of(pod) for pod in history.pods}
        self._row_of = {node.name: row for row, node in enumerate(history.nodes)}
        self._capacity = total(map(capacity_of, history.nodes))
        self._scarce = _GPU if self._capacity.gpu_milli else _CPU
        self._on_a_node: dict[str, tuple[int, Amounts]] = {}
        self._applied = 0
        kinds: dict[tuple[Amounts, bytes], list[HistoryPod]] = {}
        for pod in history.pods:
            kinds.setdefault((self._demands[pod.name], rules_of(pod)), []).append(pod)
        self.allocation = Allocation(
            map(capacity_of, history.nodes),
            columns=len(Amounts._fields),
            scarce=self._scarce,
            shapes=[
                PodShape(np.array(demand), _allowed(history, pods[0]), len(pods))
                for (demand, _), pods in kinds.items()
            ],
        )

    @property
    def pods(self) -> int:
        """The number of pods on nodes."""
        return len(self._on_a_node)

    def arrived_loads(self, pods: Sequence[str]) -> list[float]:
        """Return the load before the first and after each of these pods, ascending."""
        loads = [0.0]
        for name in pods:
            demand = self._demands.get(name, NOTHING)[self._scarce]
            loads.append(loads[-1] + percent(demand, self._capacity[self._scarce]))
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
                self.allocation.remove(row, demand)
            row = self._row_of.get(placement.node, -1)
            if row >= 0:
                demand = self._demands.get(placement.pod, NOTHING)
                self._on_a_node[placement.uid] = row, demand
                self.allocation.add(row, demand)


def rules_of(pod: HistoryPod) -> bytes:
    """Return the node selector and the affinity of a pod, as bytes."""
    spec = part(pod.object, "spec")
    rules = {name: spec[name] for name in ("nodeSelector", "affinity") if name in spec}
    return msgspec.json.encode(rules, order="deterministic")


def _allowed(history: History, pod: HistoryPod) -> NDArray[np.bool_]:
    """Return the nodes that a pod's node selector and affinity allow."""
    return np.array([node_affinity_matches(pod.object, node.object) for node in history.nodes])


def _equally_distant(arrived: Sequence[float], samples: int) -> list[int]:
    """Return the numbers of decisions at equal distances of load, the last one included."""
    loads = np.linspace(0.0, arrived[-1], samples)
    numbers = [bisect.bisect_right(arrived, load) - 1 for load in loads[:-1]]
    return [*numbers, len(arrived) - 1]


def _last_before(counts: Sequence[tuple[float, int]], seconds: float) -> int:
    index = bisect.bisect_right(counts, seconds, key=lambda count: count[0])
    return counts[index - 1][1] if index else 0
