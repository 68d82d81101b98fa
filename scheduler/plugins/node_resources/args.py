"""Arguments of NodeResourcesFit and NodeResourcesBalancedAllocation.

Source: `SetDefaults_NodeResourcesFitArgs`, `ValidateNodeResourcesFitArgs`,
`SetDefaults_NodeResourcesBalancedAllocationArgs`, `ValidateNodeResourcesBalancedAllocationArgs`,
`validateResources`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from scheduler.api import field
from scheduler.api.names import label_key_errors
from scheduler.config.types import ConfigStruct, Int64, PluginArgs
from scheduler.config.versions import SchedulerVersion
from scheduler.plugins._shape_score import UtilizationShapePoint, validate_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.api.field import FieldError
    from scheduler.config.types import FeatureGates, Validator

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"
_STRATEGIES: Final = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)


class ResourceSpec(ConfigStruct, frozen=True):
    """A resource that is scored."""

    always_written: ClassVar[frozenset[str]] = frozenset({"name"})

    name: str = ""
    """Name of the resource."""

    weight: Int64 = 0
    """Weight in the mean of all resources. Default: 1."""


#: The resources that are scored by default.
_DEFAULT_RESOURCES: Final = (ResourceSpec("cpu", 1), ResourceSpec("memory", 1))


def _with_default_resources(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    """Return cpu and memory if the list is empty; else the list with weights 1 in place of 0."""
    return (
        tuple(msgspec.structs.replace(spec, weight=spec.weight or 1) for spec in resources)
        or _DEFAULT_RESOURCES
    )


def _resource_weight_errors(resources: Sequence[ResourceSpec], path: str) -> list[FieldError]:
    return [
        field.invalid(
            f"{path}[{index}].weight",
            spec.weight,
            f"resource weight of {spec.name} not in valid range (0, 100]",
        )
        for index, spec in enumerate(resources)
        if not 0 < spec.weight <= 100
    ]


class RequestedToCapacityRatioParam(ConfigStruct, frozen=True):
    """Parameters of the strategy RequestedToCapacityRatio."""

    shape: tuple[UtilizationShapePoint, ...] = ()
    """The score by utilization."""


class ScoringStrategy(ConfigStruct, frozen=True):
    """The function that scores nodes by their free resources."""

    type: str = ""
    """`LeastAllocated`, `MostAllocated` or `RequestedToCapacityRatio`. Default: the first."""

    resources: tuple[ResourceSpec, ...] = ()
    """The resources that are scored. Default: cpu and memory."""

    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None
    """Required for the strategy of this name, forbidden for others."""


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    """Arguments of NodeResourcesFit."""

    #: Upstream's table of checks has them under a name that no plugin has.
    is_validated_with_config: ClassVar[bool] = False

    ignored_resources: tuple[str, ...] = ()
    """Extended resources that the filter ignores."""

    ignored_resource_groups: tuple[str, ...] = ()
    """Groups of extended resources (`example.com`) that the filter ignores."""

    scoring_strategy: ScoringStrategy | None = None
    """How nodes are scored. Default: LeastAllocated over cpu and memory."""

    def with_defaults(self, gates: FeatureGates) -> NodeResourcesFitArgs:
        strategy = self.scoring_strategy or ScoringStrategy(type=LEAST_ALLOCATED)
        resources = _with_default_resources(strategy.resources)
        return msgspec.structs.replace(
            self, scoring_strategy=msgspec.structs.replace(strategy, resources=resources)
        )

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        return self._filter_errors(path) + _strategy_errors(
            self.scoring_strategy, field.child_path(path, "scoringStrategy")
        )

    def validate_before_1_36(self, path: str, gates: FeatureGates) -> list[FieldError]:
        """Check the fields, as `validate`, but no shape against the type of the strategy."""
        strategy, strategy_path = self.scoring_strategy, field.child_path(path, "scoringStrategy")
        errors = self._filter_errors(path)
        if strategy is not None:
            errors += _type_and_resource_errors(strategy, strategy_path)
            if (ratio := strategy.requested_to_capacity_ratio) is not None:
                errors += validate_shape(ratio.shape, f"{strategy_path}.shape")
        return errors

    def validator(self, version: SchedulerVersion) -> Validator:
        return self.validate if version >= SchedulerVersion.V1_36 else self.validate_before_1_36

    def _filter_errors(self, path: str) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, name in enumerate(self.ignored_resources):
            errors += _name_errors(field.child_path(path, f"ignoredResources[{index}]"), name)
        for index, group in enumerate(self.ignored_resource_groups):
            group_path = field.child_path(path, f"ignoredResourceGroups[{index}]")
            if "/" in group:
                message = "resource group name can't contain '/'"
                errors.append(field.invalid(group_path, group, message))
            errors += _name_errors(group_path, group)
        return errors


def _name_errors(path: str, name: str) -> list[FieldError]:
    return [field.invalid(path, name, complaint) for complaint in label_key_errors(name)]


def _type_and_resource_errors(strategy: ScoringStrategy, path: str) -> list[FieldError]:
    errors = []
    if strategy.type not in _STRATEGIES:
        errors.append(field.not_supported(f"{path}.type", strategy.type, _STRATEGIES))
    return errors + _resource_weight_errors(strategy.resources, f"{path}.resources")


def _strategy_errors(strategy: ScoringStrategy | None, path: str) -> list[FieldError]:
    if strategy is None:
        return [field.required(path, "ScoringStrategy field is required")]
    errors = _type_and_resource_errors(strategy, path)
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


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: tuple[ResourceSpec, ...] = ()
    """The resources to balance, each with weight 1. Default: cpu and memory."""

    def with_defaults(self, gates: FeatureGates) -> NodeResourcesBalancedAllocationArgs:
        return msgspec.structs.replace(self, resources=_with_default_resources(self.resources))

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        errors = []
        seen = set()
        for index, spec in enumerate(self.resources):
            below = field.child_path(path, f"resources[{index}]")
            if spec.name in seen:
                errors.append(field.duplicate(f"{below}.name", spec.name))
            seen.add(spec.name)
            if spec.weight != 1:
                errors.append(field.invalid(f"{below}.weight", spec.weight, "must be 1"))
        return errors
