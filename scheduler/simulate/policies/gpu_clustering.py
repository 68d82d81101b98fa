"""GpuClustering: pods with one kind of request together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework.arithmetic import MAX_NODE_SCORE
from scheduler.simulate.gpu_requests import GPU_MAX, NO_GPU
from scheduler.simulate.policies.gpu_shares import GpuShare

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_QUARTER = MAX_NODE_SCORE // 4


class GpuClustering(GpuShare):
    """Prefer nodes with pods of this kind alone, then with others too, then without GPU pods.

    A kind is a share of whatever size, or a number of GPUs. Within each class full nodes go first.
    """

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        request = self.request(state)
        if request == NO_GPU:
            return np.zeros(len(nodes), dtype=np.int64)
        is_there = self.shares.kinds[nodes.base_rows] > 0
        kinds = is_there.sum(axis=1)
        classes = np.where(is_there[:, request.kind], np.where(kinds == 1, 3, 2), kinds == 0)
        return classes * _QUARTER + _QUARTER * (GPU_MAX - self.gpu_left(nodes)) // GPU_MAX
