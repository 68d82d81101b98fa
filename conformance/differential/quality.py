"""The quality of placements, in numbers by which two runs of one scenario can be compared."""

from __future__ import annotations

import collections
import math
import statistics
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from ..format.reading import is_over, node_of, short_name_of
from ..format.resources import NANO, amounts, part, pod_requests
from ..judge.allocation import Allocation, PodShape

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Sequence

    from ..api import Json
    from ..run.observation import Observation

_PODS: Final = "pods"
_CPU: Final = "cpu"
_MEMORY: Final = "memory"
_MILLI: Final = NANO // 1000


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """The measures of one run. Percentages are of the cluster at the end of the run.

    `Allocation` defines fragmentation and spread, here for the resource of which the pods request
    the largest part of the cluster; restrictions other than resources do not count. Pods that were
    created without a node have waiting times, until their binding or the end. `writes` is not a
    number in a running cluster, where requests are not seen.
    """

    pods: float = 0
    bound: float = 0
    pending: float = 0
    cpu_percent: float = 0.0
    memory_percent: float = 0.0
    scarce_percent: float = 0.0
    fragmentation_percent: float = 0.0
    spread_percent: float = 0.0
    nodes_used: float = 0
    preemptions: float = 0
    attempts: float = 0
    waiting_mean_seconds: float = 0.0
    waiting_max_seconds: float = 0.0
    writes: float = 0


#: The text of each measure, and whether scenarios are added up (or else averaged).
MEASURES: Final[dict[str, tuple[str, bool]]] = {
    "pods": ("pods", True),
    "bound": ("bound by the scheduler", True),
    "pending": ("without a node at the end", True),
    "cpu_percent": ("CPU allocated, %", False),
    "memory_percent": ("memory allocated, %", False),
    "scarce_percent": ("most requested resource allocated, %", False),
    "fragmentation_percent": ("of it free and unusable (fragmentation), %", False),
    "spread_percent": ("of it between nodes (standard deviation), %", False),
    "nodes_used": ("nodes with pods", True),
    "preemptions": ("pods preempted", True),
    "attempts": ("attempts", True),
    "waiting_mean_seconds": ("waiting time, mean, s", False),
    "waiting_max_seconds": ("waiting time, longest, s", False),
    "writes": ("writes to the API server", True),
}


def quality_of(seen: Observation) -> Quality:
    """Return the measures of a run."""
    tried = [pod for pod in seen.pods if pod.by_scheduler or not pod.node]
    waiting = [pod.waiting_seconds(seen.end_seconds) for pod in tried]
    cluster = _Cluster(seen.objects("Node"), seen.objects("Pod"), [pod.object for pod in seen.pods])
    return Quality(
        pods=len(seen.pods),
        bound=len(seen.placements),
        pending=sum(pod.is_pending for pod in seen.pods),
        cpu_percent=cluster.used_percent(_CPU),
        memory_percent=cluster.used_percent(_MEMORY),
        scarce_percent=cluster.used_percent(cluster.scarce),
        fragmentation_percent=cluster.allocation.fragmentation_percent(),
        spread_percent=cluster.allocation.spread_percent(),
        nodes_used=cluster.allocation.nodes_used,
        preemptions=len(seen.preempted),
        attempts=sum(pod.attempts for pod in seen.pods),
        waiting_mean_seconds=statistics.fmean(waiting) if waiting else 0.0,
        waiting_max_seconds=max(waiting, default=0.0),
        writes=math.nan if seen.writes is None else len(seen.writes),
    )


def mean_quality(qualities: Sequence[Quality]) -> Quality:
    """Return the measures of several runs: counts added up, other measures averaged."""
    values: dict[str, float] = {}
    for name, (_, is_sum) in MEASURES.items():
        of_each = [float(getattr(quality, name)) for quality in qualities]
        values[name] = sum(of_each) if is_sum or not of_each else statistics.fmean(of_each)
    return Quality(**values)


class _Cluster:
    """Nodes with the pods on them at the end. `ever` are all pods, whose requests are the load."""

    def __init__(self, nodes: Iterable[Json], pods: Iterable[Json], ever: Iterable[Json]) -> None:
        capacity = {
            short_name_of(node): amounts(part(node, "status").get("allocatable")) for node in nodes
        }
        row_of = {name: row for row, name in enumerate(capacity)}
        names = {name for each in capacity.values() for name in each} | {_CPU, _MEMORY}
        self._names = sorted(names - {_PODS})
        load = [_requests(pod) for pod in ever]
        self.scarce = self._most_requested(capacity.values(), load)
        shapes = collections.Counter(self._row(requests) for requests in load)
        everywhere = np.ones(len(capacity), dtype=np.bool_)
        self.allocation = Allocation(
            [self._row(each) for each in capacity.values()],
            columns=len(self._names),
            scarce=self._names.index(self.scarce),
            shapes=[
                PodShape(np.array(demand, dtype=np.int64), everywhere, number)
                for demand, number in shapes.items()
            ],
        )
        for pod in pods:
            row = row_of.get(node_of(pod))
            if row is not None and not is_over(pod):
                self.allocation.add(row, self._row(_requests(pod)))
        self._used = dict(zip(self._names, self.allocation.used_percent(), strict=True))

    def used_percent(self, resource: str) -> float:
        """Return the allocated part of a resource."""
        return self._used[resource]

    def _row(self, amounts: Counter[str]) -> tuple[int, ...]:
        # Thousandths of a CPU, whole units of everything else: both fit into 64 bits.
        return tuple(amounts[name] // (_MILLI if name == _CPU else NANO) for name in self._names)

    def _most_requested(self, capacity: Iterable[Counter[str]], load: list[Counter[str]]) -> str:
        """Return the resource of which the pods request the largest part; CPU without requests."""
        has = sum(capacity, collections.Counter[str]())
        wanted = sum(load, collections.Counter[str]())
        shares = {name: wanted[name] / has[name] for name in self._names if has[name]}
        best = max(shares.values(), default=0.0)
        return next((name for name, share in shares.items() if best and share == best), _CPU)


def _requests(pod: Json) -> Counter[str]:
    try:
        return pod_requests(pod)
    except ValueError:
        return collections.Counter()
