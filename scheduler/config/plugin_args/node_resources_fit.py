"""Arguments of NodeResourcesFit: resources to overlook, and how free room is scored.

Upstream checks them when the plugin is built, not when the configuration is: its table of checks
has them under a name that no plugin bears. This program does the same, in the same place.
Source: `SetDefaults_NodeResourcesFitArgs`, `ValidateNodeResourcesFitArgs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api import field
from scheduler.api.names import label_key_complaints
from scheduler.config.document import join_path
from scheduler.config.plugin_args.base import PluginArgs
from scheduler.config.plugin_args.scoring import (
    ResourceSpec,
    UtilizationShapePoint,
    validate_resource_weights,
    validate_shape,
    with_default_resources,
)
from scheduler.config.types import ConfigStruct

if TYPE_CHECKING:
    from scheduler.api.field import FieldError
    from scheduler.config.feature_gates import FeatureGates

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"
_STRATEGIES: Final = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)


class RequestedToCapacityRatioParam(ConfigStruct, frozen=True):
    """The score of a node by its utilization, for the strategy of this name."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(ConfigStruct, frozen=True):
    """Which nodes are better: the emptier, the fuller, or as a function says."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    """Resources, and groups of them (`example.com`), that the filter overlooks; the scoring."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy | None = None

    def with_defaults(self, gates: FeatureGates) -> NodeResourcesFitArgs:
        """The emptier node is better, cpu and memory count, a weight left out is 1."""
        strategy = self.scoring_strategy or ScoringStrategy(type=LEAST_ALLOCATED)
        resources = with_default_resources(strategy.resources)
        return msgspec.structs.replace(
            self, scoring_strategy=msgspec.structs.replace(strategy, resources=resources)
        )

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        """Names must be label keys, groups without `/`; the strategy must be whole."""
        errors: list[FieldError] = []
        for index, name in enumerate(self.ignored_resources):
            errors += _name_errors(join_path(path, f"ignoredResources[{index}]"), name)
        for index, group in enumerate(self.ignored_resource_groups):
            group_path = join_path(path, f"ignoredResourceGroups[{index}]")
            if "/" in group:
                message = "resource group name can't contain '/'"
                errors.append(field.invalid(group_path, group, message))
            errors += _name_errors(group_path, group)
        return errors + _strategy_errors(self.scoring_strategy, join_path(path, "scoringStrategy"))


def _name_errors(path: str, name: str) -> list[FieldError]:
    return [field.invalid(path, name, complaint) for complaint in label_key_complaints(name)]


def _strategy_errors(strategy: ScoringStrategy | None, path: str) -> list[FieldError]:
    if strategy is None:
        return [field.required(path, "ScoringStrategy field is required")]
    errors = []
    if strategy.type not in _STRATEGIES:
        errors.append(field.not_supported(f"{path}.type", strategy.type, _STRATEGIES))
    errors += validate_resource_weights(strategy.resources, f"{path}.resources")
    ratio, ratio_path = strategy.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
    if strategy.type == REQUESTED_TO_CAPACITY_RATIO:
        if ratio is None:
            message = "must be specified when type is RequestedToCapacityRatio"
            errors.append(field.required(ratio_path, message))
        else:
            errors += validate_shape(ratio.shape, f"{ratio_path}.shape")
    elif ratio is not None:
        message = "must be nil when type is not RequestedToCapacityRatio"
        errors.append(field.forbidden(ratio_path, message))
    return errors
