"""The dispatcher of the scheduler's writes to the API server.

    caller --call--> `CallQueue` --slot--> request, retried if worth it --> response or ClientError
                         |
                         `--> CallSkipped, CallOverwritten

The number of slots is bounded, so that a burst of decisions cannot start requests without limit;
the client's own rate limit delays calls in their slots. While slots are free a call is made at
once, in the order in which callers come, as upstream's are with default feature gates. Only calls
that have to wait for a slot, or for another call for the same object, merge and overwrite one
another. A caller waits for its call's slot and makes the request itself, so a call whose caller is
cancelled is cancelled too.

A binding may have been executed although its request failed: the API server was killed, or the pod
is bound already. The informer shows that late. So the pod is read before PodScheduled=False is
written, and the patch names its version: it must not overwrite PodScheduled=True.

A status patch names its pod without the uid. Upstream's cycle ends with the patch, so a pod that is
made again under the name is bound after the patch for the old one. Ours patches beside the cycles,
so a binding waits for status patches for older pods of its name.

The rules for retries are in `scheduler.client.retries`. Status patches are always retried; patches
of volumes and claims carry the version that they are meant for; bindings and deletions, which go by
name alone as upstream's do, are retried only if the first request was surely not executed.
Source: `pkg/scheduler/backend/api_dispatcher`, `pkg/scheduler/util/utils.go` (`PatchPodStatus`).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from scheduler.api.volumes import ANN_BOUND_BY_CONTROLLER, ANN_SELECTED_NODE
from scheduler.api_calls import (
    RELEVANCES,
    ApiCall,
    CallNotMade,
    CallQueue,
    ObjectPatchCall,
    PodBindingCall,
    PodConditionPatchCall,
    PodDeletionCall,
    PodGroupPatchCall,
    PodStatusPatchCall,
    QueuedCall,
)
from scheduler.api_calls.calls import POD_SCHEDULED, ObjectWriteCall, pod_group_patch
from scheduler.api_calls.object_client import PluginCalls
from scheduler.api_calls.resource_claims import ResourceClaimCalls
from scheduler.client import (
    MERGE_PATCH,
    PODS,
    STRATEGIC_MERGE_PATCH,
    ApiObject,
    ClientError,
    Conflict,
    NotFound,
    RestClient,
    Retry,
    may_have_happened,
    repeat_write,
)
from scheduler.client.kinds import KINDS, POD_GROUPS
from scheduler.clock import rfc3339
from scheduler.lru_cache import LruCache

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from scheduler.api.core import (
        NodeAllocatableResourceClaimStatus,
        ObjectMeta,
        Pod,
        PodExtendedResourceClaimStatus,
    )
    from scheduler.api.pod_groups import PodGroup
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.client import Resource
    from scheduler.clock import Clock
    from scheduler.framework.types import Condition, NominatingInfo

C = TypeVar("C", bound=ApiCall)
R = TypeVar("R")
T = TypeVar("T", bound=ApiObject)

_VOLUMES: Final[Resource[PersistentVolume]] = KINDS["persistentvolumes"]
_CLAIMS: Final[Resource[PersistentVolumeClaim]] = KINDS["persistentvolumeclaims"]

#: The most writes under way at once. Each has a connection, whose handshake costs as much CPU as
#: ten writes: so many keep an API server busy that answers in 10 ms.
_SLOTS: Final = 32
#: The most pod groups of which the condition is remembered: until their informer has it.
_TRUE_GROUPS_MAX: Final = 10_000
#: The most pods remembered of which the outcome of a binding is unknown.
_MAYBE_BOUND_MAX: Final = 10_000
#: The backlog at which `wait_for_room` begins to wait.
_BACKLOG_MAX: Final = 500


class ApiDispatcher:
    """Makes writes. Every method raises the client's errors, and CallNotMade where documented."""

    def __init__(
        self, client: RestClient, clock: Clock, *, binding_retry: Retry = Retry.IF_NOT_SENT
    ) -> None:
        self._binding_retry: Final = binding_retry
        self._client: Final = client
        self._clock: Final = clock
        self._queue: Final = CallQueue(RELEVANCES)
        #: By call that waits or is under way: resolved when the call has its slot.
        self._slots: Final[dict[QueuedCall, asyncio.Future[None]]] = {}
        #: The uids of pod groups whose condition is True, or about to be.
        self._true_groups: Final[LruCache[str, None]] = LruCache(_TRUE_GROUPS_MAX)
        #: The uids of pods that may be bound although their binding failed.
        self._maybe_bound: Final[LruCache[str, None]] = LruCache(_MAYBE_BOUND_MAX)
        #: The status patches that wait or are under way, by the pod's name and its uid.
        self._status_patches: Final[dict[str, dict[str, asyncio.Future[None]]]] = {}
        self._room: Final = asyncio.Event()
        self._room.set()
        self._numbers: Final = itertools.count()
        self.resource_claims: Final = ResourceClaimCalls(client, self._write)
        of_plugins = PluginCalls(client, self._write)
        self.patch_pod: Final = of_plugins.patch_pod
        #: Returns the client of a kind for plugins.
        self.client: Final = of_plugins.client

    async def wait_for_room(self) -> None:
        """Return once the backlog is below its limit."""
        await self._room.wait()

    @property
    def backlog(self) -> int:
        """The number of writes that wait or are under way."""
        return len(self._slots)

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod. Before 1.37 retried only if the request surely was not executed.

        If the execution is uncertain, the pod is read.
        """
        while older := self._status_patches.get(pod.key, {}).keys() - {pod.metadata.uid}:
            await asyncio.wait([self._status_patches[pod.key][uid] for uid in older])
        async with self._slot(PodBindingCall(pod, node_name)):
            try:
                await repeat_write(
                    lambda: self._client.bind(pod, node_name), self._binding_retry, self._clock
                )
            except ClientError as error:
                if may_have_happened(error) or isinstance(error, Conflict):
                    self._maybe_bound.put(pod.metadata.uid, None)
                if not (may_have_happened(error) and await self._is_bound(pod, node_name)):
                    raise

    async def _is_bound(self, pod: Pod, node_name: str) -> bool:
        """Read the pod; return True if it is bound to that node.

        Upstream does not read it: it reports a failure, and overwrites PodScheduled=True with it.
        """
        metadata = pod.metadata
        try:
            current = await self._client.get(PODS, metadata.name, namespace=metadata.namespace)
        except ClientError:
            return False
        return current.metadata.uid == metadata.uid and current.spec.node_name == node_name

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Set a volume's claim reference; return the volume as the server has it.

        Raises Conflict if the volume has changed, CallOverwritten if a newer call is queued.
        """
        patch = _patch_of(volume.metadata, ANN_BOUND_BY_CONTROLLER)
        if volume.spec.claim_ref is not None:
            patch["spec"] = {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)}
        return await self._patch_object(_VOLUMES, volume.metadata, patch)

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        """Set a claim's selected node; return the claim. Raises as for a volume."""
        patch = _patch_of(claim.metadata, ANN_SELECTED_NODE)
        return await self._patch_object(_CLAIMS, claim.metadata, patch)

    async def patch_extended_resource_claim_status(
        self, pod: Pod, status: PodExtendedResourceClaimStatus
    ) -> None:
        """Set the claim of a pod's extended resources in the pod's status."""
        patch = {"status": {"extendedResourceClaimStatus": msgspec.to_builtins(status)}}
        async with self._slot(ObjectPatchCall(pod.metadata)):
            await self._patch_object_status(PODS, pod.metadata, patch)

    async def patch_claim_statuses(
        self, pod: Pod, statuses: Sequence[NodeAllocatableResourceClaimStatus]
    ) -> None:
        """Set what a pod's claims take of its node in the pod's status; nothing removes it."""
        value = msgspec.to_builtins(statuses) if statuses else None
        patch = {"status": {"nodeAllocatableResourceClaimStatuses": value}}
        async with self._slot(ObjectPatchCall(pod.metadata)):
            await self._patch_object_status(PODS, pod.metadata, patch)

    async def patch_pod_status(
        self,
        pod: Pod,
        *,
        condition: Condition | None,
        nominating_info: NominatingInfo | None,
    ) -> bool:
        """Set a condition, a nominated node, or both; nothing is sent if nothing changes.

        Returns False if the pod is deleted. A call that was merged into a newer one, or replaced
        by a binding, counts as made.
        """
        kind = PodStatusPatchCall
        if condition is not None and condition.type != POD_SCHEDULED:
            kind = PodConditionPatchCall
        with contextlib.suppress(CallNotMade), self._status_patch(pod):
            async with self._slot(kind(pod, condition, nominating_info)) as call:
                return await self._patch_status(call)
        return True

    @contextlib.contextmanager
    def _status_patch(self, pod: Pod) -> Iterator[None]:
        """Note in the context that a patch for the pod waits or is under way."""
        done = asyncio.get_running_loop().create_future()
        patches = self._status_patches.setdefault(pod.key, {})
        patches[pod.metadata.uid] = done
        try:
            yield
        finally:
            done.set_result(None)
            if patches.get(pod.metadata.uid) is done:
                del patches[pod.metadata.uid]
            if not patches:
                self._status_patches.pop(pod.key, None)

    async def patch_pod_group_status(self, pod_group: PodGroup, *, condition: Condition) -> None:
        """Set the condition of a pod group; nothing is sent if nothing changes.

        A condition that is True stays so, also while `pod_group` is older than our last patch.
        Upstream patches within the cycle, but its informer may be late as well.
        """
        metadata = pod_group.metadata
        patch = pod_group_patch(pod_group, condition, rfc3339(self._clock.now()))
        is_true = condition.status == "True"
        if patch is None or (metadata.uid in self._true_groups and not is_true):
            return
        if is_true:
            self._true_groups.put(metadata.uid, None)
        try:
            with contextlib.suppress(CallNotMade):
                async with self._slot(PodGroupPatchCall(metadata)):
                    await self._patch_object_status(POD_GROUPS, metadata, patch)
        except ClientError as error:
            if not may_have_happened(error):
                self._true_groups.pop(metadata.uid, None)
            raise

    async def delete_pod(self, pod: Pod) -> bool:
        """Delete a pod by its name, as upstream does; return False if no pod has it."""
        metadata = pod.metadata
        try:
            with contextlib.suppress(CallNotMade):
                async with self._slot(PodDeletionCall(pod)):
                    await repeat_write(
                        lambda: self._client.delete(
                            PODS, metadata.name, namespace=metadata.namespace
                        ),
                        Retry.IF_NOT_SENT,
                        self._clock,
                    )
        except NotFound:
            return False
        return True

    def on_pod_update(self, old: Pod, new: Pod) -> None:
        """Base the pod's waiting call on its new version; drop the call if it is a no-op now."""
        self._queue.sync_pod(new)

    async def _patch_status(self, call: PodStatusPatchCall) -> bool:
        """Send a status patch against the known status; return False if the pod is deleted."""
        patch = call.patch(rfc3339(self._clock.now()))
        metadata, condition = call.pod.metadata, call.condition
        try:
            if metadata.uid not in self._maybe_bound or (
                condition is None or condition.type != POD_SCHEDULED
            ):
                await self._patch_object_status(PODS, metadata, patch)
                return True
            newest = await self._newest(call.pod)
            if newest.metadata.uid == metadata.uid and not newest.spec.node_name:
                version = {"resourceVersion": newest.metadata.resource_version}
                patch = {**(patch or {}), "metadata": version}
                await self._patch_object_status(
                    PODS, metadata, patch, retry=Retry.IF_VERSION_CHECKED
                )
        except NotFound:
            return False
        return True

    async def _newest(self, pod: Pod) -> Pod:
        """Read a pod; return `pod` itself if that fails. Raises NotFound."""
        metadata = pod.metadata
        try:
            return await self._client.get(PODS, metadata.name, namespace=metadata.namespace)
        except NotFound:
            raise
        except ClientError:
            return pod

    async def _patch_object_status(
        self,
        resource: Resource[Any],
        metadata: ObjectMeta,
        patch: object,
        *,
        retry: Retry = Retry.ALWAYS,
    ) -> None:
        await repeat_write(
            lambda: self._client.patch(
                resource,
                metadata.name,
                patch,
                namespace=metadata.namespace,
                subresource="status",
                content_type=STRATEGIC_MERGE_PATCH,
            ),
            retry,
            self._clock,
        )

    async def _patch_object(
        self, resource: Resource[T], metadata: ObjectMeta, patch: dict[str, object]
    ) -> T:
        async with self._slot(ObjectPatchCall(metadata)):
            return await repeat_write(
                lambda: self._client.patch(
                    resource,
                    metadata.name,
                    patch,
                    namespace=metadata.namespace,
                    content_type=MERGE_PATCH,
                ),
                Retry.IF_VERSION_CHECKED,
                self._clock,
            )

    async def _write(
        self, metadata: ObjectMeta, retry: Retry, send: Callable[[], Awaitable[R]], /
    ) -> R:
        """Send a write of a claim or of a plugin, which no other one replaces, in its slot."""
        async with self._slot(ObjectWriteCall(metadata, next(self._numbers))):
            return await repeat_write(send, retry, self._clock)

    @contextlib.asynccontextmanager
    async def _slot(self, call: C) -> AsyncIterator[C]:
        """Wait for the call's slot; yield the call, merged with others queued for its object.

        The slot is free again at the end of the context. Raises CallSkipped or CallOverwritten if
        the call is not made.
        """
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_dropped(why: CallNotMade) -> None:
            # Done already if the caller has just been cancelled.
            if not slot.done():
                slot.set_exception(why)

        queued = QueuedCall(call, on_dropped)
        self._queue.add(queued)
        self._slots[queued] = slot
        self._update_room()
        made = False
        try:
            self._fill_slots()
            if not slot.done():
                await slot
            slot.result()
            # Merging keeps the type of a call.
            yield cast("C", queued.call)
            made = True
        finally:
            del self._slots[queued]
            if self._queue.is_under_way(queued):
                self._queue.finalize(queued, made=made)
                self._fill_slots()
            else:
                self._queue.withdraw(queued)
            self._update_room()

    def _fill_slots(self) -> None:
        while self._queue.under_way < _SLOTS and (queued := self._queue.pop()) is not None:
            slot = self._slots[queued]
            # Done already if the caller has just been cancelled.
            if not slot.done():
                slot.set_result(None)

    def _update_room(self) -> None:
        if len(self._slots) < _BACKLOG_MAX:
            self._room.set()
        else:
            self._room.clear()


def _patch_of(metadata: ObjectMeta, annotation: str) -> dict[str, object]:
    """Return a patch that sets an annotation if the object has not changed since it was read.

    Upstream sends the whole object. Ours holds only the fields that we read, and a full update
    would delete the others.
    """
    patched: dict[str, object] = {"resourceVersion": metadata.resource_version}
    if annotation in metadata.annotations:
        patched["annotations"] = {annotation: metadata.annotations[annotation]}
    return {"metadata": patched}
