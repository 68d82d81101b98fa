"""Coordinated leader election: the server chooses who holds a lease, among its LeaseCandidates.

    lease is missing, free, expired, or another candidate is better
       └─> candidates that were not renewed in 5 s get a pingTime ──> who answers within 5 s takes
           part ──> the lease names the oldest emulated version; a holder that leads already gets
           a preferredHolder, and lets the lease expire

Part of kube-apiserver with the gate CoordinatedLeaderElection.
Source: pkg/controlplane/controller/leaderelection of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.objects import NOTHING, Object
from fakeapi.actors.resources import LEASE_CANDIDATES, LEASES
from fakeapi.kinds.leases import version_key
from fakeapi.types import times
from fakeapi.types.objects import Json, integer, text

if TYPE_CHECKING:
    from collections.abc import Iterable

_ROUND_SECONDS: Final = 5.0
_LEASE_SECONDS: Final = 5
#: A candidate that was not renewed for so long is none; after half of it all get a pingTime again.
_VALID_SECONDS: Final = 1800.0
_STRATEGY: Final = "OldestEmulationVersion"


class LeaderElections(Controller):
    """Chooses the holders of leases that have candidates, and deletes candidates that are gone."""

    name = "leader-election-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._leases: Final = self.follow(LEASES)
        self._candidates: Final = self.informer(LEASE_CANDIDATES, self._candidate_changed)

    def _candidate_changed(self, old: Object | None, new: Object | None) -> None:
        candidate = new or old or NOTHING
        self.queue.add(f"{candidate.namespace}/{text(candidate.spec.get('leaseName'))}")

    async def sync(self, key: str) -> None:
        """Take the next step of the election for one lease."""
        candidates = await self._valid(key)
        if not candidates:
            return
        self.queue.add_after(key, _ROUND_SECONDS)
        lease, now = self._leases.objects.get(key), self.clock.now()
        if not self._is_needed(lease, candidates) or await self._wait_for_answers(candidates):
            return
        present = [each for each in candidates if self._age(each, "renewTime") < _ROUND_SECONDS]
        if not present:
            return
        holder = min(present, key=_rank).name
        if lease is not None and lease.spec.get("holderIdentity") == holder:
            return
        namespace, name = key.split("/")
        spec: Json = {
            "strategy": _STRATEGY,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": times.micro_timestamp(now),
            "holderIdentity": holder,
        }
        if lease is None:
            metadata = {"namespace": namespace, "name": name}
            await self.create(LEASES, {"metadata": metadata, "spec": spec})
            return
        if self._is_free(lease):
            spec |= {"acquireTime": None, "preferredHolder": None}
        else:
            spec = {"strategy": _STRATEGY, "preferredHolder": holder}
        await self.patch(LEASES, lease, {"spec": spec}, if_unchanged=True)

    def _is_needed(self, lease: Object | None, candidates: list[Object]) -> bool:
        if lease is None or self._is_free(lease):
            return True
        if any(self._age(each, "renewTime") > _VALID_SECONDS / 2 for each in candidates):
            return True
        return min(candidates, key=_rank).name != lease.spec.get("holderIdentity")

    async def _wait_for_answers(self, candidates: Iterable[Object]) -> bool:
        """Ask candidates that were not renewed lately; return True while some may answer."""
        is_waiting = False
        for each in candidates:
            asked, renewed = self._age(each, "pingTime"), self._age(each, "renewTime")
            has_answered = renewed <= asked
            if asked < _ROUND_SECONDS and not has_answered:
                is_waiting = True
            elif renewed >= _ROUND_SECONDS and has_answered:
                patch: Json = {"spec": {"pingTime": times.micro_timestamp(self.clock.now())}}
                await self.patch(LEASE_CANDIDATES, each, patch, if_unchanged=True)
                is_waiting = True
        return is_waiting

    async def _valid(self, key: str) -> list[Object]:
        """Return the candidates for a lease; delete expired ones."""
        namespace, name = key.split("/")
        of_lease = [
            each
            for each in self._candidates.of_namespace(namespace)
            if each.spec.get("leaseName") == name
        ]
        for each in of_lease:
            if self._age(each, "renewTime") > _VALID_SECONDS:
                await self.client.delete(LEASE_CANDIDATES, each)
        return [each for each in of_lease if self._age(each, "renewTime") <= _VALID_SECONDS]

    def _is_free(self, lease: Object) -> bool:
        seconds = integer(lease.spec.get("leaseDurationSeconds"))
        return not lease.spec.get("holderIdentity") or self._age(lease, "renewTime") > seconds

    def _age(self, obj: Object, field: str) -> float:
        """Return the seconds since a time in the spec; infinite if there is none."""
        value = text(obj.spec.get(field))
        return self.clock.now() - times.epoch_seconds(value) if value else float("inf")


def _rank(candidate: Object) -> tuple[object, ...]:
    """Return the sort key of a candidate; the lowest is the best."""
    spec = candidate.spec
    versions = (version_key(text(spec.get(f"{name}Version"))) for name in ("emulation", "binary"))
    return (*versions, candidate.created_at, candidate.name)
