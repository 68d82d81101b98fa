"""Arguments of NodeResourcesBalancedAllocation: the resources to keep in balance.

Source: `SetDefaults_NodeResourcesBalancedAllocationArgs`,
`ValidateNodeResourcesBalancedAllocationArgs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from scheduler.api import field
from scheduler.config.document import join_path
from scheduler.config.plugin_args.base import PluginArgs
from scheduler.config.plugin_args.scoring import ResourceSpec, with_default_resources

if TYPE_CHECKING:
    from scheduler.api.field import FieldError
    from scheduler.config.feature_gates import FeatureGates


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    """cpu and memory if nothing is said; no resource weighs more than another."""

    resources: tuple[ResourceSpec, ...] = ()

    def with_defaults(self, gates: FeatureGates) -> NodeResourcesBalancedAllocationArgs:
        """cpu and memory, and 1 for a weight left out."""
        return msgspec.structs.replace(self, resources=with_default_resources(self.resources))

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        """Each resource once, with weight 1."""
        errors = []
        seen = set()
        for index, spec in enumerate(self.resources):
            below = join_path(path, f"resources[{index}]")
            if spec.name in seen:
                errors.append(field.duplicate(f"{below}.name", spec.name))
            seen.add(spec.name)
            if spec.weight != 1:
                errors.append(field.invalid(f"{below}.weight", spec.weight, "must be 1"))
        return errors
