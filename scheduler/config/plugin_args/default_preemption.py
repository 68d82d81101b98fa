"""Arguments of DefaultPreemption: how many nodes a dry run looks at.

Source: `ValidateDefaultPreemptionArgs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.api import field
from scheduler.config.document import join_path
from scheduler.config.plugin_args.base import PluginArgs
from scheduler.config.types import Int32

if TYPE_CHECKING:
    from scheduler.api.field import FieldError
    from scheduler.config.feature_gates import FeatureGates


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    """At least this share of the nodes, and at least this many, are candidates."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        """The share must be a percentage, the number not negative, and one of them more than 0."""
        percentage, absolute = (
            self.min_candidate_nodes_percentage,
            self.min_candidate_nodes_absolute,
        )
        percentage_path = join_path(path, "minCandidateNodesPercentage")
        absolute_path = join_path(path, "minCandidateNodesAbsolute")
        errors = []
        if not 0 <= percentage <= 100:
            errors.append(field.invalid(percentage_path, percentage, "not in valid range [0, 100]"))
        if absolute < 0:
            errors.append(field.invalid(absolute_path, absolute, "not in valid range [0, inf)"))
        if percentage == 0 and absolute == 0:
            at_the_same_time = "cannot be zero at the same time as"
            errors += [
                field.invalid(percentage_path, 0, f"{at_the_same_time} minCandidateNodesAbsolute"),
                field.invalid(absolute_path, 0, f"{at_the_same_time} minCandidateNodesPercentage"),
            ]
        return errors
