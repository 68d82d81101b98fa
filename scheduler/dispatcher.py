"""All of the scheduler's writes to the API server go through here.

Each write waits its turn for one of a bounded number of places, so that a burst of decisions cannot
pile up requests without end, and each is made as upstream makes it: a binding once, whatever comes
of it; a status patch again at most three times, quickly, while the server has a bad moment; an
update of a volume or claim once, and only if nobody has changed it meanwhile.
Source: `pkg/scheduler/util/utils.go` (`PatchPodStatus`, `Retriable`), client-go `util/retry`.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from scheduler.api.volumes import ANN_BOUND_BY_CONTROLLER, ANN_SELECTED_NODE
from scheduler.client import (
    KINDS,
    MERGE_PATCH,
    PODS,
    STRATEGIC_MERGE_PATCH,
    Conflict,
    ConnectionRefused,
    NotFound,
    RestClient,
    ServerError,
)
from scheduler.clock import rfc3339
from scheduler.framework.pod_status import pod_status_patch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduler.api.core import ObjectMeta, Pod
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
    from scheduler.client import Resource
    from scheduler.clock import Clock
    from scheduler.framework.pod_status import Condition
    from scheduler.framework.types import NominatingInfo

__all__ = ["ApiDispatcher", "DispatcherStatistics"]

_VOLUMES: Final[Resource[PersistentVolume]] = KINDS["persistentvolumes"]
_CLAIMS: Final[Resource[PersistentVolumeClaim]] = KINDS["persistentvolumeclaims"]

#: How many writes may be under way at once.
_PLACES: Final = 100
#: How many may be waiting or under way before the scheduling loop holds back.
_BACKLOG_MAX: Final = 500
#: The pauses between four tries (client-go's default backoff: 10 ms, factor 5).
_PATCH_PAUSES_SECONDS: Final = (0.01, 0.05, 0.25)
#: Answers of a server that is having a bad moment.
_PASSING: Final = frozenset({500, 503})


class DispatcherStatistics(NamedTuple):
    """Writes so far, and those not answered yet."""

    writes: int
    backlog: int


class ApiDispatcher:
    """Makes writes; every method raises the client's errors."""

    def __init__(self, client: RestClient, clock: Clock) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._places: Final = asyncio.Semaphore(_PLACES)
        self._room: Final = asyncio.Event()
        self._room.set()
        self._writes = 0
        self._backlog = 0

    async def wait_for_room(self) -> None:
        """Return once the backlog is short enough for another decision to be made."""
        await self._room.wait()

    def statistics(self) -> DispatcherStatistics:
        """How many writes there have been and are."""
        return DispatcherStatistics(self._writes, self._backlog)

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod; never repeated, for it may have been carried out."""
        async with self._turn():
            await self._client.bind(pod, node_name)

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Keep a volume for a claim; returns it as the server has it. Raises Conflict."""
        patch = _patch_of(volume.metadata, ANN_BOUND_BY_CONTROLLER)
        if volume.spec.claim_ref is not None:
            patch["spec"] = {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)}
        async with self._turn():
            return await self._client.patch(
                _VOLUMES, volume.metadata.name, patch, content_type=MERGE_PATCH
            )

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        """Have a claim's volume made near a node; returns it as the server has it. Conflict."""
        metadata = claim.metadata
        patch = _patch_of(metadata, ANN_SELECTED_NODE)
        async with self._turn():
            return await self._client.patch(
                _CLAIMS,
                metadata.name,
                patch,
                namespace=metadata.namespace,
                content_type=MERGE_PATCH,
            )

    async def patch_pod_status(
        self,
        pod: Pod,
        *,
        condition: Condition | None,
        nominating_info: NominatingInfo | None,
    ) -> bool:
        """Set a condition, a nominated node, or both; nothing is sent if nothing changes.

        False if the pod is gone.
        """
        patch = pod_status_patch(
            pod,
            condition=condition,
            nominating_info=nominating_info,
            timestamp=rfc3339(self._clock.now()),
        )
        if patch is None:
            return True
        try:
            async with self._turn():
                await self._patch_status_until_it_works(pod, patch)
        except NotFound:
            return False
        return True

    async def delete_pod(self, pod: Pod) -> bool:
        """Have a pod deleted, by its name alone, as upstream does; False if it is gone already."""
        try:
            async with self._turn():
                metadata = pod.metadata
                await self._client.delete(PODS, metadata.name, namespace=metadata.namespace)
        except NotFound:
            return False
        return True

    async def _patch_status_until_it_works(self, pod: Pod, patch: object) -> None:
        for pause_seconds in _PATCH_PAUSES_SECONDS:
            try:
                return await self._patch_status(pod, patch)
            except (ConnectionRefused, Conflict):
                await self._clock.sleep(pause_seconds)
            except ServerError as error:
                if error.status not in _PASSING:
                    raise
                await self._clock.sleep(pause_seconds)
        await self._patch_status(pod, patch)

    async def _patch_status(self, pod: Pod, patch: object) -> None:
        await self._client.patch(
            PODS,
            pod.metadata.name,
            patch,
            namespace=pod.metadata.namespace,
            subresource="status",
            content_type=STRATEGIC_MERGE_PATCH,
        )

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One write: counted from when it is wanted, made when there is a place."""
        self._writes += 1
        self._backlog += 1
        if self._backlog >= _BACKLOG_MAX:
            self._room.clear()
        try:
            async with self._places:
                yield
        finally:
            self._backlog -= 1
            if self._backlog < _BACKLOG_MAX:
                self._room.set()


def _patch_of(metadata: ObjectMeta, annotation: str) -> dict[str, object]:
    """Set an annotation if the object has not changed since it was read.

    Upstream sends the whole object; ours holds only the fields that we read, and the others must
    not be lost.
    """
    patched: dict[str, object] = {"resourceVersion": metadata.resource_version}
    if annotation in metadata.annotations:
        patched["annotations"] = {annotation: metadata.annotations[annotation]}
    return {"metadata": patched}
