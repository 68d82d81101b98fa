"""BestFit: the node with the least left once the pod is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.api.resources import CPU
from scheduler.framework.arithmetic import MAX_NODE_SCORE
from scheduler.simulate.gpu_requests import CPU_MAX, GPU_MAX
from scheduler.simulate.policies.gpu_shares import GpuShare

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo


class BestFit(GpuShare):
    """Prefer the least remaining CPU and GPU, each as a part of the largest node."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        left = (self.cpu_left(nodes) - pod.requests[CPU]) / CPU_MAX * 0.5
        left += (self.gpu_left(nodes) - self.request(state).total) / GPU_MAX * 0.5
        return ((1 - left) * MAX_NODE_SCORE).astype(np.int64)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        """Stretch the scores to 0 to 100; equal scores become 0."""
        above = scores - scores.min()
        stretched: IntArray = above * MAX_NODE_SCORE // max(int(above.max()), 1)
        return stretched
