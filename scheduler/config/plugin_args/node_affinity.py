"""Arguments of NodeAffinity: an affinity that every pod of the profile has.

Source: `ValidateNodeAffinityArgs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.api.core import NodeAffinity
from scheduler.api.field import FieldErrors
from scheduler.api.node_selectors import parse_node_selector, parse_preferred_terms
from scheduler.config.document import join_path
from scheduler.config.plugin_args.base import PluginArgs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.api.core import PreferredSchedulingTerm
    from scheduler.api.field import FieldError
    from scheduler.config.feature_gates import FeatureGates


class NodeAffinityArgs(PluginArgs, frozen=True):
    """A node must meet `added_affinity` and the pod's own affinity."""

    added_affinity: NodeAffinity | None = None

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        """The selectors must be ones that can be parsed."""
        if self.added_affinity is None:
            return []
        below = join_path(path, "addedAffinity")
        errors: list[FieldError] = []
        required = self.added_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            required_path = f"{below}.requiredDuringSchedulingIgnoredDuringExecution"
            errors += parse_node_selector(required, path=required_path).errors
        errors += _preferred_errors(
            self.added_affinity.preferred_during_scheduling_ignored_during_execution,
            f"{below}.preferredDuringSchedulingIgnoredDuringExecution",
        )
        return errors


def _preferred_errors(terms: Sequence[PreferredSchedulingTerm], path: str) -> list[FieldError]:
    try:
        parse_preferred_terms(terms, path=path)
    except FieldErrors as malformed:
        return list(malformed.errors)
    return []
