"""The writes of resource claims, as patches that carry the version that they are meant for.

Upstream sends whole objects. Ours hold only the fields that we read, and a full update would delete
the others.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from scheduler.api.dynamic_resources import ResourceClaim
from scheduler.api_calls.calls import ClaimWriteCall
from scheduler.client import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    ClientError,
    Conflict,
    NotFound,
    Retry,
    may_have_happened,
    repeat_write,
)
from scheduler.client.kinds import KINDS
from scheduler.framework.handle import (
    ObjectNotFoundError,
    WriteConflictError,
    WriteOutcomeUnknownError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from scheduler.client import Resource, RestClient
    from scheduler.clock import Clock

R = TypeVar("R")

_CLAIMS: Final[Resource[ResourceClaim]] = KINDS["resourceclaims"]


class Slot(Protocol):
    """Waits until a call may be made."""

    def __call__(self, call: ClaimWriteCall) -> AbstractAsyncContextManager[ClaimWriteCall]: ...


class ResourceClaimCalls:
    """Makes the writes; satisfies `scheduler.framework.handle.ResourceClaimWriter`."""

    def __init__(self, client: RestClient, clock: Clock, slot: Slot) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._slot: Final = slot
        self._numbers: Final = itertools.count()

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        metadata = claim.metadata
        try:
            return await self._client.get(_CLAIMS, metadata.name, namespace=metadata.namespace)
        except NotFound as error:
            raise ObjectNotFoundError(str(error)) from error

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create a claim. Sent again only if the first request surely was not executed."""
        body = await self._write(
            claim, Retry.IF_NOT_SENT, lambda: self._client.create(_CLAIMS, claim)
        )
        return msgspec.json.decode(body, type=ResourceClaim)

    async def update(self, claim: ResourceClaim) -> ResourceClaim:
        return await self._patch(claim, {"finalizers": list(claim.metadata.finalizers)}, None)

    async def update_status(self, before: ResourceClaim, claim: ResourceClaim) -> ResourceClaim:
        old, new = before.status, claim.status
        status: dict[str, object] = {}
        if new.allocation is None or old.allocation is None:
            status["allocation"] = msgspec.to_builtins(new.allocation)
        elif new.allocation != old.allocation:
            # An allocation itself never changes.
            timestamp = msgspec.to_builtins(new.allocation.allocation_timestamp)
            status["allocation"] = {"allocationTimestamp": timestamp}
        if new.reserved_for != old.reserved_for:
            status["reservedFor"] = msgspec.to_builtins(new.reserved_for) or None
        if new.devices != old.devices:
            status["devices"] = msgspec.to_builtins(new.devices) or None
        return await self._patch(claim, {}, status)

    async def release(self, claim: ResourceClaim, uid: str) -> None:
        """Remove a user by its uid, whatever the version of the claim is."""
        metadata = claim.metadata
        users = [{"$patch": "delete", "uid": uid}]
        patch = {"metadata": {"uid": metadata.uid}, "status": {"reservedFor": users}}
        await self._write(
            claim,
            Retry.ALWAYS,
            lambda: self._client.patch(
                _CLAIMS,
                metadata.name,
                patch,
                namespace=metadata.namespace,
                subresource="status",
                content_type=STRATEGIC_MERGE_PATCH,
            ),
        )

    async def delete(self, claim: ResourceClaim) -> None:
        metadata = claim.metadata
        await self._write(
            claim,
            Retry.IF_NOT_SENT,
            lambda: self._client.delete(_CLAIMS, metadata.name, namespace=metadata.namespace),
        )

    async def _patch(
        self, claim: ResourceClaim, changes: dict[str, object], status: dict[str, object] | None
    ) -> ResourceClaim:
        """Patch the metadata, or the status, of the version of the claim that was read."""
        metadata = claim.metadata
        patch: dict[str, object] = {
            "metadata": {
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
                **changes,
            }
        }
        if status is not None:
            patch["status"] = status
        #: True if a request has no answer; finalizers may be written twice.
        is_unknown = False

        async def send() -> ResourceClaim:
            nonlocal is_unknown
            try:
                return await self._client.patch(
                    _CLAIMS,
                    metadata.name,
                    patch,
                    namespace=metadata.namespace,
                    subresource="" if status is None else "status",
                    content_type=MERGE_PATCH,
                )
            except ClientError as error:
                is_unknown |= status is not None and may_have_happened(error)
                raise

        try:
            return await self._write(claim, Retry.IF_VERSION_CHECKED, send)
        except Conflict as error:
            # An earlier request without an answer may be what has changed the claim.
            kind = WriteOutcomeUnknownError if is_unknown else WriteConflictError
            raise kind(str(error)) from error
        except ClientError as error:
            if is_unknown:
                raise WriteOutcomeUnknownError(str(error)) from error
            raise

    async def _write(
        self, claim: ResourceClaim, retry: Retry, send: Callable[[], Awaitable[R]]
    ) -> R:
        async with self._slot(ClaimWriteCall(claim.metadata, next(self._numbers))):
            return await repeat_write(send, retry, self._clock)
