"""Scores as a function of utilization, given by points with straight lines between them.

Used by the arguments of NodeResourcesFit and VolumeBinding. Source: `UtilizationShapePoint`,
`validateFunctionShape`, `pkg/scheduler/framework/plugins/helper/shape_score.go`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar, Final

from scheduler.api import field
from scheduler.config.types import ALL_FIELDS, ConfigStruct, Int32
from scheduler.framework.arithmetic import MAX_NODE_SCORE, truncated_div_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.api.field import FieldError

#: The highest score of a point; a tenth of the highest score of a node.
MAX_CUSTOM_PRIORITY_SCORE: Final = 10


class UtilizationShapePoint(ConfigStruct, frozen=True):
    """A point of the function."""

    always_written: ClassVar[frozenset[str]] = ALL_FIELDS

    utilization: Int32 = 0
    """Percent, from 0 to 100."""

    score: Int32 = 0
    """Score at this utilization, from 0 to 10."""


def broken_linear(shape: Sequence[UtilizationShapePoint], utilization: int) -> int:
    """Return the function's value, in Go's integers; constant before the first and after the last.

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


def validate_shape(shape: Sequence[UtilizationShapePoint], path: str) -> list[FieldError]:
    """Return errors unless there is a point, utilizations rise and all numbers are in range."""
    if not shape:
        return [field.required(path, "at least one point must be specified")]
    errors = _order_errors(shape, path)
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            utilization_path = f"{path}[{index}].utilization"
            message = "not in valid range [0, 100]"
            errors.append(field.invalid(utilization_path, point.utilization, message))
        if not 0 <= point.score <= MAX_CUSTOM_PRIORITY_SCORE:
            message = f"not in valid range [0, {MAX_CUSTOM_PRIORITY_SCORE}]"
            errors.append(field.invalid(f"{path}[{index}].score", point.score, message))
    return errors


def _order_errors(shape: Sequence[UtilizationShapePoint], path: str) -> list[FieldError]:
    for index, (before, point) in enumerate(itertools.pairwise(shape), 1):
        if before.utilization >= point.utilization:
            message = "values must be sorted in increasing order"
            return [field.invalid(f"{path}[{index}].utilization", point.utilization, message)]
    return []
