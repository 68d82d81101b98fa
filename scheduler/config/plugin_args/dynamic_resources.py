"""Arguments of DynamicResources: how long to search for devices, and to wait for them.

Source: `SetDefaults_DynamicResourcesArgs`, `ValidateDynamicResourcesArgs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.api import field
from scheduler.config.document import join_path
from scheduler.config.duration import SECOND, Duration
from scheduler.config.plugin_args.base import PluginArgs

if TYPE_CHECKING:
    from scheduler.api.field import FieldError
    from scheduler.config.feature_gates import FeatureGates

_DEFAULT_FILTER_TIMEOUT: Final = Duration(10 * SECOND)
_DEFAULT_BINDING_TIMEOUT: Final = Duration(600 * SECOND)
_SECOND: Final = Duration(SECOND)


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """Per node, and per pod. A filter timeout of zero is none; None is what the gates forbid."""

    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None

    def with_defaults(self, gates: FeatureGates) -> DynamicResourcesArgs:
        """10 seconds and 10 minutes, each if its gates are on."""
        filter_timeout, binding_timeout = self.filter_timeout, self.binding_timeout
        if filter_timeout is None and _may_limit_filter(gates):
            filter_timeout = _DEFAULT_FILTER_TIMEOUT
        if binding_timeout is None and _may_limit_binding(gates):
            binding_timeout = _DEFAULT_BINDING_TIMEOUT
        return msgspec.structs.replace(
            self, filter_timeout=filter_timeout, binding_timeout=binding_timeout
        )

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        """Not negative, and at least a second; neither without its gates."""
        return [
            *self._filter_timeout_errors(join_path(path, "filterTimeout"), gates),
            *self._binding_timeout_errors(join_path(path, "bindingTimeout"), gates),
        ]

    def _filter_timeout_errors(self, path: str, gates: FeatureGates) -> list[FieldError]:
        if self.filter_timeout is None:
            return []
        if not _may_limit_filter(gates):
            # The gate is spelt DRASchedulerFilterTimeout; the message is upstream's.
            return [field.forbidden(path, "DRASchedulingFilterTimeout feature gate is disabled")]
        if self.filter_timeout < Duration():
            return [field.invalid(path, str(self.filter_timeout), "must be zero or positive")]
        return []

    def _binding_timeout_errors(self, path: str, gates: FeatureGates) -> list[FieldError]:
        if self.binding_timeout is None:
            return []
        if not _may_limit_binding(gates):
            message = (
                "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is "
                "disabled"
            )
            return [field.forbidden(path, message)]
        if self.binding_timeout < _SECOND:
            return [field.invalid(path, str(self.binding_timeout), "must be at least 1 second")]
        return []


def _may_limit_filter(gates: FeatureGates) -> bool:
    return "DRASchedulerFilterTimeout" in gates


def _may_limit_binding(gates: FeatureGates) -> bool:
    return {"DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"} <= gates
