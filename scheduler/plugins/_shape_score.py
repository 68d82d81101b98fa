"""A score as a function of utilization, given by points with straight lines between them.

Source: `pkg/scheduler/framework/plugins/helper/shape_score.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.config.plugin_args.scoring import MAX_CUSTOM_PRIORITY_SCORE
from scheduler.framework.arithmetic import MAX_NODE_SCORE, truncated_div_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.config.plugin_args.scoring import UtilizationShapePoint


def broken_linear(shape: Sequence[UtilizationShapePoint], utilization: int) -> int:
    """The function through the points, in Go's integers; flat before the first, after the last.

    Source: `BuildBrokenLinearFunction`.
    """
    scale = MAX_NODE_SCORE // MAX_CUSTOM_PRIORITY_SCORE
    before = shape[0]
    for point in shape:
        if utilization <= point.utilization:
            rise = (point.score - before.score) * scale
            run = point.utilization - before.utilization
            step = rise * (utilization - before.utilization)
            return before.score * scale + (truncated_div_scalar(step, run) if run else 0)
        before = point
    return shape[-1].score * scale
