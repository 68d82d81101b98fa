"""The writes of resource claims in PreBind, with conflicts, failures and waits."""

import asyncio
from collections.abc import Callable
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
from scheduler.assembly.claims_in_memory import ClaimsInMemory
from scheduler.client import Store
from scheduler.devices.claims import ClaimTracker
from scheduler.framework.handle import WriteConflictError, WriteOutcomeUnknownError
from scheduler.plugins.dynamic_resources.binding_conditions import DeviceBindingError
from scheduler.plugins.dynamic_resources.claim_binder import ClaimBinder, ClaimBindingError
from scheduler.plugins.dynamic_resources.claim_owners import ClaimOwners
from scheduler.plugins.dynamic_resources.state import ClaimState, StateData
from scheduler.testing import FakeHandle, VirtualClock, make_pod

POD = make_pod("one")
READY, FAILED = "example.com/ready", "example.com/failed"


def result(**more: object) -> AllocationResult:
    device = DeviceRequestAllocationResult("r", "d", "p", "x", **more)
    return AllocationResult(DeviceAllocationResult((device,)))


class Sleeper(VirtualClock):
    """A clock whose sleeps end at once, and call a function before."""

    def __init__(self, on_sleep: Callable[[float], None] = lambda now: None) -> None:
        super().__init__()
        self.slept: list[float] = []
        self.on_sleep = on_sleep

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._now += seconds
        self.on_sleep(self._now)


class Stage:
    """A binder over claims in memory, for one pod and one claim."""

    def __init__(self, claim: ResourceClaim, allocation: AllocationResult | None) -> None:
        self.store = Store([claim])
        self.api = ClaimsInMemory(self.store, put=self.store.put, remove=self.store.remove)
        self.clock = Sleeper()
        self.handle = FakeHandle(listers={"resourceclaims": self.store}, clock=self.clock)
        object.__setattr__(self.handle.api, "resource_claims", self.api)
        self.tracker = ClaimTracker(self.handle)
        owners = ClaimOwners(self.handle)
        self.binder = ClaimBinder(self.handle, self.tracker, owners, timeout_seconds=12.0)
        stored = self.store.list()[0]
        self.data = StateData([ClaimState(stored, allocation=allocation)])

    @property
    def claim(self) -> ResourceClaim:
        return self.store.list()[0]

    async def bind(self) -> None:
        await self.binder.bind(self.data, POD, "node")


META = ObjectMeta(name="c", namespace="default", uid="c")
DELETED = datetime(2026, 1, 1, tzinfo=UTC)


def make_claim(**status: object) -> ResourceClaim:
    return ResourceClaim(META, status=ResourceClaimStatus(**status))


async def test_a_conflict_is_tried_again_with_the_newest_claim() -> None:
    stage = Stage(make_claim(), result())
    changed = replace(stage.claim.metadata, labels={"a": "b"})
    stage.api.put(replace(stage.claim, metadata=changed))
    await stage.bind()
    assert stage.claim.metadata.labels == {"a": "b"}
    assert stage.claim.is_reserved_for(POD.metadata.uid)
    assert stage.clock.slept == [0.01]
    assert stage.api.writes == [
        "update resourceclaims default/c",
        "update resourceclaims default/c",
        "update resourceclaims/status default/c",
    ]
    assert stage.tracker.get("c", "default") == stage.claim


async def test_conflicts_without_end_fail() -> None:
    stage = Stage(make_claim(), result())

    async def conflicting(claim: ResourceClaim) -> ResourceClaim:
        raise WriteConflictError("changed")

    stage.api.update = conflicting  # type: ignore[method-assign]
    with pytest.raises(WriteConflictError, match="add finalizer to claim default/c: changed"):
        await stage.bind()
    assert len(stage.clock.slept) == 4


@pytest.mark.parametrize(
    ("claim", "allocation", "text"),
    [
        (make_claim(allocation=result()), result(), "got allocated elsewhere in the meantime"),
        (make_claim(), None, "got deallocated elsewhere in the meantime"),
        (
            replace(make_claim(), metadata=replace(META, deletion_timestamp=DELETED)),
            result(),
            "got deleted in the meantime",
        ),
    ],
)
async def test_a_claim_that_is_not_as_it_was_fails(
    claim: ResourceClaim, allocation: AllocationResult | None, text: str
) -> None:
    stage = Stage(claim, allocation)
    with pytest.raises(ClaimBindingError, match=f"claim default/c {text}"):
        await stage.bind()


async def test_a_claim_that_is_gone_fails() -> None:
    stage = Stage(make_claim(), result())
    stage.store.remove("default/c")
    with pytest.raises(ClaimBindingError, match=r"add finalizer to claim default/c: .* not found"):
        await stage.bind()


async def test_the_time_of_an_allocation_is_written_once() -> None:
    stage = Stage(make_claim(allocation=result()), None)
    await stage.bind()
    allocation = stage.claim.status.allocation
    assert allocation is not None
    assert allocation.allocation_timestamp is not None
    assert allocation.allocation_timestamp.timestamp() == int(stage.clock.now())


def condition(type: str, status: str = "True") -> AllocatedDeviceStatus:
    found = DeviceCondition(type, status, reason="Why", message="because")
    return AllocatedDeviceStatus("d", "p", "x", conditions=(found,))


def waiting_stage() -> Stage:
    conditions = {"binding_conditions": (READY,), "binding_failure_conditions": (FAILED,)}
    return Stage(make_claim(), result(**conditions))


@pytest.mark.parametrize("seconds", [5.0, 10.0])
async def test_the_pod_waits_until_its_devices_are_ready(seconds: float) -> None:
    stage = waiting_stage()
    start = stage.clock.now()

    def on_sleep(now: float) -> None:
        if now >= start + seconds:
            status = replace(stage.claim.status, devices=(condition(READY),))
            stage.api.put(replace(stage.claim, status=status))

    stage.clock.on_sleep = on_sleep
    await stage.bind()
    assert sum(stage.clock.slept) == seconds
    (event,) = stage.handle.event_recorder.recorded
    assert event.note == "waiting for binding conditions for device on node node"
    labels = ("default-scheduler", "d", "success")
    assert stage.handle.metrics.binding_conditions_allocations[labels] == 1


async def test_devices_that_are_not_ready_in_time_fail() -> None:
    stage = waiting_stage()
    with pytest.raises(DeviceBindingError, match="device binding timeout: context deadline"):
        await stage.bind()
    assert stage.clock.slept == [5.0, 5.0, 2.0]
    labels = ("default-scheduler", "d", "timeout")
    assert stage.handle.metrics.binding_conditions_allocations[labels] == 1


async def test_a_device_that_failed_fails_at_once() -> None:
    stage = waiting_stage()

    def on_sleep(now: float) -> None:
        status = replace(stage.claim.status, devices=(condition(FAILED),))
        stage.api.put(replace(stage.claim, status=status))

    stage.clock.on_sleep = on_sleep
    text = 'device binding failed: claim=c, reason=Why, message="because"'
    with pytest.raises(DeviceBindingError, match=text):
        await stage.bind()
    assert stage.clock.slept == [5.0]


async def test_an_allocation_that_was_late_before_is_not_waited_for() -> None:
    stage = waiting_stage()
    await stage.api.get(stage.claim)
    with pytest.raises(DeviceBindingError):
        await stage.bind()
    again = Stage(stage.claim, None)
    again.clock._now = stage.clock._now + 100.0
    again.data.claims[0].claim = replace(
        again.data.claims[0].claim, status=replace(again.claim.status, reserved_for=())
    )
    again.api.put(again.data.claims[0].claim)
    again.data.claims[0].claim = again.claim
    with pytest.raises(DeviceBindingError, match="device binding timeout: claim=c"):
        await again.bind()


async def test_a_claim_that_vanishes_while_waiting_fails() -> None:
    stage = waiting_stage()
    stage.clock.on_sleep = lambda now: stage.store.remove("default/c")
    with pytest.raises(ClaimBindingError, match='could not find ResourceClaim "default/c"'):
        await stage.bind()


async def test_deallocation_and_deletion() -> None:
    stage = Stage(make_claim(allocation=result()), None)
    await stage.binder.deallocate(stage.claim)
    assert stage.claim.status == ResourceClaimStatus()
    await stage.binder.delete(stage.claim)
    assert not stage.store.list()


async def test_a_status_without_an_answer_is_looked_up() -> None:
    stage = Stage(make_claim(), result())
    write = stage.api.update_status

    async def unanswered(before: ResourceClaim, claim: ResourceClaim) -> ResourceClaim:
        await write(before, claim)
        raise WriteOutcomeUnknownError("no answer")

    stage.api.update_status = unanswered  # type: ignore[method-assign]
    await stage.bind()
    assert [each.claim for each in stage.data.claims] == [stage.claim]
    assert stage.claim.is_reserved_for(POD.metadata.uid)
    assert stage.tracker.get("c", "default") == stage.claim


async def test_a_status_without_an_answer_that_was_not_written_fails() -> None:
    stage = Stage(make_claim(), result())

    async def lost(before: ResourceClaim, claim: ResourceClaim) -> ResourceClaim:
        raise WriteOutcomeUnknownError("no answer")

    stage.api.update_status = lost  # type: ignore[method-assign]
    with pytest.raises(ClaimBindingError, match="no answer"):
        await stage.bind()
    assert stage.claim.status == ResourceClaimStatus()


async def test_undoing_goes_on_after_a_failure_which_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage(make_claim(allocation=result()), None)
    stage.store.remove("default/c")
    assert not await stage.binder.release(make_claim(), "uid")
    await stage.binder.undo_creation(make_claim(), POD)
    object.__setattr__(stage.handle.api, "patch_claim_statuses", None)
    await stage.binder.clear_statuses(POD)
    assert [record.message for record in caplog.records] == [
        "unreserve",
        "Failed to delete the claim for extended resources",
        "Failed to clear NodeAllocatableResourceClaimStatuses on Unreserve",
    ]


async def test_devices_stay_taken_until_a_cancelled_write_is_known() -> None:
    stage = Stage(make_claim(), result())
    stage.tracker.signal_pending_allocation("c", make_claim(allocation=result()))

    async def cancelled(before: ResourceClaim, claim: ResourceClaim) -> ResourceClaim:
        raise asyncio.CancelledError

    stage.api.update_status = cancelled  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await stage.bind()
    assert stage.clock.slept == []
    assert not stage.tracker.remove_pending_allocation("c", force=False)
    assert stage.tracker.pending_allocation("c") == result()
    (look_up,) = stage.handle.spawned
    await look_up
    assert stage.tracker.pending_allocation("c") is None
    assert list(stage.handle.activated) == [f"default/{POD.metadata.name}"]
