"""Arguments of VolumeBinding: how long to wait for volumes, and how storage is scored.

Source: `SetDefaults_VolumeBindingArgs`, `ValidateVolumeBindingArgsWithOptions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api import field
from scheduler.config.document import join_path
from scheduler.config.internal_form import internal_form
from scheduler.config.plugin_args.base import PluginArgs
from scheduler.config.plugin_args.scoring import UtilizationShapePoint, validate_shape
from scheduler.config.types import Int64

if TYPE_CHECKING:
    from scheduler.api.field import FieldError
    from scheduler.config.feature_gates import FeatureGates

#: The gate that lets volumes be scored.
_STORAGE_CAPACITY_SCORING: Final = "StorageCapacityScoring"

#: The fuller a node's storage, the worse.
_DEFAULT_SHAPE: Final = (UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0))


class VolumeBindingArgs(PluginArgs, frozen=True):
    """Zero seconds is not to wait at all. A shape that is there, even empty, asks for the gate."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None

    def with_defaults(self, gates: FeatureGates) -> VolumeBindingArgs:
        """With the gate, emptier storage is better."""
        if self.shape or _STORAGE_CAPACITY_SCORING not in gates:
            return self
        return msgspec.structs.replace(self, shape=_DEFAULT_SHAPE)

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        """The timeout must not be negative; a shape must be good with the gate, absent without."""
        errors = []
        if self.bind_timeout_seconds < 0:
            message = "invalid BindTimeoutSeconds, should not be a negative value"
            timeout_path = join_path(path, "bindTimeoutSeconds")
            errors.append(field.invalid(timeout_path, self.bind_timeout_seconds, message))
        shape_path = join_path(path, "shape")
        if _STORAGE_CAPACITY_SCORING in gates:
            errors += validate_shape(self.shape or (), shape_path)
        elif self.shape is not None:
            message = (
                "unexpected field `shape`, remove it or turn on the feature gate "
                f"{_STORAGE_CAPACITY_SCORING}"
            )
            errors.append(field.invalid(shape_path, internal_form(self.shape), message))
        return errors
