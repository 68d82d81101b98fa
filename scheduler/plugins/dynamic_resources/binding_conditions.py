"""Conditions that devices must meet before a pod is bound.

Source: `isClaimReadyForBinding`, `isClaimTimeout` in
`pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.field import quoted
from scheduler.config.versions import SchedulerVersion

if TYPE_CHECKING:
    from scheduler.api.dynamic_resources import (
        AllocatedDeviceStatus,
        DeviceRequestAllocationResult,
        ResourceClaim,
    )


class DeviceBindingError(Exception):
    """A device of a claim cannot be used, or is not ready in time. Upstream's text.

    `status` is `failed` or `timeout`, as in metrics.
    """

    def __init__(self, text: str, *, status: str) -> None:
        super().__init__(text)
        self.status: Final = status


class BindingTexts(NamedTuple):
    """The texts of a version for devices that cannot be used; the defaults are since 1.36."""

    #: With `claim`, `reason` and `message`.
    failed: str = "device binding failed: claim={claim}, reason={reason}, message={message}"
    #: With `claim`.
    is_late: str = "device binding timeout: claim={claim}"
    timed_out: str = "device binding timeout: context deadline exceeded"


_TEXTS: Final = BindingTexts()
_TEXTS_UP_TO_1_35: Final = BindingTexts(
    "claim {claim} binding failed: reason={reason}, message={message}",
    "claim {claim} binding timeout",
    "device binding timeout",
)


def binding_texts(version: SchedulerVersion) -> BindingTexts:
    """Return the texts of a version."""
    return _TEXTS if version >= SchedulerVersion.V1_36 else _TEXTS_UP_TO_1_35


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Return True if a device of the claim must become ready first."""
    allocation = claim.status.allocation
    return allocation is not None and any(
        result.binding_conditions for result in allocation.devices.results
    )


def is_ready_for_binding(claim: ResourceClaim, texts: BindingTexts = _TEXTS) -> bool:
    """Return True if all devices are ready; raises `DeviceBindingError` if one has failed."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _device_status(claim, result)
        if status is None:
            return False
        conditions = {condition.type: condition for condition in reversed(status.conditions)}
        for name in result.binding_failure_conditions:
            failed = conditions.get(name)
            if failed is not None and failed.status == "True":
                text = texts.failed.format(
                    claim=claim.metadata.name,
                    reason=failed.reason,
                    message=quoted(failed.message),
                )
                raise DeviceBindingError(text, status="failed")
        for name in result.binding_conditions:
            found = conditions.get(name)
            if found is None or found.status != "True":
                return False
    return True


def is_binding_timed_out(claim: ResourceClaim, now: float, timeout_seconds: float) -> bool:
    """Return True if the claim's devices should be ready by now."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    limit = allocation.allocation_timestamp.timestamp() + timeout_seconds
    return has_binding_conditions(claim) and limit < now


def _device_status(
    claim: ResourceClaim, result: DeviceRequestAllocationResult
) -> AllocatedDeviceStatus | None:
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == (
            result.driver,
            result.pool,
            result.device,
        ):
            return status
    return None
