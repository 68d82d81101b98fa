"""FragmentationGradient: the node whose fragmentation grows least (FGD)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from scheduler.api.resources import CPU
from scheduler.framework.arithmetic import MAX_NODE_SCORE
from scheduler.simulate.gpu_requests import WHOLE, GpuRequest
from scheduler.simulate.policies.fragmentation import (
    Fragmentation,
    FragmentationColumn,
    TypicalPod,
)
from scheduler.simulate.policies.gpu_shares import GpuShare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo


class FragmentationArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The typical pods, by which fragmentation is measured."""

    typical_pods: tuple[TypicalPod, ...]


class _Known(NamedTuple):
    """The results for one request: score and GPU per row, and the version they are of."""

    scores: IntArray
    gpus: IntArray
    version: IntArray


class FragmentationGradient(GpuShare):
    """Prefer the node, and for a share the GPU, that leaves most room for the typical pods."""

    Args = FragmentationArgs
    args: FragmentationArgs

    def __init__(self) -> None:
        super().__init__()
        self._fragmentation: Final = Fragmentation(self.args.typical_pods)
        self._before: Final = FragmentationColumn(self._fragmentation, self.shares)
        self._known: Final[dict[tuple[int, GpuRequest], _Known]] = {}

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        self._before.update(self.handle.snapshot.nodes)
        rows, version = nodes.base_rows, self.shares.version
        known = self._results(state, pod)
        stale = np.flatnonzero(known.version[rows] != version[rows])
        if len(stale):
            at = rows[stale]
            cpu_left = nodes.take(stale).unrequested(CPU) - pod.requests[CPU]
            known.scores[at], known.gpus[at] = self._scores(self.request(state), at, cpu_left)
            known.version[at] = version[at]
        return known.scores[rows]

    def _results(self, state: CycleState, pod: PodInfo) -> _Known:
        """Return the cached results for the pod's request."""
        key, total = (pod.requests[CPU], self.request(state)), len(self.shares.version)
        known = self._known.get(key)
        if known is None or len(known.version) != total:
            known = self._known[key] = _Known(*np.zeros((3, total), dtype=np.int64))
        return known

    def _scores(
        self, request: GpuRequest, rows: IntArray, cpu_left: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Return the scores of nodes, and the GPU to take there for a share."""
        left, before = self.shares.left[rows], self._before.values
        accepting = self._before.accepting
        if not request.is_share:
            idle = left == WHOLE
            taken = WHOLE * (idle & (idle.cumsum(axis=1) <= request.gpus))
            after = self._fragmentation.of(cpu_left, left - taken, accepting[rows])
            return self.score_of(before[rows] - after), np.zeros(len(rows), dtype=np.int64)
        nodes, gpus = np.nonzero(left >= request.milli)
        with_pod = left[nodes]
        with_pod[np.arange(len(nodes)), gpus] -= request.milli
        after = self._fragmentation.of(cpu_left[nodes], with_pod, accepting[rows[nodes]])
        by_gpu = np.full(left.shape, -1, dtype=np.int64)
        by_gpu[nodes, gpus] = self.score_of(before[rows[nodes]] - after)
        best = by_gpu.argmax(axis=1)
        return by_gpu[np.arange(len(rows)), best], best

    def score_of(self, less: NDArray[np.float64]) -> IntArray:
        """Return the scores of nodes whose fragmentation becomes less by this much."""
        return (MAX_NODE_SCORE / (1 + np.exp(-less / WHOLE))).astype(np.int64)

    def chosen_gpu(self, state: CycleState, pod: PodInfo, node_name: str, left: IntArray) -> int:
        row = self.shares.row(node_name)
        self.score_nodes(state, pod, self.handle.snapshot.nodes.slice(row, row + 1))
        return int(self._results(state, pod).gpus[row])
