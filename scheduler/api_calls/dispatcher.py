"""All of the scheduler's writes to the API server go through here.

    caller --a call--> `api_calls.CallQueue` --its turn--> a place --> request, again if worth it
                            |                                              |
                            `-- CallSkipped, CallOverwritten               `-- answer, ClientError

A caller waits for its call's turn and makes it itself, so that a call whose caller is cancelled is
neither made nor seen through. There is a bounded number of places, so that a burst of decisions
cannot pile up requests without end; the client's own rate limit holds up calls in their places.
While places are free a call is made at once, in the order in which callers come, as upstream's are
with default feature gates; only where calls have to wait do they merge and give way.

What is made again, and when: `scheduler.client.retries`. Status patches want the status to be so;
volumes and claims are changed only if nobody else has meanwhile; bindings, and deletions, which go
by name alone as upstream's do, are not made again if the first may have been carried out.
Source: `pkg/scheduler/backend/api_dispatcher`, `pkg/scheduler/util/utils.go` (`PatchPodStatus`).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

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
    PodStatusPatchCall,
    QueuedCall,
)
from scheduler.api_calls.pod_status import POD_SCHEDULED, pod_status_patch
from scheduler.client import (
    MERGE_PATCH,
    PODS,
    STRATEGIC_MERGE_PATCH,
    ApiObject,
    ClientError,
    NotFound,
    RestClient,
    Retry,
    may_have_happened,
    repeat_write,
)
from scheduler.client.kinds import KINDS
from scheduler.clock import rfc3339

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduler.api.core import ObjectMeta, Pod
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.client import Resource
    from scheduler.clock import Clock
    from scheduler.framework.types import Condition, NominatingInfo

C = TypeVar("C", bound=ApiCall)
T = TypeVar("T", bound=ApiObject)

_VOLUMES: Final[Resource[PersistentVolume]] = KINDS["persistentvolumes"]
_CLAIMS: Final[Resource[PersistentVolumeClaim]] = KINDS["persistentvolumeclaims"]

#: How many writes may be under way at once.
_PLACES: Final = 100
#: How many may be waiting or under way before the scheduling loop holds back.
_BACKLOG_MAX: Final = 500


class DispatcherStatistics(NamedTuple):
    """Writes asked for so far, and those neither made nor dropped yet."""

    writes: int
    backlog: int


class ApiDispatcher:
    """Makes writes; every method raises the client's errors, and CallNotMade where it says so."""

    def __init__(self, client: RestClient, clock: Clock) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._queue: Final = CallQueue(RELEVANCES)
        self._turns: Final[dict[QueuedCall, asyncio.Future[None]]] = {}
        self._room: Final = asyncio.Event()
        self._room.set()
        self._writes = 0

    async def wait_for_room(self) -> None:
        """Return once the backlog is short enough for another decision to be made."""
        await self._room.wait()

    def statistics(self) -> DispatcherStatistics:
        """How many writes there have been and are."""
        return DispatcherStatistics(self._writes, len(self._turns))

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod; not again if it may have been carried out, which then the pod itself tells.

        Raises CallOverwritten if the pod is to be deleted before it is this call's turn.
        """
        async with self._turn(PodBindingCall(pod, node_name)):
            try:
                await repeat_write(
                    lambda: self._client.bind(pod, node_name), Retry.IF_NOT_SENT, self._clock
                )
            except ClientError as error:
                if not (may_have_happened(error) and await self._is_bound(pod, node_name)):
                    raise

    async def _is_bound(self, pod: Pod, node_name: str) -> bool:
        """Whether a pod has got that node, as far as can be found out.

        Upstream does not ask: it reports a failure, and overwrites PodScheduled=True with it.
        """
        metadata = pod.metadata
        try:
            found = await self._client.get(PODS, metadata.name, namespace=metadata.namespace)
        except ClientError:
            return False
        return found.metadata.uid == metadata.uid and found.spec.node_name == node_name

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Keep a volume for a claim; returns it as the server has it.

        Raises Conflict if it has changed, CallOverwritten if somebody wants to write it too.
        """
        patch = _patch_of(volume.metadata, ANN_BOUND_BY_CONTROLLER)
        if volume.spec.claim_ref is not None:
            patch["spec"] = {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)}
        return await self._patch_object(_VOLUMES, volume.metadata, patch)

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        """Have a claim's volume made near a node; returns the claim. Raises as for a volume."""
        patch = _patch_of(claim.metadata, ANN_SELECTED_NODE)
        return await self._patch_object(_CLAIMS, claim.metadata, patch)

    async def patch_pod_status(
        self,
        pod: Pod,
        *,
        condition: Condition | None,
        nominating_info: NominatingInfo | None,
    ) -> bool:
        """Set a condition, a nominated node, or both; nothing is sent if nothing changes.

        False if the pod is gone. A call that was merged into a newer one, or that is needless
        because the pod gets its node or is deleted, is as good as made.
        """
        kind = PodStatusPatchCall
        if condition is not None and condition.type != POD_SCHEDULED:
            kind = PodConditionPatchCall
        with contextlib.suppress(CallNotMade):
            async with self._turn(kind(pod, condition, nominating_info)) as call:
                return await self._patch_status(call)
        return True

    async def delete_pod(self, pod: Pod) -> bool:
        """Have a pod deleted, by its name alone, as upstream does; False if it is gone already."""
        metadata = pod.metadata
        try:
            with contextlib.suppress(CallNotMade):
                async with self._turn(PodDeletionCall(pod)):
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
        """A pod has changed: a call that waits starts from it, or is dropped if nothing is left."""
        self._queue.sync_pod(new)

    async def _patch_status(self, call: PodStatusPatchCall) -> bool:
        """Make a status patch, from what is known of the pod now; False if the pod is gone."""
        patch = pod_status_patch(
            call.pod,
            condition=call.condition,
            nominating_info=call.nominating_info,
            timestamp=rfc3339(self._clock.now()),
        )
        metadata = call.pod.metadata
        try:
            await repeat_write(
                lambda: self._client.patch(
                    PODS,
                    metadata.name,
                    patch,
                    namespace=metadata.namespace,
                    subresource="status",
                    content_type=STRATEGIC_MERGE_PATCH,
                ),
                Retry.ALWAYS,
                self._clock,
            )
        except NotFound:
            return False
        return True

    async def _patch_object(
        self, resource: Resource[T], metadata: ObjectMeta, patch: dict[str, object]
    ) -> T:
        async with self._turn(ObjectPatchCall(metadata)):
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

    @contextlib.asynccontextmanager
    async def _turn(self, call: C) -> AsyncIterator[C]:
        """Wait for a call's turn; yields it with what it has taken in of others meanwhile.

        Raises CallSkipped or CallOverwritten if its turn will never come.
        """
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queued = QueuedCall(call, lambda why: _never_comes(turn, why))
        self._queue.add(queued)
        self._writes += 1
        self._turns[queued] = turn
        self._hold_back_or_go_on()
        made = False
        try:
            self._start_what_may_start()
            if not turn.done():
                await turn
            turn.result()
            # What merges keeps its type.
            yield cast("C", queued.call)
            made = True
        finally:
            self._leave(queued, made=made)

    def _start_what_may_start(self) -> None:
        while self._queue.under_way < _PLACES and (queued := self._queue.pop()) is not None:
            turn = self._turns[queued]
            # Done already if its caller has just been cancelled, and is about to leave.
            if not turn.done():
                turn.set_result(None)

    def _leave(self, queued: QueuedCall, *, made: bool) -> None:
        """A call is over, however it went."""
        del self._turns[queued]
        if self._queue.is_under_way(queued):
            self._queue.finalize(queued, made=made)
            self._start_what_may_start()
        else:
            self._queue.withdraw(queued)
        self._hold_back_or_go_on()

    def _hold_back_or_go_on(self) -> None:
        if len(self._turns) < _BACKLOG_MAX:
            self._room.set()
        else:
            self._room.clear()


def _never_comes(turn: asyncio.Future[None], why: CallNotMade) -> None:
    # A caller that has just been cancelled no longer asks.
    if not turn.done():
        turn.set_exception(why)


def _patch_of(metadata: ObjectMeta, annotation: str) -> dict[str, object]:
    """Set an annotation if the object has not changed since it was read.

    Upstream sends the whole object; ours holds only the fields that we read, and the others must
    not be lost.
    """
    patched: dict[str, object] = {"resourceVersion": metadata.resource_version}
    if annotation in metadata.annotations:
        patched["annotations"] = {annotation: metadata.annotations[annotation]}
    return {"metadata": patched}
