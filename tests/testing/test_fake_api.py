"""The API of a `FakeHandle`: each write is recorded, and fails if the test wants it to."""

from collections.abc import Awaitable, Callable

import pytest

from scheduler.api.core import (
    NodeAllocatableResourceClaimStatus,
    ObjectMeta,
    PodExtendedResourceClaimStatus,
)
from scheduler.api.dynamic_resources import ResourceClaim
from scheduler.api.pod_groups import PodGroup
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.framework import Condition
from scheduler.framework.handle import ObjectNotFoundError
from scheduler.testing import make_pod
from scheduler.testing.fake_api import FakeApi, StatusPatch

POD = make_pod()
CLAIM = ResourceClaim(ObjectMeta(generate_name="c-"))
GROUP, VOLUME = PodGroup(ObjectMeta(name="g")), PersistentVolume(ObjectMeta(name="v"))
VOLUME_CLAIM = PersistentVolumeClaim(ObjectMeta(name="vc"))
CONDITION = Condition("PodScheduled", "False", "Unschedulable", "no room")
EXTENDED, TAKEN = PodExtendedResourceClaimStatus(), (NodeAllocatableResourceClaimStatus("c"),)

Write = Callable[[FakeApi], Awaitable[object]]


@pytest.mark.parametrize(
    ("write", "recorded"),
    [
        (lambda api: api.bind(POD, "n"), lambda api: api.bound == {POD.key: "n"}),
        (
            lambda api: api.patch_pod_status(POD, condition=CONDITION, nominating_info=None),
            lambda api: api.status_patches == [StatusPatch(POD.key, CONDITION, None)],
        ),
        (
            lambda api: api.patch_pod_group_status(GROUP, condition=CONDITION),
            lambda api: api.pod_group_conditions == [("g", CONDITION)],
        ),
        (lambda api: api.delete_pod(POD), lambda api: api.deleted == [POD.key]),
        (
            lambda api: api.update_persistent_volume(VOLUME),
            lambda api: api.updated_volumes == [VOLUME],
        ),
        (
            lambda api: api.update_persistent_volume_claim(VOLUME_CLAIM),
            lambda api: api.updated_claims == [VOLUME_CLAIM],
        ),
        (
            lambda api: api.patch_extended_resource_claim_status(POD, EXTENDED),
            lambda api: api.extended_claims == {POD.key: EXTENDED},
        ),
        (
            lambda api: api.patch_claim_statuses(POD, TAKEN),
            lambda api: api.claim_statuses == {POD.key: TAKEN},
        ),
    ],
)
async def test_a_write_is_recorded_unless_writes_fail(
    write: Write, recorded: Callable[[FakeApi], bool]
) -> None:
    api = FakeApi()
    await write(api)
    assert recorded(api)
    api.failure = failure = OSError("down")
    with pytest.raises(OSError, match="down") as caught:
        await write(api)
    assert caught.value is failure


async def test_writes_of_claims_are_recorded_in_order_unless_they_fail() -> None:
    claims = FakeApi().resource_claims
    created = await claims.create(CLAIM)
    assert created.metadata.name == "c-0"
    assert await claims.get(created) is created
    await claims.update(created)
    await claims.update_status(created, created)
    await claims.release(created, "uid")
    await claims.delete(created)
    words = ["create", "update", "update_status", "release", "delete"]
    assert claims.written == [(word, created) for word in words]
    claims.failure = OSError("down")
    with pytest.raises(OSError, match="down"):
        await claims.update(created)


async def test_a_client_keeps_what_was_created_patched_and_deleted() -> None:
    api = FakeApi()
    client = api.client("configmaps.v1")
    await client.create({"metadata": {"name": "m", "namespace": "ns"}, "data": {"a": "1"}})
    await client.patch("m", {"data": {"a": None, "b": "2"}}, namespace="ns")
    assert (await client.get("m", namespace="ns"))["data"] == {"b": "2"}
    assert await client.delete("m", namespace="ns")
    with pytest.raises(ObjectNotFoundError, match=r'configmaps.v1 "m" not found'):
        await client.get("m", namespace="ns")
    assert [write.verb for write in api.written] == ["create", "patch", "delete"]
