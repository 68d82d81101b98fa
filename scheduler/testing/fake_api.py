"""An API server that stores nothing: it records the writes and the events of plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from scheduler.api.core import ObjectReference
from scheduler.api.unstructured import Unstructured
from scheduler.client.kinds import kind_key
from scheduler.framework.handle import ObjectNotFoundError

if TYPE_CHECKING:
    from scheduler.api.core import (
        NodeAllocatableResourceClaimStatus,
        Pod,
        PodExtendedResourceClaimStatus,
    )
    from scheduler.api.dynamic_resources import ResourceClaim
    from scheduler.api.pod_groups import PodGroup
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.api.unstructured import Kind
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


class Write(NamedTuple):
    """A write of a plugin: `create`, `patch` or `delete`; `key` is `namespace/name` or `name`.

    `kind` is as in `Plugin.reads`. `body` is the object or the patch.
    """

    verb: str
    kind: str
    key: str
    body: Mapping[str, object]


class RecordedEvents:
    """Records the events of plugins."""

    def __init__(self) -> None:
        self.recorded: Final[list[RecordedEvent]] = []

    def event(
        self,
        regarding: Pod | ObjectReference,
        *,
        related: ObjectReference | None = None,
        **text: str,
    ) -> None:
        key = regarding.name if isinstance(regarding, ObjectReference) else regarding.key
        self.recorded.append(RecordedEvent(key, **text))


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


class FakeObjectClient:
    """Records the writes of one kind, and keeps the objects that were created."""

    def __init__(self, api: FakeApi, kind: str) -> None:
        self._api: Final = api
        self._kind: Final = kind
        self._objects: Final[dict[str, Unstructured]] = {}

    async def get(self, name: str, *, namespace: str = "") -> Unstructured:
        key = _key(name, namespace)
        if key not in self._objects:
            raise ObjectNotFoundError(f'{self._kind} "{name}" not found')
        return self._objects[key]

    async def create(self, obj: Mapping[str, object]) -> Unstructured:
        created = Unstructured(obj)
        key = _key(created.metadata.name, created.metadata.namespace)
        self._api.write("create", self._kind, key, obj)
        self._objects[key] = created
        return created

    async def patch(
        self, name: str, patch: Mapping[str, object], *, namespace: str = "", subresource: str = ""
    ) -> Unstructured:
        key = _key(name, namespace)
        self._api.write("patch", self._kind, key, patch)
        before = self._objects.get(key, {"metadata": {"name": name, "namespace": namespace}})
        self._objects[key] = Unstructured(_merged(before, patch))
        return self._objects[key]

    async def delete(self, name: str, *, namespace: str = "") -> bool:
        self._api.write("delete", self._kind, _key(name, namespace), {})
        self._objects.pop(_key(name, namespace), None)
        return True


def _key(name: str, namespace: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _merged(fields: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    """Return the fields after a JSON merge patch."""
    result = {key: value for key, value in fields.items() if patch.get(key, "") is not None}
    for key, value in patch.items():
        if isinstance(value, Mapping):
            before = result.get(key)
            result[key] = _merged(before if isinstance(before, Mapping) else {}, value)
        elif value is not None:
            result[key] = value
    return result


class FakeApi:
    """Records the writes of plugins; `failure` makes writes fail.

    `written` are those of `patch_pod` and of the clients for further kinds, in order.
    """

    def __init__(self) -> None:
        self.written: Final[list[Write]] = []
        self._clients: Final[dict[str, FakeObjectClient]] = {}
        self.resource_claims: Final = FakeResourceClaims()
        #: By key of the pod: the claim of its extended resources.
        self.claim_statuses: Final[dict[str, tuple[NodeAllocatableResourceClaimStatus, ...]]] = {}
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

    async def patch_pod(
        self,
        pod: Pod,
        *,
        labels: Mapping[str, str | None] = MappingProxyType({}),
        annotations: Mapping[str, str | None] = MappingProxyType({}),
    ) -> Pod:
        if pod.key in self.gone:
            raise ObjectNotFoundError(f'pods "{pod.metadata.name}" not found')
        changes = {"labels": dict(labels), "annotations": dict(annotations)}
        self.write("patch", "pods", pod.key, {"metadata": changes})
        own = {part: getattr(pod.metadata, part) for part in changes}
        return replace(pod, metadata=replace(pod.metadata, **_merged(own, changes)))

    def client(self, kind: Kind, /) -> FakeObjectClient:
        key = kind_key(kind)
        return self._clients.setdefault(key, FakeObjectClient(self, key))

    def write(self, verb: str, kind: str, key: str, body: Mapping[str, object]) -> None:
        """Record a write of a plugin."""
        self._fail(key)
        self.written.append(Write(verb, kind, key, body))

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

    async def patch_claim_statuses(
        self, pod: Pod, statuses: Sequence[NodeAllocatableResourceClaimStatus]
    ) -> None:
        self._fail(pod.key)
        self.claim_statuses[pod.key] = tuple(statuses)

    def _fail(self, key: str = "") -> None:
        if self.failure is not None:
            raise self.failure
        if key in self.failures:
            raise self.failures[key]
