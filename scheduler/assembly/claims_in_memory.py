"""The part of an API server that resource claims need, in memory.

Claims have resource versions, updates are refused after a conflict, and the status is a
subresource. A write has changed the informer's store before it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from scheduler.framework.handle import ObjectNotFoundError, WriteConflictError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.api.dynamic_resources import ResourceClaim
    from scheduler.client import Store

#: What upstream's writes of a claim are called in recordings.
_CLAIMS: Final = "resourceclaims"
_STATUS: Final = "resourceclaims/status"


class ClaimsInMemory:
    """Writes claims. `put` stores a claim, `remove` deletes it by its key.

    `writes` are all writes in order, refused writes included.
    """

    def __init__(
        self,
        store: Store[ResourceClaim],
        *,
        put: Callable[[ResourceClaim], object],
        remove: Callable[[str], object],
    ) -> None:
        self._store: Final = store
        self._put_in_store: Final = put
        self._remove: Final = remove
        self.writes: Final[list[str]] = []
        self._version = 0
        for claim in store.list():
            store.put(self._next_version(claim))

    def stored(self, key: str) -> ResourceClaim | None:
        """Return a claim by `namespace/name`."""
        namespace, _, name = key.partition("/")
        return self._store.get(name, namespace)

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        stored = self.stored(claim.key)
        if stored is None:
            raise ObjectNotFoundError(_not_found(claim))
        return stored

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        self._version += 1
        name = f"{claim.metadata.generate_name}{self._version}"
        metadata = replace(claim.metadata, name=name, uid=f"uid-{name}")
        created = replace(claim, metadata=metadata, status=type(claim.status)())
        # Recordings do not have the generated part of the name.
        self._record("create", _CLAIMS, created)
        return self.put(created)

    async def update(self, claim: ResourceClaim) -> ResourceClaim:
        self._record("update", _CLAIMS, claim)
        current = self._unchanged(claim)
        metadata = replace(current.metadata, finalizers=claim.metadata.finalizers)
        return self.put(replace(current, metadata=metadata))

    async def update_status(self, before: ResourceClaim, claim: ResourceClaim) -> ResourceClaim:
        self._record("update", _STATUS, claim)
        return self.put(replace(self._unchanged(claim), status=claim.status))

    async def release(self, claim: ResourceClaim, uid: str) -> None:
        self._record("patch", _STATUS, claim)
        current = await self.get(claim)
        users = tuple(user for user in current.status.reserved_for if user.uid != uid)
        self.put(replace(current, status=replace(current.status, reserved_for=users)))

    async def delete(self, claim: ResourceClaim) -> None:
        self._record("delete", _CLAIMS, claim)
        await self.get(claim)
        self._remove(claim.key)

    def _record(self, verb: str, resource: str, claim: ResourceClaim) -> None:
        self.writes.append(f"{verb} {resource} {claim.key}")

    def _unchanged(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the stored claim; raises `WriteConflictError` if it has another version."""
        current = self.stored(claim.key)
        if current is None:
            raise ObjectNotFoundError(_not_found(claim))
        if current.metadata.resource_version != claim.metadata.resource_version:
            raise WriteConflictError(
                "Operation cannot be fulfilled on resourceclaims.resource.k8s.io "
                f'"{claim.metadata.name}": the object has been modified; please apply your changes '
                "to the latest version and try again"
            )
        return current

    def put(self, claim: ResourceClaim) -> ResourceClaim:
        """Store the next version of a claim, and return it."""
        self._put_in_store(self._next_version(claim))
        stored = self.stored(claim.key)
        assert stored is not None, "the claim was stored just now"
        return stored

    def _next_version(self, claim: ResourceClaim) -> ResourceClaim:
        self._version += 1
        return replace(claim, metadata=replace(claim.metadata, resource_version=str(self._version)))


def _not_found(claim: ResourceClaim) -> str:
    return f'resourceclaims.resource.k8s.io "{claim.metadata.name}" not found'
