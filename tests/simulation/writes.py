"""The scheduler's writes to the store: slow, refused, or with a lost answer.

It stands where the REST client stands, and keeps account of what the scheduler has asked for.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from scheduler.api.core import Pod
from scheduler.api.dynamic_resources import ResourceClaim
from scheduler.client import STRATEGIC_MERGE_PATCH
from scheduler.client.errors import (
    ClientError,
    Conflict,
    ConnectionFailed,
    ConnectionRefused,
    ServerError,
)
from scheduler.client.kinds import KINDS, POD_GROUPS
from scheduler.testing import VirtualClock

from .api_store import ApiStore
from .claim_store import ClaimStore

R = TypeVar("R")

CLAIMS = KINDS["resourceclaims"]
FAULTS = ("conflict", "server_error", "refused", "timeout", "lost_answer")


class Writes:
    """Applies the writes; `complaints` are writes that no correct scheduler makes."""

    def __init__(self, store: ApiStore, clock: VirtualClock) -> None:
        self._store = store
        self._claims = ClaimStore(store)
        self._clock = clock
        self._faults: list[tuple[str, str]] = []
        self.latency_seconds = 0.0
        self.made: Counter[str] = Counter()
        self.complaints: list[str] = []
        #: Told of pods that got their node, and of nodes whose pods the scheduler cannot know.
        self.on_bound: Callable[[Pod, str], None] = lambda pod, node_name: None
        self.on_lost: Callable[[str], None] = lambda node_name: None
        #: Called with a pod that is deleted, and with one whose binding has failed.
        self.on_deleted: Callable[[Pod], None] = lambda pod: None
        self.on_not_bound: Callable[[Pod], None] = lambda pod: None
        self._bound: set[str] = set()
        #: Pods that got their node from the scheduler, with or without a response.
        self.got_node: set[str] = set()
        #: Pods whose next read fails.
        self._unreadable: set[str] = set()
        #: The keys of claims with a write that failed, or without a response.
        self.maybe_left: set[str] = set()
        #: Pod groups whose status was not written, or without an answer.
        self.groups_not_patched: set[str] = set()

    def fail(self, write: str, how: str, times: int) -> None:
        """Have the next writes of a sort fail."""
        self._faults += [(write, how)] * times

    def heal(self) -> None:
        """End all faults."""
        self._faults.clear()
        self.latency_seconds = 0.0

    def forget_earlier_clients(self) -> None:
        """Treat later callers as other clients."""
        self._bound.clear()
        self.got_node.clear()

    async def bind(self, pod: Pod, node_name: str) -> None:
        """`RestClient.bind`."""
        uid = pod.metadata.uid
        if uid in self._bound:
            self.complaints.append(f"pod {uid} is bound already, and has been told so")

        def carry_out() -> None:
            self._store.bind(pod.key, uid, node_name)
            self.got_node.add(uid)
            self.on_bound(pod, node_name)

        def on_lost() -> None:
            self.on_lost(node_name)
            self._unreadable.add(pod.key)

        try:
            await self._write("bind", carry_out, on_lost=on_lost)
        except ClientError:
            self.on_not_bound(pod)
            raise
        self._bound.add(uid)

    async def create(self, resource: object, claim: ResourceClaim) -> bytes:
        """`RestClient.create`, of a claim."""
        try:
            created = await self._write("claim_create", lambda: self._claims.create(claim))
        except ClientError:
            owners = claim.metadata.owner_references
            made = [
                c for c in self._store.claims.now.values() if c.metadata.owner_references == owners
            ]
            self.maybe_left |= {each.key for each in made}
            raise
        return msgspec.json.encode(created)

    async def get(self, resource: object, name: str, *, namespace: str) -> Pod | ResourceClaim:
        """`RestClient.get` of a claim or a pod.

        That of a pod fails right after a binding whose response was lost.
        """
        key = f"{namespace}/{name}"
        if resource is CLAIMS:
            return await self._write("claim_get", lambda: self._claims.get(key))
        if key in self._unreadable:
            self._unreadable.remove(key)
            raise ConnectionFailed(f"no answer to a question about {name}", reset=True)
        return self._store.pod(key)

    async def patch(
        self,
        resource: object,
        name: str,
        patch: object,
        *,
        namespace: str = "",
        subresource: str = "",
        content_type: str = "",
    ) -> object:
        """`RestClient.patch`, of a claim, or of the status of a pod or of a pod group."""
        parts, key = cast("dict[str, Any]", patch), f"{namespace}/{name}"
        if resource is CLAIMS:
            return await self._patch_claim(key, parts, subresource, content_type)
        status = parts["status"]
        if "extendedResourceClaimStatus" in status:
            return await self._write("pod_claim", lambda: self._claims.patch_pod(key, status))
        version = cast("str", parts.get("metadata", {}).get("resourceVersion", ""))
        if resource is not POD_GROUPS:
            known = self._store.pods.now.get(key)
            uid = known.metadata.uid if known is not None else ""
            await self._write(
                "patch", lambda: self._patch_pod_status(key, uid, status, version=version)
            )
            return None
        try:
            await self._write("patch", lambda: self._store.patch_pod_group_status(key, status))
        except ClientError:
            self.groups_not_patched.add(key)
            raise
        return None

    async def _patch_claim(
        self, key: str, patch: dict[str, Any], subresource: str, content_type: str
    ) -> ResourceClaim:
        try:
            if content_type == STRATEGIC_MERGE_PATCH:
                return await self._write("claim_release", lambda: self._claims.release(key, patch))
            return await self._write(
                "claim_status" if subresource else "claim_update",
                lambda: self._claims.patch(key, patch, subresource=subresource),
            )
        except ClientError:
            self.maybe_left.add(key)
            raise

    def _patch_pod_status(
        self, key: str, uid: str, status: dict[str, object], *, version: str
    ) -> None:
        self._store.patch_status(key, status, version=version)
        pod = self._store.pod(key)
        # A pod that another client binds may be reported by what the scheduler knew before, and a
        # late patch, which goes by name as upstream's, may reach another pod.
        conditions = [(c.type, c.status) for c in pod.status.conditions]
        is_same = pod.metadata.uid == uid
        if (
            is_same
            and pod.metadata.uid in self.got_node
            and ("PodScheduled", "False") in conditions
        ):
            self.complaints.append(f"pod {key} is bound, and is reported as not scheduled")

    async def delete(self, resource: object, name: str, *, namespace: str = "") -> None:
        """`RestClient.delete`, of a pod or of a claim."""
        key = f"{namespace}/{name}"
        if resource is CLAIMS:
            try:
                await self._write("claim_delete", lambda: self._claims.delete(key))
            except ClientError:
                self.maybe_left.add(key)
                raise
            return

        def carry_out() -> None:
            self.on_deleted(self._store.pod(key))
            self._store.delete_pod(key)

        await self._write("delete", carry_out)

    async def _write(
        self,
        write: str,
        carry_out: Callable[[], R],
        *,
        on_lost: Callable[[], None] = lambda: None,
    ) -> R:
        await self._clock.sleep(self.latency_seconds / 2)
        fault = next((how for what, how in self._faults if what == write), "")
        if fault:
            self._faults.remove((write, fault))
        if fault == "conflict":
            raise Conflict(409, "Conflict", "another client was faster")
        if fault == "server_error":
            raise ServerError(500, "InternalError", "etcd is gone")
        if fault == "refused":
            raise ConnectionRefused("connection refused")
        if fault == "timeout":
            raise ConnectionFailed("no answer in time")
        result = carry_out()
        self.made[write] += 1
        await self._clock.sleep(self.latency_seconds / 2)
        if fault == "lost_answer":
            on_lost()
            raise ConnectionFailed("the server closed the connection without an answer", reset=True)
        return result
