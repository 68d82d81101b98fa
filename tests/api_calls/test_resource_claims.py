"""The writes of resource claims against an API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from fakeapi import FakeApiServer
from scheduler.api.core import ObjectMeta
from scheduler.api.dynamic_resources import (
    FINALIZER,
    AllocationResult,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.client import RestClient, connect
from scheduler.clock import SystemClock
from scheduler.framework.handle import ObjectNotFoundError, WriteConflictError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scheduler.api_calls.resource_claims import ResourceClaimCalls

pytestmark = pytest.mark.slow

REQUEST = DeviceRequest("r", ExactDeviceRequest("gpu", allocation_mode="ExactCount", count=1))
NEW = ResourceClaim(
    ObjectMeta(namespace="default", generate_name="new-"),
    ResourceClaimSpec(DeviceClaim((REQUEST,))),
)
ALLOCATION = AllocationResult(
    DeviceAllocationResult((DeviceRequestAllocationResult("r", "d.example.com", "p", "x"),))
)
USERS = tuple(
    ResourceClaimConsumerReference("", "pods", name, f"uid-{name}") for name in ("one", "two")
)


@pytest.fixture
async def calls(tmp_path: Path) -> AsyncIterator[ResourceClaimCalls]:
    async with FakeApiServer() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        clock = SystemClock()
        connection = connect(kubeconfig=str(tmp_path / "kubeconfig"), clock=clock)
        async with RestClient(connection, user_agent="test", clock=clock) as client:
            yield ApiDispatcher(client, clock).resource_claims


def allocated(claim: ResourceClaim) -> ResourceClaim:
    return replace(claim, status=ResourceClaimStatus(ALLOCATION, USERS))


async def test_a_claim_is_created_written_released_and_deleted(calls: ResourceClaimCalls) -> None:
    created = await calls.create(NEW)
    assert created.metadata.name.startswith("new-")
    assert created.spec == NEW.spec
    finalized = replace(created.metadata, finalizers=(FINALIZER,))
    updated = await calls.update(replace(created, metadata=finalized))
    assert updated.metadata.finalizers == (FINALIZER,)
    written = await calls.update_status(updated, allocated(updated))
    assert written.status == ResourceClaimStatus(ALLOCATION, USERS)
    await calls.release(written, "uid-one")
    current = await calls.get(written)
    assert current.status.reserved_for == USERS[1:]
    freed = await calls.update_status(current, replace(current, status=ResourceClaimStatus()))
    assert freed.status == ResourceClaimStatus()
    bare = replace(freed.metadata, finalizers=())
    await calls.delete(await calls.update(replace(freed, metadata=bare)))
    with pytest.raises(ObjectNotFoundError):
        await calls.get(freed)


async def test_an_update_of_an_old_version_is_a_conflict(calls: ResourceClaimCalls) -> None:
    created = await calls.create(NEW)
    await calls.update_status(created, allocated(created))
    with pytest.raises(WriteConflictError, match="the object has been modified"):
        await calls.update_status(created, allocated(created))
    with pytest.raises(WriteConflictError):
        await calls.update(created)
