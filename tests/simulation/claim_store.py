"""The resource claims of an API server in memory, changed as its rules allow.

A claim with a finalizer is only marked when it is deleted. An allocation does not change, and is
not removed while the claim is reserved. Only an allocated claim that is not being deleted can be
reserved, for at most 256 users.
Source: `ValidateResourceClaimStatusUpdate` in `pkg/apis/resource/validation`, v1.36.3.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.api.core import Pod, PodExtendedResourceClaimStatus
from scheduler.api.dynamic_resources import FINALIZER, ResourceClaim
from scheduler.client.errors import Conflict, Invalid, NotFound

from .api_store import ApiStore

#: The most users of a claim.
RESERVED_FOR_MAX = 256


class ClaimStore:
    """Changes the claims of a store. Raises the client's errors."""

    def __init__(self, store: ApiStore) -> None:
        self._store = store

    def get(self, key: str) -> ResourceClaim:
        claim = self._store.claims.now.get(key)
        if claim is None:
            raise NotFound(404, "NotFound", f'resourceclaims "{key}" not found')
        return claim

    def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create a claim; its name may be generated."""
        metadata = self._store.new_metadata(claim.metadata)
        return self._store.claims.put(replace(claim, metadata=metadata))

    def patch(self, key: str, patch: dict[str, Any], *, subresource: str) -> ResourceClaim:
        """Apply a merge patch to the metadata, or to the status."""
        claim = self._expected(key, patch["metadata"])
        if subresource:
            status = _merged(msgspec.to_builtins(claim.status), patch["status"])
            new = replace(claim, status=msgspec.convert(status, type(claim.status)))
            _check_status(claim, new)
            return self._store.claims.put(new)
        finalizers = tuple(patch["metadata"].get("finalizers", claim.metadata.finalizers))
        return self._put(replace(claim, metadata=replace(claim.metadata, finalizers=finalizers)))

    def release(self, key: str, patch: dict[str, Any]) -> ResourceClaim:
        """Apply a strategic patch that removes users of a claim by their uids."""
        claim = self._expected(key, patch["metadata"])
        gone = {user["uid"] for user in patch["status"]["reservedFor"]}
        users = tuple(user for user in claim.status.reserved_for if user.uid not in gone)
        if users == claim.status.reserved_for:
            return claim
        return self._store.claims.put(
            replace(claim, status=replace(claim.status, reserved_for=users))
        )

    def delete(self, key: str) -> None:
        """Delete a claim, or mark it while it has finalizers."""
        claim = self.get(key)
        if claim.metadata.deletion_timestamp is None:
            timestamp = self._store.timestamp()
            self._put(
                replace(claim, metadata=replace(claim.metadata, deletion_timestamp=timestamp))
            )

    def deallocate(self, claim: ResourceClaim) -> None:
        """Take its devices from a claim that nothing uses, and its finalizer, in two writes."""
        status = replace(claim.status, allocation=None, reserved_for=(), devices=())
        claim = self._store.claims.put(replace(claim, status=status))
        left = tuple(name for name in claim.metadata.finalizers if name != FINALIZER)
        self._put(replace(claim, metadata=replace(claim.metadata, finalizers=left)))

    def patch_pod(self, key: str, status: dict[str, Any]) -> Pod:
        """Name the claim for extended resources in a pod's status."""
        pod = self._store.pod(key)
        named = msgspec.convert(
            status["extendedResourceClaimStatus"], PodExtendedResourceClaimStatus
        )
        return self._store.pods.put(
            replace(pod, status=replace(pod.status, extended_resource_claim_status=named))
        )

    def _put(self, claim: ResourceClaim) -> ResourceClaim:
        """Write a claim. A claim that is being deleted goes with its last finalizer."""
        if claim.metadata.deletion_timestamp is None or claim.metadata.finalizers:
            return self._store.claims.put(claim)
        self._store.claims.remove(claim.key)
        return claim

    def _expected(self, key: str, metadata: dict[str, Any]) -> ResourceClaim:
        claim = self.get(key)
        version = metadata.get("resourceVersion", claim.metadata.resource_version)
        expected = (claim.metadata.uid, claim.metadata.resource_version)
        if (metadata["uid"], version) != expected:
            raise Conflict(409, "Conflict", f'resourceclaims "{key}": the object has been modified')
        return claim


def _merged(old: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch."""
    found = dict(old)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict):
            before = found.get(name)
            found[name] = _merged(before if isinstance(before, dict) else {}, value)
        else:
            found[name] = value
    return found


def _check_status(old: ResourceClaim, new: ResourceClaim) -> None:
    before, after = old.status, new.status
    uids = [user.uid for user in after.reserved_for]
    added = set(uids) - {user.uid for user in before.reserved_for}
    had_devices = before.allocation is not None
    refusals = (
        (had_devices and after.allocation not in (None, before.allocation), "field is immutable"),
        (bool(uids) and after.allocation is None, "may not be specified when `allocated` is unset"),
        (len(uids) > RESERVED_FOR_MAX, f"must have at most {RESERVED_FOR_MAX} items"),
        (len(uids) != len(set(uids)), "duplicate user"),
        (
            bool(added) and new.metadata.deletion_timestamp is not None,
            "new reservations are not allowed when a claim is being deleted",
        ),
    )
    for is_refused, why in refusals:
        if is_refused:
            raise Invalid(422, "Invalid", f'ResourceClaim "{old.key}" is invalid: {why}')
