"""The writes of resource claims, as patches that carry the version that they are meant for.

Upstream sends whole objects. Ours hold only the fields that we read, and a full update would delete
the others.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from scheduler.api.dynamic_resources import (
    FINALIZER,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from scheduler.api_calls.calls import ClaimWriteCall
from scheduler.client import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    ClientError,
    Conflict,
    Invalid,
    NotFound,
    Retry,
    may_have_happened,
    repeat_write,
)
from scheduler.client.decoding import decoder_of
from scheduler.client.kinds import KINDS
from scheduler.client.protobuf import field
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
_DECODER: Final = decoder_of(_CLAIMS)

#: Numbers of fields in the protobuf messages ResourceClaim, ObjectMeta and ResourceClaimStatus.
_METADATA: Final = 1
_STATUS: Final = 3
_RESOURCE_VERSION: Final = 6
_FINALIZERS: Final = 14
_RESERVED_FOR: Final = 2


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
        return _DECODER.object(body, url=_CLAIMS.collection_path(claim.metadata.namespace))

    async def update(self, claim: ResourceClaim) -> ResourceClaim:
        finalizers = claim.metadata.finalizers
        added = field(_METADATA, field(_FINALIZERS, FINALIZER)) if FINALIZER in finalizers else b""
        return await self._patch(claim, {"finalizers": list(finalizers)}, None, added)

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
        users = new.reserved_for[len(old.reserved_for) :]
        is_longer = old.reserved_for + users == new.reserved_for
        added = b""
        if list(status) == ["reservedFor"] and is_longer:
            added = field(_STATUS, b"".join(field(_RESERVED_FOR, _encoded(user)) for user in users))
        return await self._patch(claim, {}, status, added)

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
        self,
        claim: ResourceClaim,
        changes: dict[str, object],
        status: dict[str, object] | None,
        added: bytes,
    ) -> ResourceClaim:
        """Patch the metadata, or the status, of the version of the claim that was read.

        `added` is the same change as fields in protobuf, empty if it does not only add something.
        It is sent after a refusal: every patch in JSON is invalid for a claim whose stored
        parameters differ from the same in JSON, see `client.protobuf`.
        """
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
                return await self._send(claim, patch, added)
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

    async def _send(
        self, claim: ResourceClaim, patch: dict[str, object], added: bytes
    ) -> ResourceClaim:
        """Send a patch, or the added fields if the patch is invalid."""
        metadata = claim.metadata
        name, namespace = metadata.name, metadata.namespace
        subresource = "status" if "status" in patch else ""
        try:
            return await self._client.patch(
                _CLAIMS,
                name,
                patch,
                namespace=namespace,
                subresource=subresource,
                content_type=MERGE_PATCH,
            )
        except Invalid:
            version = field(_METADATA, field(_RESOURCE_VERSION, metadata.resource_version))
            written = added and await self._client.append_fields(
                _CLAIMS, name, version + added, namespace=namespace, subresource=subresource
            )
            if not written:
                raise
            return written

    async def _write(
        self, claim: ResourceClaim, retry: Retry, send: Callable[[], Awaitable[R]]
    ) -> R:
        async with self._slot(ClaimWriteCall(claim.metadata, next(self._numbers))):
            return await repeat_write(send, retry, self._clock)


def _encoded(user: ResourceClaimConsumerReference) -> bytes:
    """Return a user of a claim as a message."""
    texts = ((1, user.api_group), (3, user.resource), (4, user.name), (5, user.uid))
    return b"".join(field(number, text) for number, text in texts)
