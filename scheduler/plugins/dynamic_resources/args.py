"""The arguments of DynamicResources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from scheduler.api import field
from scheduler.api.duration import SECOND, Duration
from scheduler.config.types import FeatureGates, PluginArgs
from scheduler.config.versions import SchedulerVersion
from scheduler.devices.rules import BINDING_CONDITIONS

if TYPE_CHECKING:
    from scheduler.api.field import FieldError

_DEFAULT_FILTER_TIMEOUT: Final = Duration(10 * SECOND)
_DEFAULT_BINDING_TIMEOUT: Final = Duration(600 * SECOND)
_SECOND: Final = Duration(SECOND)


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """Arguments of DynamicResources."""

    always_written: ClassVar[frozenset[str]] = frozenset({"filter_timeout"})

    since: ClassVar[Mapping[str, SchedulerVersion]] = {"binding_timeout": SchedulerVersion.V1_35}

    filter_timeout: Duration | None = None
    """Longest search for devices on one node; 0 means unlimited. Default: 10s.

    None, and forbidden, without the gate DRASchedulerFilterTimeout.
    """

    binding_timeout: Duration | None = None
    """Longest wait for devices in PreBind, at least 1s. Default: 10m.

    None, and forbidden, without both gates of binding conditions.
    """

    def with_defaults(self, gates: FeatureGates) -> DynamicResourcesArgs:
        filter_timeout, binding_timeout = self.filter_timeout, self.binding_timeout
        if filter_timeout is None and _may_limit_filter(gates):
            filter_timeout = _DEFAULT_FILTER_TIMEOUT
        if binding_timeout is None and _may_limit_binding(gates):
            binding_timeout = _DEFAULT_BINDING_TIMEOUT
        return msgspec.structs.replace(
            self, filter_timeout=filter_timeout, binding_timeout=binding_timeout
        )

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        return [
            *self._filter_timeout_errors(field.child_path(path, "filterTimeout"), gates),
            *self._binding_timeout_errors(field.child_path(path, "bindingTimeout"), gates),
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
    return gates >= BINDING_CONDITIONS
