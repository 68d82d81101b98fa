"""DotProduct: nodes whose free amounts point away from the pod's request (Tetris)."""

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


class DotProduct(GpuShare):
    """Prefer the least product of free and requested amounts, as parts of the largest node."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        by_cpu = self.cpu_left(nodes) / CPU_MAX * (pod.requests[CPU] / CPU_MAX)
        by_gpu = self.gpu_left(nodes) / GPU_MAX * (self.request(state).total / GPU_MAX)
        return (MAX_NODE_SCORE * (1 - (by_cpu + by_gpu) / 2)).astype(np.int64)
