"""The writes of resource claims against an API server."""

import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from fakeapi import FakeApiServer
from scheduler.api.core import ObjectMeta
from scheduler.api.dynamic_resources import (
    FINALIZER,
    AllocatedDeviceStatus,
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
from scheduler.api_calls.resource_claims import ResourceClaimCalls
from scheduler.client import Invalid, RestClient, connect, connection_to
from scheduler.clock import SystemClock
from scheduler.framework.handle import ObjectNotFoundError, WriteConflictError
from tests.client.scripted_server import Answer, ScriptedServer
from tests.fakeapi.protobuf_writer import MEDIA_TYPE, enveloped, message, metadata

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


#: A claim as it is stored, with blanks in its opaque parameters; the numbers are those of protobuf.
STORED = message((1, metadata("mine", (6, "9"))), (2, b'{"mode": "fast"}'))
IMMUTABLE = Answer({
    "kind": "Status", "status": "Failure", "reason": "Invalid", "message": "field is immutable"
}, 422)  # fmt: skip
WRITTEN = Answer({"metadata": {"name": "mine", "namespace": "default", "resourceVersion": "10"}})
MINE = replace(NEW, metadata=ObjectMeta(name="mine", namespace="default", resource_version="9"))


@contextlib.asynccontextmanager
async def scripted(*script: Answer) -> AsyncIterator[tuple[ResourceClaimCalls, ScriptedServer]]:
    clock = SystemClock()
    async with (
        ScriptedServer(*script) as server,
        RestClient(connection_to(server.url), user_agent="test", clock=clock) as client,
    ):
        yield ApiDispatcher(client, clock).resource_claims, server


def in_protobuf(stored: bytes) -> bytes:
    return enveloped("resource.k8s.io/v1", "ResourceClaim", stored)


async def test_a_claim_that_no_patch_may_change_gets_its_finalizer_in_protobuf() -> None:
    finalized = replace(MINE, metadata=replace(MINE.metadata, finalizers=(FINALIZER,)))
    async with scripted(IMMUTABLE, Answer(in_protobuf(STORED)), WRITTEN) as (calls, server):
        assert (await calls.update(finalized)).metadata.resource_version == "10"
    assert server.methods() == ["PATCH", "GET", "PUT"]
    _, read, put = server.asked
    assert read.headers["Accept"] == f"{MEDIA_TYPE}, application/json"
    assert put.headers["Content-Type"] == MEDIA_TYPE
    added = ((1, message((6, "9"))), (1, message((14, FINALIZER))))
    assert put.body == in_protobuf(STORED + message(*added))


async def test_a_claim_that_no_patch_may_change_gets_a_user_in_protobuf() -> None:
    before = replace(MINE, status=ResourceClaimStatus(ALLOCATION, USERS[:1]))
    async with scripted(IMMUTABLE, Answer(in_protobuf(STORED)), WRITTEN) as (calls, server):
        await calls.update_status(before, allocated(before))
    put = server.asked[-1]
    assert put.path.endswith("/resourceclaims/mine/status")
    user = message((1, ""), (3, "pods"), (4, "two"), (5, "uid-two"))
    added = ((1, message((6, "9"))), (3, message((2, user))))
    assert put.body == in_protobuf(STORED + message(*added))


async def test_a_claim_that_no_patch_may_change_loses_a_user_in_protobuf() -> None:
    def user(name: str) -> tuple[int, bytes]:
        return 2, message((1, ""), (3, "pods"), (4, name), (5, f"uid-{name}"))

    allocation = (1, b'{"mode": "fast"}')
    stored = STORED + message((3, message(allocation, user("one"), user("two"))))
    left = STORED + message((3, message(allocation, user("two"))))
    mine = replace(MINE, metadata=replace(MINE.metadata, uid="uid-mine"))
    changed = Answer({"kind": "Status", "status": "Failure", "reason": "Conflict"}, 409)
    script = (IMMUTABLE, Answer(in_protobuf(stored)), changed)
    async with scripted(*script, *script[:2], WRITTEN) as (calls, server):
        await calls.release(mine, "uid-one")
    assert server.methods() == ["PATCH", "GET", "PUT"] * 2
    put = server.asked[-1]
    assert put.path.endswith("/resourceclaims/mine/status")
    assert put.body == in_protobuf(left + message((1, message((5, "uid-mine")))))


async def test_a_status_is_patched_where_it_differs() -> None:
    before = allocated(MINE)
    timed = replace(ALLOCATION, allocation_timestamp=datetime(2026, 1, 2, tzinfo=UTC))
    device = AllocatedDeviceStatus("d.example.com", "p", "x")
    after = replace(MINE, status=replace(before.status, allocation=timed, devices=(device,)))
    async with scripted(WRITTEN, WRITTEN) as (calls, server):
        await calls.update_status(before, after)
        await calls.update_status(after, replace(after, status=ResourceClaimStatus()))
    patches = [json.loads(asked.body)["status"] for asked in server.asked]
    assert patches[0]["allocation"] == {"allocationTimestamp": "2026-01-02T00:00:00Z"}
    assert patches[0]["devices"][0]["device"] == "x"
    assert "reservedFor" not in patches[0]
    assert patches[1] == {"allocation": None, "reservedFor": None, "devices": None}


async def test_without_protobuf_the_refusal_of_the_patch_stays() -> None:
    finalized = replace(MINE, metadata=replace(MINE.metadata, finalizers=(FINALIZER,)))
    async with scripted(IMMUTABLE, WRITTEN) as (calls, _):
        with pytest.raises(Invalid, match="field is immutable"):
            await calls.update(finalized)


async def test_other_changes_that_are_refused_are_not_tried_in_protobuf() -> None:
    async with scripted(IMMUTABLE, IMMUTABLE) as (calls, server):
        with pytest.raises(Invalid):
            await calls.update(MINE)
        with pytest.raises(Invalid):
            await calls.update_status(MINE, allocated(MINE))
    assert server.methods() == ["PATCH", "PATCH"]


async def test_a_created_claim_without_requests_has_null_in_the_answer() -> None:
    answer = Answer({"metadata": {"name": "mine"}, "spec": {"devices": {"requests": None}}})
    async with scripted(answer) as (calls, _):
        assert (await calls.create(MINE)).spec.devices.requests == ()
