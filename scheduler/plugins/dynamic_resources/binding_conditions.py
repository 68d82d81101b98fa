"""Conditions that devices must meet before a pod is bound.

Source: `isClaimReadyForBinding`, `isClaimTimeout` in
`pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.api.field import quoted

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


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Return True if a device of the claim must become ready first."""
    allocation = claim.status.allocation
    return allocation is not None and any(
        result.binding_conditions for result in allocation.devices.results
    )


def is_ready_for_binding(claim: ResourceClaim) -> bool:
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
                raise DeviceBindingError(
                    f"device binding failed: claim={claim.metadata.name}, "
                    f"reason={failed.reason}, message={quoted(failed.message)}",
                    status="failed",
                )
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
