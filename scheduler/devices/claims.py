"""The resource claims as the scheduler knows them, ahead of the informer by its own writes.

    in flight: allocated in Reserve, not yet written        -> pending allocations
    written, and not yet seen by the informer               -> assumed claims
    as stored                                               -> the informer

One tracker serves all profiles. The devices of allocated claims are kept up to date from the
changes of the informer and from assumed claims.
Source: `pkg/scheduler/framework/plugins/dynamicresources/{dra_manager,allocateddevices}.go`,
`pkg/scheduler/util/assumecache/assume_cache.go`, v1.36.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scheduler.api.dynamic_resources import ResourceClaim
from scheduler.devices.allocated import AllocatedState, Devices
from scheduler.devices.rules import CONSUMABLE_CAPACITY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduler.api.dynamic_resources import AllocationResult
    from scheduler.devices.pools import PoolId
    from scheduler.framework.handle import Handle, Lister


@dataclass(slots=True)
class _Pending:
    """A claim that is being allocated, and the number of pods that wait for it.

    `is_kept` while the API server may have the allocation, and the informer does not.
    """

    claim: ResourceClaim
    sharers: int = 1
    is_kept: bool = False


class ClaimTracker:
    """The claims, and the devices that they have."""

    def __init__(self, handle: Handle) -> None:
        self._lister: Final[Lister[ResourceClaim]] = handle.lister(ResourceClaim)
        self._cursor = -1
        self._assumed: Final[dict[str, ResourceClaim]] = {}
        self._pending: Final[dict[str, _Pending]] = {}
        has_shares = CONSUMABLE_CAPACITY in handle.feature_gates
        self._devices: Final = Devices(has_shares=has_shares)
        self._in_flight: Final = Devices(has_shares=has_shares)
        #: The devices of all claims as of the last call of `follow_informer`.
        self.allocated: Final = AllocatedState(self._devices, self._in_flight)
        #: By key: the claims whose devices are counted.
        self._counted: Final[dict[str, ResourceClaim]] = {}
        self.follow_informer()

    def get(self, name: str, namespace: str) -> ResourceClaim | None:
        """Return the assumed claim if it is newer than the informer's, else the informer's."""
        stored = self._lister.get(name, namespace)
        if stored is None or not self._assumed:
            return stored
        assumed = self._assumed.get(stored.key)
        if assumed is None or not _is_newer(assumed, stored):
            return stored
        return assumed

    def list(self, namespace: str = "") -> Iterator[ResourceClaim]:
        """Return all claims, or the claims of a namespace."""
        for stored in self._lister.list(namespace):
            metadata = stored.metadata
            yield self.get(metadata.name, metadata.namespace) or stored

    def assume(self, claim: ResourceClaim) -> bool:
        """Use a claim as it was written; return False if the informer does not have it yet.

        Nothing changes if the informer has a newer version.
        """
        self.follow_informer()
        current = self.get(claim.metadata.name, claim.metadata.namespace)
        if current is None:
            return False
        if not _is_newer(current, claim):
            self._assumed[claim.key] = claim
            self._count(claim.key)
        return True

    def restore(self, claim: ResourceClaim) -> None:
        """Drop an assumed claim: the informer's counts again."""
        if self._assumed.pop(claim.key, None) is not None:
            self._count(claim.key)

    def pending_allocation(self, uid: str) -> AllocationResult | None:
        """Return the allocation in flight of a claim; None if there is none."""
        pending = self._pending.get(uid)
        return pending.claim.status.allocation if pending is not None else None

    def is_shared(self, uid: str) -> bool:
        """Return True if several pods wait for the allocation in flight of a claim."""
        pending = self._pending.get(uid)
        return pending is not None and pending.sharers > 1

    def signal_pending_allocation(self, uid: str, claim: ResourceClaim) -> None:
        """Take note that a claim is being allocated, or that one more pod waits for it."""
        pending = self._pending.get(uid)
        if pending is not None:
            pending.sharers += 1
            return
        self._pending[uid] = _Pending(claim)
        if claim.status.allocation is not None:
            self._in_flight.add(claim.status.allocation)

    def keep_pending_allocation(self, uid: str) -> bool:
        """Keep an allocation in flight until it is removed by `force`; False if there is none."""
        pending = self._pending.get(uid)
        if pending is None or pending.is_kept:
            return False
        pending.is_kept = True
        return True

    def remove_pending_allocation(self, uid: str, *, force: bool) -> bool:
        """Drop an allocation in flight if no other pod waits for it, or by `force`.

        Returns True if it is dropped.
        """
        pending = self._pending.get(uid)
        if pending is None or (pending.is_kept and not force):
            return False
        if force or pending.sharers == 1:
            del self._pending[uid]
            if pending.claim.status.allocation is not None:
                self._in_flight.remove(pending.claim.status.allocation)
            return True
        pending.sharers -= 1
        return False

    def changed_pools(self) -> set[PoolId]:
        """Return the pools of which devices were allocated or freed since the last call."""
        changed = self._devices.changed | self._in_flight.changed
        self._devices.changed.clear()
        self._in_flight.changed.clear()
        return changed

    def follow_informer(self) -> None:
        """Count the devices of the claims that have changed."""
        self._cursor, changed = self._lister.changes_since(self._cursor)
        if changed is None:
            keys = {claim.key for claim in self._lister.list()} | self._counted.keys()
            changed = sorted(keys)
        for key in changed:
            self._count(key)

    def _count(self, key: str) -> None:
        """Count the devices of a claim as it is now. An allocation itself never changes."""
        namespace, _, name = key.partition("/")
        claim = self.get(name, namespace)
        if claim is None or self._assumed.get(key) is not claim:
            self._assumed.pop(key, None)
        counted = self._counted.get(key)
        now = claim.status.allocation if claim is not None else None
        if counted is not None and (
            now is None or claim is None or claim.metadata.uid != counted.metadata.uid
        ):
            assert counted.status.allocation is not None
            self._devices.remove(counted.status.allocation)
            del self._counted[key]
            counted = None
        if counted is None and now is not None and claim is not None:
            self._devices.add(now)
            self._counted[key] = claim


def _is_newer(first: ResourceClaim, second: ResourceClaim) -> bool:
    """Return True if the first version of a claim is newer; versions of one kind are ordered."""
    versions = (claim.metadata.resource_version for claim in (first, second))
    newer, older = (int(version) if version.isdecimal() else 0 for version in versions)
    return newer > older
