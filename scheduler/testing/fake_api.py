"""An API server that stores nothing: it records the writes and the events of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

if TYPE_CHECKING:
    from scheduler.api.core import ObjectReference, Pod, PodExtendedResourceClaimStatus
    from scheduler.api.dynamic_resources import ResourceClaim
    from scheduler.api.pod_groups import PodGroup
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.framework.types import Condition, NominatingInfo


class RecordedEvent(NamedTuple):
    """An event for users, as a plugin sent it."""

    regarding: str
    type: str
    reason: str
    action: str
    note: str


class StatusPatch(NamedTuple):
    """A change of a pod's status that a plugin has requested."""

    pod: str
    condition: Condition | None
    nominating_info: NominatingInfo | None


class RecordedEvents:
    """Records the events of plugins."""

    def __init__(self) -> None:
        self.recorded: Final[list[RecordedEvent]] = []

    def event(
        self,
        regarding: Pod,
        *,
        related: ObjectReference | None = None,
        type: str,
        reason: str,
        action: str,
        note: str,
    ) -> None:
        self.recorded.append(RecordedEvent(regarding.key, type, reason, action, note))


class FakeResourceClaims:
    """Records the writes of resource claims: a word for the write, and the claim."""

    def __init__(self) -> None:
        self.written: Final[list[tuple[str, ResourceClaim]]] = []
        #: Raised by every write, if set.
        self.failure: Exception | None = None

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        return claim

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        metadata = claim.metadata
        name = f"{metadata.generate_name}{len(self.written)}"
        return self._write("create", replace(claim, metadata=replace(metadata, name=name)))

    async def update(self, claim: ResourceClaim) -> ResourceClaim:
        return self._write("update", claim)

    async def update_status(self, before: ResourceClaim, claim: ResourceClaim) -> ResourceClaim:
        return self._write("update_status", claim)

    async def release(self, claim: ResourceClaim, uid: str) -> None:
        self._write("release", claim)

    async def delete(self, claim: ResourceClaim) -> None:
        self._write("delete", claim)

    def _write(self, word: str, claim: ResourceClaim) -> ResourceClaim:
        if self.failure is not None:
            raise self.failure
        self.written.append((word, claim))
        return claim


class FakeApi:
    """Records the writes of plugins; `failure` makes writes fail."""

    def __init__(self) -> None:
        self.resource_claims: Final = FakeResourceClaims()
        #: By key of the pod: the claim of its extended resources.
        self.extended_claims: Final[dict[str, PodExtendedResourceClaimStatus]] = {}
        self.bound: Final[dict[str, str]] = {}
        self.status_patches: Final[list[StatusPatch]] = []
        self.deleted: Final[list[str]] = []
        self.updated_volumes: Final[list[PersistentVolume]] = []
        self.updated_claims: Final[list[PersistentVolumeClaim]] = []
        self.pod_group_conditions: Final[list[tuple[str, Condition]]] = []
        #: Raised by every write, if set.
        self.failure: Exception | None = None
        #: Raised by writes of these pods, by key.
        self.failures: Final[dict[str, Exception]] = {}
        #: The keys of pods that the API server no longer has.
        self.gone: Final[set[str]] = set()

    async def bind(self, pod: Pod, node_name: str) -> None:
        self._fail(pod.key)
        self.bound[pod.key] = node_name

    async def patch_pod_status(
        self,
        pod: Pod,
        *,
        condition: Condition | None,
        nominating_info: NominatingInfo | None,
    ) -> bool:
        self._fail(pod.key)
        self.status_patches.append(StatusPatch(pod.key, condition, nominating_info))
        return pod.key not in self.gone

    async def patch_pod_group_status(self, pod_group: PodGroup, *, condition: Condition) -> None:
        self._fail()
        self.pod_group_conditions.append((pod_group.metadata.name, condition))

    async def delete_pod(self, pod: Pod) -> bool:
        self._fail(pod.key)
        self.deleted.append(pod.key)
        return pod.key not in self.gone

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        self._fail()
        self.updated_volumes.append(volume)
        return volume

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        self._fail()
        self.updated_claims.append(claim)
        return claim

    async def patch_extended_resource_claim_status(
        self, pod: Pod, status: PodExtendedResourceClaimStatus
    ) -> None:
        self._fail(pod.key)
        self.extended_claims[pod.key] = status

    def _fail(self, key: str = "") -> None:
        if self.failure is not None:
            raise self.failure
        if key in self.failures:
            raise self.failures[key]
