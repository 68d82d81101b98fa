"""GradientAndFit: the fragmentation gradient and best fit together, without rounding.

FGD rounds the gradient to whole scores, and takes the first by name of many equal nodes. Here best
fit decides among similar nodes: the remaining part of the largest node, as BestFit measures it,
counts as much as 100 thousandths of a GPU that become fragments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.api.resources import CPU
from scheduler.framework.arithmetic import MAX_NODE_SCORE
from scheduler.simulate.policies.fragmentation_gradient import (
    FragmentationArgs,
    FragmentationGradient,
)
from scheduler.simulate.policies.requests import CPU_MAX, GPU_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

#: The weight of best fit, in thousandths of a GPU.
_FIT: Final = 100.0
#: Gradients are kept as integers that are not negative: thousandths above the least possible one.
_UNIT: Final = 1000
_LEAST: Final = -GPU_MAX


class GradientAndFit(FragmentationGradient):
    """Prefer little new fragmentation and little that remains."""

    Args = FragmentationArgs

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        less = super().score_nodes(state, pod, nodes) / _UNIT
        left = (self.cpu_left(nodes) - pod.requests[CPU]) / CPU_MAX / 2
        left += (self.gpu_left(nodes) - self.request(state).total) / GPU_MAX / 2
        above = less - _FIT * left
        above -= above.min()
        scores: IntArray = ((MAX_NODE_SCORE - 1) * above / max(above.max(), 1e-9)).astype(np.int64)
        scores[above.argmax()] = MAX_NODE_SCORE
        return scores

    def score_of(self, less: NDArray[np.float64]) -> IntArray:
        """Return the exact gradient, for `score_nodes`."""
        exact: IntArray = np.rint((less - _LEAST) * _UNIT).astype(np.int64)
        return exact
