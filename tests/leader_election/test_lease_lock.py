"""The lease as a lock: its requests, and the fields that it keeps."""

from __future__ import annotations

import pytest

from scheduler.api.core import ObjectReference
from scheduler.client import Conflict, DecodeError, LeaseSpec, RestClient, connection_to
from scheduler.leader_election.lease_lock import LeaseLock
from scheduler.testing import VirtualClock
from tests.client.scripted_server import Answer, Script, ScriptedServer

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
RECORD = LeaseSpec(
    holder_identity="host_uuid",
    lease_duration_seconds=15,
    acquire_time="2026-01-01T00:00:00.000000Z",
    renew_time="2026-01-01T00:00:00.000000Z",
    lease_transitions=0,
)
SPEC = {
    "holderIdentity": "host_uuid",
    "leaseDurationSeconds": 15,
    "acquireTime": "2026-01-01T00:00:00.000000Z",
    "renewTime": "2026-01-01T00:00:00.000000Z",
    "leaseTransitions": 0,
}


def lease(version: str = "7", **metadata: object) -> dict[str, object]:
    about = {"name": "kube-scheduler", "namespace": "kube-system", "uid": "u"}
    return {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {**about, "resourceVersion": version, **metadata},
        "spec": {"holderIdentity": "other", "leaseTransitions": 2, "strategy": "S"},
    }


class Locked:
    """A lock on a scripted server."""

    def __init__(self, *script: Script) -> None:
        self.server = ScriptedServer(*script)

    async def __aenter__(self) -> Locked:
        await self.server.__aenter__()
        connection = connection_to(self.server.url)
        self._client = RestClient(
            connection, user_agent="kubesched/test", clock=VirtualClock(), timeout_seconds=5.0
        )
        await self._client.__aenter__()
        self.lock = LeaseLock(self._client, namespace="kube-system", name="kube-scheduler")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.__aexit__(None, None, None)
        await self.server.__aexit__(None, None, None)


async def test_a_lease_is_made_as_upstream_makes_it() -> None:
    async with Locked(Answer(lease(), 201)) as locked:
        await locked.lock.create(RECORD)
    (asked,) = locked.server.asked
    assert (asked.method, asked.path, asked.query) == ("POST", PATH, {"timeout": "5s"})
    assert asked.json == {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
        "spec": SPEC,
    }


async def test_a_lease_is_replaced_with_all_that_others_have_written_on_it() -> None:
    metadata = {
        "labels": {"team": "a"},
        "finalizers": ["keep"],
        "ownerReferences": [{"uid": "o", "blockOwnerDeletion": True}],
        "managedFields": [{"manager": "someone", "fieldsV1": {"f:spec": {}}}],
    }
    answers = Answer(lease("7", **metadata)), Answer(lease("8", **metadata)), Answer(lease("9"))
    async with Locked(*answers) as locked:
        await locked.lock.get()
        await locked.lock.update(RECORD)
        await locked.lock.update(RECORD)
    first, second = locked.server.asked[1:]
    assert (first.method, first.path) == ("PUT", f"{PATH}/kube-scheduler")
    # The spec is ours alone: what others have put there goes, as upstream lets it go.
    assert first.json == {**lease("7", **metadata), "spec": SPEC}
    assert second.json == {**lease("8", **metadata), "spec": SPEC}


async def test_a_released_lease_has_an_empty_holder() -> None:
    async with Locked(Answer(lease()), Answer(lease())) as locked:
        await locked.lock.get()
        await locked.lock.update(LeaseSpec(holder_identity="", lease_duration_seconds=1))
    body = locked.server.asked[1].json
    assert isinstance(body, dict)
    assert body["spec"] == {"holderIdentity": "", "leaseDurationSeconds": 1}


async def test_the_record_is_read_and_nulls_are_nothing() -> None:
    found = lease()
    found["spec"] = {"holderIdentity": "other", "acquireTime": None, "leaseDurationSeconds": 15}
    async with Locked(Answer(found)) as locked:
        record = await locked.lock.get()
    assert record == LeaseSpec(holder_identity="other", lease_duration_seconds=15)


async def test_a_refused_write_changes_nothing() -> None:
    refusal = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "changed"}
    async with Locked(Answer(lease()), Answer(refusal, 409), Answer(lease("8"))) as locked:
        await locked.lock.get()
        with pytest.raises(Conflict):
            await locked.lock.update(RECORD)
        assert locked.lock.reference.resource_version == "7"
        await locked.lock.update(RECORD)
        assert locked.lock.reference == ObjectReference(
            api_version="coordination.k8s.io/v1",
            kind="Lease",
            namespace="kube-system",
            name="kube-scheduler",
            uid="u",
            resource_version="8",
        )


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"spec": 5}'])
async def test_an_answer_that_is_no_lease_is_an_error(body: bytes) -> None:
    async with Locked(Answer(body)) as locked:
        with pytest.raises(DecodeError):
            await locked.lock.get()
