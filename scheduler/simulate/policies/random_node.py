"""RandomNode: one feasible node and one GPU with room, both by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework.arithmetic import MAX_NODE_SCORE
from scheduler.simulate.policies.gpu_shares import GpuShare

if TYPE_CHECKING:
    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo


class RandomNode(GpuShare):
    """Give one feasible node the highest score."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        scores = np.zeros(len(nodes), dtype=np.int64)
        scores[self.handle.rng.randrange(len(nodes))] = MAX_NODE_SCORE
        return scores

    def chosen_gpu(self, state: CycleState, pod: PodInfo, node_name: str, left: IntArray) -> int:
        with_room = np.flatnonzero(left >= self.request(state).milli)
        return int(with_room[self.handle.rng.randrange(len(with_room))])
