"""What several plugins are told about scores: resources with weights, and a function's shape.

Source: `UtilizationShapePoint`, `ResourceSpec`, `validateFunctionShape`, `validateResources`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api import field
from scheduler.config.types import ConfigStruct, Int32, Int64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.api.field import FieldError

#: The highest score of a shape point; ten times less than a node's highest score.
MAX_CUSTOM_PRIORITY_SCORE: Final = 10


class UtilizationShapePoint(ConfigStruct, frozen=True):
    """At this utilization, in percent, the score is this, from 0 to 10."""

    utilization: Int32 = 0
    score: Int32 = 0


class ResourceSpec(ConfigStruct, frozen=True):
    """A resource that counts for a score, and how much."""

    name: str = ""
    weight: Int64 = 0


#: What counts if nothing is said.
DEFAULT_RESOURCES: Final = (ResourceSpec("cpu", 1), ResourceSpec("memory", 1))


def with_default_resources(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    """cpu and memory if there are none; else those there are, each with a weight of at least 1.

    A weight below zero stays what it is, for validation to complain about.
    """
    return (
        tuple(msgspec.structs.replace(spec, weight=spec.weight or 1) for spec in resources)
        or DEFAULT_RESOURCES
    )


def validate_resource_weights(resources: Sequence[ResourceSpec], path: str) -> list[FieldError]:
    """Every weight must be from 1 to 100."""
    return [
        field.invalid(
            f"{path}[{index}].weight",
            spec.weight,
            f"resource weight of {spec.name} not in valid range (0, 100]",
        )
        for index, spec in enumerate(resources)
        if not 0 < spec.weight <= 100
    ]


def validate_shape(shape: Sequence[UtilizationShapePoint], path: str) -> list[FieldError]:
    """There must be a point; utilizations must rise; both numbers must be in their ranges."""
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
