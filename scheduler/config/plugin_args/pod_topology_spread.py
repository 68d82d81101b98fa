"""Arguments of PodTopologySpread: constraints for pods that bring none.

Source: `SetDefaults_PodTopologySpreadArgs`, `ValidatePodTopologySpreadArgs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api import field
from scheduler.api.core import TopologySpreadConstraint
from scheduler.api.names import label_key_complaints
from scheduler.config.document import join_path
from scheduler.config.plugin_args.base import PluginArgs

if TYPE_CHECKING:
    from scheduler.api.field import FieldError
    from scheduler.config.feature_gates import FeatureGates

SYSTEM_DEFAULTING: Final = "System"
LIST_DEFAULTING: Final = "List"

_CAN_NOT_BE_EMPTY: Final = "can not be empty"
_WHEN_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    """`List`: the constraints given here. `System`: zones and hosts, softly; none here."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = ""

    def with_defaults(self, gates: FeatureGates) -> PodTopologySpreadArgs:
        """`System`."""
        return msgspec.structs.replace(
            self, defaulting_type=self.defaulting_type or SYSTEM_DEFAULTING
        )

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        """As the API checks a pod's own constraints, and without selectors: pods bring them."""
        errors = self._defaulting_type_errors(join_path(path, "defaultingType"))
        for index, constraint in enumerate(self.default_constraints):
            below = join_path(path, f"defaultConstraints[{index}]")
            errors += _constraint_errors(constraint, below)
            earlier = self.default_constraints[:index]
            if any(_same_domain(constraint, other) for other in earlier):
                pair = f"{{{constraint.topology_key}, {constraint.when_unsatisfiable}}}"
                errors.append(field.duplicate(below, pair))
        return errors

    def _defaulting_type_errors(self, path: str) -> list[FieldError]:
        supported = (SYSTEM_DEFAULTING, LIST_DEFAULTING)
        if self.defaulting_type not in supported:
            return [field.not_supported(path, self.defaulting_type, supported)]
        if self.defaulting_type == SYSTEM_DEFAULTING and self.default_constraints:
            message = "when .defaultConstraints are not empty"
            return [field.invalid(path, self.defaulting_type, message)]
        return []


def _constraint_errors(constraint: TopologySpreadConstraint, path: str) -> list[FieldError]:
    errors = []
    if constraint.max_skew <= 0:
        message = "not in valid range (0, inf)"
        errors.append(field.invalid(f"{path}.maxSkew", constraint.max_skew, message))
    key, key_path = constraint.topology_key, f"{path}.topologyKey"
    if not key:
        errors.append(field.required(key_path, _CAN_NOT_BE_EMPTY))
    else:
        errors += [field.invalid(key_path, key, text) for text in label_key_complaints(key)]
    action, action_path = constraint.when_unsatisfiable, f"{path}.whenUnsatisfiable"
    if not action:
        errors.append(field.required(action_path, _CAN_NOT_BE_EMPTY))
    elif action not in _WHEN_UNSATISFIABLE:
        errors.append(field.not_supported(action_path, action, _WHEN_UNSATISFIABLE))
    if constraint.label_selector is not None:
        message = "constraint must not define a selector, as they deduced for each pod"
        errors.append(field.forbidden(f"{path}.labelSelector", message))
    return errors


def _same_domain(constraint: TopologySpreadConstraint, other: TopologySpreadConstraint) -> bool:
    return (
        constraint.topology_key == other.topology_key
        and constraint.when_unsatisfiable == other.when_unsatisfiable
    )
