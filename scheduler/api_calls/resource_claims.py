"""The writes of resource claims, as patches that carry the version that they are meant for.

Upstream sends whole objects. Our objects hold only the fields that we read; a full update would
delete all other fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from scheduler.api.dynamic_resources import FINALIZER, ResourceClaim, ResourceClaimConsumerReference
from scheduler.client import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    ClientError,
    Conflict,
    Invalid,
    NotFound,
    Retry,
    may_have_happened,
)
from scheduler.client.decoding import decoder_of
from scheduler.client.kinds import KINDS
from scheduler.client.protobuf import field, fields
from scheduler.framework.handle import (
    ObjectNotFoundError,
    WriteConflictError,
    WriteOutcomeUnknownError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scheduler.api.core import ObjectMeta
    from scheduler.client import Resource, RestClient

R = TypeVar("R")

_CLAIMS: Final[Resource[ResourceClaim]] = KINDS["resourceclaims"]
_DECODER: Final = decoder_of(_CLAIMS)

#: Numbers of fields in the protobuf messages ResourceClaim, ObjectMeta, ResourceClaimStatus and
#: ResourceClaimConsumerReference.
_METADATA: Final = 1
_STATUS: Final = 3
_UID: Final = 5
_RESOURCE_VERSION: Final = 6
_FINALIZERS: Final = 14
_RESERVED_FOR: Final = 2
_USER_UID: Final = 5


class Write(Protocol):
    """Sends a write once it may be made, and retries it."""

    def __call__(
        self, metadata: ObjectMeta, retry: Retry, send: Callable[[], Awaitable[R]], /
    ) -> Awaitable[R]: ...


class ResourceClaimCalls:
    """Makes the writes; satisfies `scheduler.framework.handle.ResourceClaimWriter`."""

    def __init__(self, client: RestClient, write: Write) -> None:
        self._client: Final = client
        self._write: Final = write

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        metadata = claim.metadata
        try:
            return await self._client.get(_CLAIMS, metadata.name, namespace=metadata.namespace)
        except NotFound as error:
            raise ObjectNotFoundError(str(error)) from error

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create a claim. Sent again only if the first request surely was not executed."""
        body = await self._write(
            claim.metadata, Retry.IF_NOT_SENT, lambda: self._client.create(_CLAIMS, claim)
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
        same = field(_METADATA, field(_UID, metadata.uid))

        async def send() -> ResourceClaim:
            kind = STRATEGIC_MERGE_PATCH
            return await self._send(claim, patch, kind, lambda it: _without_user(it, uid) + same)

        await self._write(metadata, Retry.ALWAYS, send)

    async def delete(self, claim: ResourceClaim) -> None:
        metadata = claim.metadata
        await self._write(
            metadata,
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
        version = field(_METADATA, field(_RESOURCE_VERSION, metadata.resource_version))
        edit = (lambda it: it + version + added) if added else None
        #: True if a request has no answer; finalizers may be written twice.
        is_unknown = False

        async def send() -> ResourceClaim:
            nonlocal is_unknown
            try:
                return await self._send(claim, patch, MERGE_PATCH, edit)
            except ClientError as error:
                is_unknown |= status is not None and may_have_happened(error)
                raise

        try:
            return await self._write(metadata, Retry.IF_VERSION_CHECKED, send)
        except Conflict as error:
            # An earlier request without an answer may be what has changed the claim.
            kind = WriteOutcomeUnknownError if is_unknown else WriteConflictError
            raise kind(str(error)) from error
        except ClientError as error:
            if is_unknown:
                raise WriteOutcomeUnknownError(str(error)) from error
            raise

    async def _send(
        self,
        claim: ResourceClaim,
        patch: dict[str, object],
        kind: str,
        edit: Callable[[bytes], bytes] | None,
    ) -> ResourceClaim:
        """Send a patch; if it is invalid, make the same change in protobuf by `edit`.

        Every patch in JSON is invalid for a claim whose stored parameters differ from the same in
        JSON, see `client.protobuf`.
        """
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
                content_type=kind,
            )
        except Invalid:
            written = edit and await self._client.edit(
                _CLAIMS, name, edit, namespace=namespace, subresource=subresource
            )
            if not written:
                raise
            return written


def _encoded(user: ResourceClaimConsumerReference) -> bytes:
    """Return a user of a claim as a message."""
    texts = ((1, user.api_group), (3, user.resource), (4, user.name), (_USER_UID, user.uid))
    return b"".join(field(number, text) for number, text in texts)


def _without_user(claim: bytes, uid: str) -> bytes:
    """Return the message of a claim without the user of this uid."""

    def is_kept(number: int, value: bytes) -> bool:
        return number != _RESERVED_FOR or (_USER_UID, uid.encode()) not in fields(value)

    def kept(status: bytes) -> bytes:
        return b"".join(field(*entry) for entry in fields(status) if is_kept(*entry))

    return b"".join(
        field(number, kept(value) if number == _STATUS else value)
        for number, value in fields(claim)
    )
