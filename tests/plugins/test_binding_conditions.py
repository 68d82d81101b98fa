"""Devices that must become ready before a pod is bound."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from scheduler.api.core import ObjectMeta
from scheduler.api.dynamic_resources import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceAllocationResult,
    DeviceCondition,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from scheduler.config.versions import SchedulerVersion
from scheduler.plugins.dynamic_resources.binding_conditions import (
    DeviceBindingError,
    binding_texts,
    is_binding_timed_out,
    is_ready_for_binding,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
WAITING = DeviceRequestAllocationResult("r", "d", "p", "x", binding_conditions=("Ready", "Up"))
PLAIN = DeviceRequestAllocationResult("r", "d", "p", "y")


def claim(
    *results: DeviceRequestAllocationResult,
    devices: tuple[AllocatedDeviceStatus, ...] = (),
    since: datetime | None = START,
) -> ResourceClaim:
    allocation = AllocationResult(DeviceAllocationResult(results), allocation_timestamp=since)
    return ResourceClaim(status=ResourceClaimStatus(allocation=allocation, devices=devices))


def device(name: str, **conditions: str) -> AllocatedDeviceStatus:
    listed = tuple(DeviceCondition(type, status) for type, status in conditions.items())
    return AllocatedDeviceStatus("d", "p", name, conditions=listed)


@pytest.mark.parametrize(
    ("tested", "is_ready"),
    [
        (ResourceClaim(), False),
        (claim(PLAIN), True),
        (claim(PLAIN, WAITING), False),
        (claim(WAITING, devices=(device("other", Ready="True", Up="True"),)), False),
        (claim(WAITING, devices=(device("x", Ready="True"),)), False),
        (claim(WAITING, devices=(device("x", Ready="True", Up="False"),)), False),
        (claim(WAITING, devices=(device("other"), device("x", Ready="True", Up="True"))), True),
    ],
)
def test_a_claim_is_ready_when_all_conditions_of_all_devices_are_true(
    tested: ResourceClaim, is_ready: bool
) -> None:
    assert is_ready_for_binding(tested) is is_ready


@pytest.mark.parametrize(
    ("tested", "seconds", "is_late"),
    [
        (claim(WAITING), 600.0, False),
        (claim(WAITING), 600.1, True),
        (claim(PLAIN), 700.0, False),
        (claim(WAITING, since=None), 700.0, False),
        (ResourceClaim(), 700.0, False),
    ],
)
def test_a_claim_is_late_some_time_after_its_allocation(
    tested: ResourceClaim, seconds: float, is_late: bool
) -> None:
    now = START.timestamp() + seconds
    assert is_binding_timed_out(tested, now, timeout_seconds=600.0) is is_late


@pytest.mark.parametrize(
    ("version", "failed", "late"),
    [
        (SchedulerVersion.V1_35, 'claim c binding failed: reason=Why, message=""', "claim c bind"),
        (SchedulerVersion.V1_36, "device binding failed: claim=c, reason=Why", "device binding t"),
    ],
)
def test_the_texts_of_a_failure_are_those_of_the_version(
    version: SchedulerVersion, failed: str, late: str
) -> None:
    result = DeviceRequestAllocationResult(
        "r", "d", "p", "x", binding_conditions=("Ready",), binding_failure_conditions=("Bad",)
    )
    status = AllocatedDeviceStatus(
        "d", "p", "x", conditions=(DeviceCondition("Bad", "True", reason="Why"),)
    )
    tested = replace(claim(result, devices=(status,)), metadata=ObjectMeta(name="c"))
    texts = binding_texts(version)
    with pytest.raises(DeviceBindingError, match=failed):
        is_ready_for_binding(tested, texts)
    assert texts.is_late.format(claim="c").startswith(late)
