"""Arguments of InterPodAffinity: what existing pods' terms count for.

Source: `ValidateInterPodAffinityArgs`.
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


class InterPodAffinityArgs(PluginArgs, frozen=True):
    """The score of an existing pod's required term, and whether its preferred ones count."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        """The weight must be from 0 to 100."""
        weight = self.hard_pod_affinity_weight
        if 0 <= weight <= 100:
            return []
        weight_path = join_path(path, "hardPodAffinityWeight")
        return [field.invalid(weight_path, weight, "not in valid range [0, 100]")]
