"""An API server in memory, with the informers of one scheduler.

It has the rules that decisions depend on: versions of objects, grace periods, conflicts of resource
claims. A write reaches the event handlers before it returns. There are no controllers.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.api.core import Pod
from scheduler.api.unstructured import Unstructured
from scheduler.api_calls.calls import PodStatusPatchCall
from scheduler.assembly.claims_in_memory import ClaimsInMemory
from scheduler.assembly.core import Ports
from scheduler.client import NODES, PODS, ApiObject, Informer, Store, object_key
from scheduler.client.errors import WriteRefused
from scheduler.client.kinds import POD_GROUPS, kind_key
from scheduler.framework.handle import ObjectNotFoundError
from scheduler.metrics import SchedulerMetrics
from scheduler.reports.decision import result_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence

    from scheduler.api.core import (
        NodeAllocatableResourceClaimStatus,
        ObjectReference,
        PodExtendedResourceClaimStatus,
    )
    from scheduler.api.pod_groups import PodGroup
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.api.unstructured import Kind
    from scheduler.assembly.core import Tasks
    from scheduler.client import ListOptions, Page, Resource, WatchEvent
    from scheduler.client.kinds import GroupVersionResource
    from scheduler.clock import Clock
    from scheduler.cycle.schedule_pod import TieBreak
    from scheduler.framework.extender import Extender
    from scheduler.framework.types import Condition, NominatingInfo

T = TypeVar("T", bound=ApiObject)
#: The kind and the key of each object.
Changes: TypeAlias = set[tuple[str, str]]

_CLAIMS: Final = "resourceclaims"
#: Pods in these phases are not in the informer of pods: it selects the unfinished ones.
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class InMemoryApi:
    """Stores objects by the key of their kind, and gives each change to the informer.

    It makes the informers (`MakesInformers`), takes the writes of the scheduler (`ApiWriter`),
    refuses those that only plugins make (`patch_pod`, `client`) and drops its events.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._rng: Final = random.Random(0)
        self._stores: Final[dict[str, Store[Any]]] = {}
        self._informers: Final[dict[str, Informer[Any]]] = {}
        self._versions = 0
        #: The objects that were put or removed since `take_changes`; None before its first call.
        self._changed: Changes | None = None
        #: The keys of the pods that the scheduler has deleted, in order, repeats included.
        self.victims: Final[list[str]] = []
        self.resource_claims: Final = ClaimsInMemory(
            self.objects(_CLAIMS),
            put=lambda claim: self.put(_CLAIMS, claim),
            remove=lambda key: self.remove(_CLAIMS, key),
        )

    def ports(
        self,
        *,
        rng: random.Random,
        tie_break: TieBreak,
        tasks: Tasks,
        extenders: Sequence[Extender] = (),
    ) -> Ports:
        """Return the ports of a core on this API server; nothing in it runs in parallel."""
        return Ports(
            factory=self,
            api=self,
            recorder=lambda profile_name: self,
            clock=self._clock,
            rng=rng,
            tie_break=tie_break,
            tasks=tasks,
            metrics=SchedulerMetrics(self._clock.monotonic),
            run_in_parallel=run_in_sequence,
            extenders=extenders,
        )

    # Informers.

    def informer(
        self,
        resource: Resource[T],
        *,
        field_selector: str = "",
        transform: Callable[[T], T] | None = None,
    ) -> Informer[T]:
        """Make the informer of a kind, before there are objects of this kind."""
        del field_selector  # that of unfinished pods
        return self._add(resource.key, resource.group_resource, transform)

    def discovered(self, name: GroupVersionResource) -> Informer[Unstructured]:
        """Make the informer of a kind without a type of its own."""
        return self._add(name.key, name.group_resource, None)

    def _add(self, key: str, name: str, transform: Callable[[T], T] | None) -> Informer[T]:
        informer: Informer[T] = Informer(
            _NoSource(), name=name, clock=self._clock, rng=self._rng, transform=transform
        )
        self._informers[key] = informer
        return informer

    # Objects.

    def objects(self, kind: str) -> Store[Any]:
        """Return the objects of a kind. Do not write to it."""
        store = self._stores.get(kind)
        if store is None:
            store = self._stores[kind] = Store()
        return store

    def load(self, objects: Mapping[str, Iterable[ApiObject]]) -> None:
        """Create objects by kind: first the nodes, each kind by name as an API server lists it.

        Pods are created in the given order.
        """
        kinds = sorted(objects, key=lambda kind: kind != NODES.plural)
        for kind in kinds:
            of_kind = objects[kind]
            for obj in of_kind if kind == PODS.plural else sorted(of_kind, key=object_key):
                self.put(kind, obj)

    def put(self, kind: str, obj: ApiObject) -> None:
        """Create or replace an object."""
        stored: Any = obj
        if not isinstance(obj, Unstructured):
            metadata = replace(obj.metadata, resource_version=self._next_version(kind))
            stored = replace(stored, metadata=metadata)
        self.objects(kind).put(stored)
        if self._changed is not None:
            self._changed.add((kind, object_key(stored)))
        if (informer := self._informers.get(kind)) is not None:
            if kind == PODS.plural and stored.status.phase in _FINISHED:
                informer.delete(stored)
            else:
                informer.put(stored)

    def _next_version(self, kind: str) -> str:
        """Return the resource version of the next object of a kind."""
        del kind
        self._versions += 1
        return str(self._versions)

    def remove(self, kind: str, key: str) -> None:
        """Delete the object `namespace/name`; a no-op if there is none."""
        old = self.objects(kind).remove(key)
        if self._changed is not None:
            self._changed.add((kind, key))
        if old is not None and (informer := self._informers.get(kind)) is not None:
            informer.delete(old)

    def take_changes(self) -> Changes:
        """Return the objects that were put or removed since the last call; none in the first."""
        changes, self._changed = self._changed or set(), set()
        return changes

    def follow(self, other: InMemoryApi, changes: Changes) -> None:
        """Make the objects that changed equal to the objects of another API server.

        `changes` are the changes of the other server since both were equal; the changes here are
        taken, too.
        """
        for kind, key in sorted(self.take_changes() | changes):
            own, wanted = self._get(kind, key), other._get(kind, key)
            if wanted is None:
                self.remove(kind, key)
            elif own is None or not _are_equal(own, wanted):
                if kind == PODS.plural and own is not None:
                    # A pod does not move from node to node: it goes, and comes again.
                    self.remove(kind, key)
                self.put(kind, wanted)
        self.take_changes()

    def terminate(self, kind: str, key: str) -> None:
        """Set an object's time of deletion; a no-op if the time is set or the object is missing."""
        obj = self._get(kind, key)
        if obj is not None and obj.metadata.deletion_timestamp is None:
            now = datetime.fromtimestamp(self._clock.now(), UTC)
            self.put(kind, replace(obj, metadata=replace(obj.metadata, deletion_timestamp=now)))

    def _get(self, kind: str, key: str) -> Any:
        namespace, _, name = key.rpartition("/")
        return self.objects(kind).get(name, namespace)

    def find_pod(self, pod: Pod) -> Pod | None:
        """Return a pod as it is now; None if it is gone, or created again under its name."""
        stored: Pod | None = self._get(PODS.plural, pod.key)
        return stored if stored is not None and stored.metadata.uid == pod.metadata.uid else None

    # What the scheduler writes.

    def event(
        self,
        regarding: Pod | ObjectReference,
        *,
        related: ObjectReference | None = None,
        **text: str,
    ) -> None:
        """Drop an event."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        stored = self.find_pod(pod)
        assert stored is not None, "a pod that is being bound exists"
        spec = replace(stored.spec, node_name=node_name)
        status = replace(stored.status, nominated_node_name="")
        self.put(PODS.plural, replace(stored, spec=spec, status=status))

    async def patch_pod_status(
        self,
        pod: Pod,
        *,
        condition: Condition | None,
        nominating_info: NominatingInfo | None,
    ) -> bool:
        stored = self.find_pod(pod)
        if stored is None:
            return False
        if PodStatusPatchCall(pod, condition, nominating_info).is_no_op:
            return True
        changed = PodStatusPatchCall(stored, condition, nominating_info).applied_to(stored)
        if changed is not stored:
            self.put(PODS.plural, changed)
        return True

    async def patch_pod_group_status(self, pod_group: PodGroup, *, condition: Condition) -> None:
        stored: PodGroup | None = self._get(POD_GROUPS.plural, object_key(pod_group))
        if stored is None:
            return
        # The status of a group is patched as that of a pod.
        as_pod = Pod(metadata=stored.metadata)
        as_pod = replace(as_pod, status=replace(as_pod.status, conditions=stored.status.conditions))
        changed = PodStatusPatchCall(as_pod, condition, None).applied_to(as_pod)
        if changed is not as_pod:
            status = replace(stored.status, conditions=changed.status.conditions)
            self.put(POD_GROUPS.plural, replace(stored, status=status))

    async def delete_pod(self, pod: Pod) -> bool:
        self.victims.append(pod.key)
        stored = self.find_pod(pod)
        if stored is None:
            return False
        if stored.spec.termination_grace_period_seconds == 0:
            self.remove(PODS.plural, stored.key)
        else:
            self.terminate(PODS.plural, stored.key)
        return True

    async def patch_pod(self, pod: Pod, **fields: object) -> NoReturn:
        raise _refusal("PATCH", f"pods {pod.key}")

    def client(self, kind: Kind, /) -> ReadingClient:
        return ReadingClient(self.objects(kind_key(kind)), kind_key(kind))

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        self.put("persistentvolumes", volume)
        return volume

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        self.put("persistentvolumeclaims", claim)
        return claim

    async def patch_extended_resource_claim_status(
        self, pod: Pod, status: PodExtendedResourceClaimStatus
    ) -> None:
        self._patch_status(pod, extended_resource_claim_status=status)

    async def patch_claim_statuses(
        self, pod: Pod, statuses: Sequence[NodeAllocatableResourceClaimStatus]
    ) -> None:
        self._patch_status(pod, node_allocatable_resource_claim_statuses=tuple(statuses))

    def _patch_status(self, pod: Pod, **fields: object) -> None:
        self.resource_claims.writes.append(f"patch pods/status {pod.key}")
        stored = self.find_pod(pod)
        if stored is not None:
            self.put(PODS.plural, replace(stored, status=replace(stored.status, **fields)))


def _are_equal(one: Any, other: Any) -> bool:
    """Return True if two objects are equal but for their versions."""
    if isinstance(one, Unstructured):
        return bool(one == other)
    versions = replace(one.metadata, resource_version=other.metadata.resource_version)
    return bool(replace(one, metadata=versions) == other)


class ReadingClient:
    """Reads the objects of one kind, and refuses the writes of plugins."""

    def __init__(self, objects: Store[Any], kind: str) -> None:
        self._objects: Final = objects
        self._kind: Final = kind

    async def get(self, name: str, *, namespace: str = "") -> Unstructured:
        obj = self._objects.get(name, namespace)
        if obj is None:
            raise ObjectNotFoundError(f'{self._kind} "{name}" not found')
        return obj if isinstance(obj, Unstructured) else Unstructured(msgspec.to_builtins(obj))

    async def create(self, obj: Mapping[str, object]) -> NoReturn:
        raise _refusal("POST", self._kind)

    async def patch(self, name: str, patch: Mapping[str, object], **options: str) -> NoReturn:
        raise _refusal("PATCH", f"{self._kind} {name}")

    async def delete(self, name: str, *, namespace: str = "") -> NoReturn:
        raise _refusal("DELETE", f"{self._kind} {name}")


def _refusal(method: str, what: str) -> WriteRefused:
    return WriteRefused(f"{method} {what}: not sent, this process only reads")


class AtOnce:
    """Runs background work to its end before it returns; the work may not wait."""

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        result_of(work)

    spawn_for_plugin = spawn

    def fail(self, error: Exception) -> None:
        raise error


async def run_in_sequence(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Run coroutines one after another, so that equal input gives equal output."""
    for work in works:
        await work


class _NoSource:
    """The source of an informer that is never run."""

    async def list(self, options: ListOptions) -> Page[Any]:
        raise NotImplementedError

    def watch(self, options: ListOptions) -> AsyncGenerator[WatchEvent[Any], None]:
        raise NotImplementedError
