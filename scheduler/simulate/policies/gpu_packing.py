"""GpuPacking: GPUs in use first, then idle GPUs of nodes in use, then idle nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework.arithmetic import MAX_NODE_SCORE
from scheduler.simulate.gpu_requests import NO_GPU, WHOLE
from scheduler.simulate.policies.gpu_shares import GpuShare

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo


class GpuPacking(GpuShare):
    """Prefer the fullest GPU in use that has room, then few idle GPUs, then small idle nodes."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        request, rows = self.request(state), nodes.base_rows
        if request == NO_GPU:
            return np.zeros(len(nodes), dtype=np.int64)
        idle = self.shares.idle[rows]
        scores = np.maximum(MAX_NODE_SCORE // 2 - request.gpus, MAX_NODE_SCORE // 3)
        if request.is_share:
            left = self.shares.left[rows]
            used = np.where(left < request.milli, WHOLE, left).min(axis=1)
            on_used = np.maximum(MAX_NODE_SCORE - used // 10 // 10, MAX_NODE_SCORE // 2)
            scores = np.where(used < WHOLE, on_used, scores)
        on_idle_node = np.maximum(MAX_NODE_SCORE // 3 - idle, idle)
        return np.where(idle == self.shares.gpus[rows], on_idle_node, scores)
