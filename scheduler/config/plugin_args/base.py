"""What every in-tree plugin's arguments offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.config.types import ConfigStruct

if TYPE_CHECKING:
    from typing import Self

    from scheduler.api.field import FieldError
    from scheduler.config.feature_gates import FeatureGates


class PluginArgs(ConfigStruct, frozen=True):
    """The base of a plugin's arguments: what was written, before or after defaults."""

    def with_defaults(self, gates: FeatureGates) -> Self:
        """These arguments with what was left out filled in, as these feature gates have it."""
        return self

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        """What is wrong with these arguments; `path` is where they stand, or empty."""
        return []
