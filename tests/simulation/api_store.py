"""The state of an API server in memory: objects, their histories and watches.

What a real one does to pods is done here: a binding is refused for a pod that is gone, going,
another one, gated or bound; a pod that runs is given time to end; versions only ever grow. Watches
can be held up, broken off, or told that their version is too old.
"""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

from msgspec.structs import replace

from scheduler.api.core import Node, ObjectMeta, Pod, PodCondition
from scheduler.api.dynamic_resources import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceSlice,
)
from scheduler.api.pod_groups import POD_GROUP_SCHEDULED, PodGroup
from scheduler.client.decoding import EventType, Page, WatchEvent
from scheduler.client.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Invalid,
    NotFound,
    StreamInterrupted,
)
from scheduler.client.kinds import ListOptions, object_key
from scheduler.client.objects import ListMeta
from scheduler.testing import VirtualClock

T = TypeVar("T", Pod, Node, PodGroup, ResourceClaim, ResourceSlice, DeviceClass)

#: The default grace period of a pod.
GRACE_SECONDS = 30
#: The label of a pod that needs a cleanup: gone only some time after its deletion.
LINGERS = "lingers"


class Change(NamedTuple, Generic[T]):
    """One write: the object before and after, None if absent; `gone` is the last version."""

    version: int
    old: T | None
    new: T | None
    gone: T | None


class Watcher(Protocol):
    """Waits for changes: `wake` is called after each."""

    def wake(self) -> None: ...


class Objects(Generic[T]):
    """All objects of a kind, and all that has ever happened to them."""

    def __init__(self, next_version: Callable[[], int]) -> None:
        self.now: dict[str, T] = {}
        self.changes: list[Change[T]] = []
        self.watches: list[Watcher] = []
        self._next_version = next_version

    def put(self, obj: T) -> T:
        """Create or replace an object; returns it with its version."""
        version = self._next_version()
        obj = replace(obj, metadata=replace(obj.metadata, resource_version=str(version)))
        key = object_key(obj)
        self._note(Change(version, self.now.get(key), obj, None))
        self.now[key] = obj
        return obj

    def remove(self, key: str) -> None:
        """Delete an object."""
        old, version = self.now.pop(key), self._next_version()
        gone = replace(old, metadata=replace(old.metadata, resource_version=str(version)))
        self._note(Change(version, old, None, gone))

    def _note(self, change: Change[T]) -> None:
        self.changes.append(change)
        for watch in self.watches:
            watch.wake()


class Source(Generic[T]):
    """Lists and watches of one kind, as one informer asks for them."""

    def __init__(self, objects: Objects[T], selects: Callable[[T], bool]) -> None:
        self._objects: Objects[T] = objects
        self._selects: Callable[[T], bool] = selects
        self._news = asyncio.Event()
        self._breaks: Exception | None = None
        self.is_held = False
        self.has_told_all = False
        objects.watches.append(self)

    def close(self) -> None:
        """End the watch."""
        self._objects.watches.remove(self)

    def wake(self) -> None:
        """Wake the watch."""
        self._news.set()

    def hold(self) -> None:
        """Hold all events back until released, as a slow network does."""
        self.is_held = True

    def release(self) -> None:
        """Send all events that were held back."""
        self.is_held = False
        self.wake()

    def expire(self) -> None:
        """End the watch for good: the informer has to list, and misses what happens until then."""
        self._breaks = Expired(410, "Expired", "too old resource version")
        self.wake()

    def interrupt(self) -> None:
        """Interrupt the watch: the informer resumes it."""
        self._breaks = StreamInterrupted("connection reset", reset=True)
        self.wake()

    async def list(self, options: ListOptions) -> Page[T]:
        """Return the current objects that are selected."""
        changes = self._objects.changes
        version = str(changes[-1].version if changes else 0)
        items = [obj for obj in self._objects.now.values() if self._selects(obj)]
        return Page(metadata=ListMeta(resource_version=version), items=items)

    async def watch(self, options: ListOptions) -> AsyncGenerator[WatchEvent[T], None]:
        """All changes after a version, for ever, unless it is made to break."""
        if options.send_initial_events:
            raise Invalid(422, "Invalid", "sendInitialEvents is forbidden")
        changes = self._objects.changes
        told = bisect.bisect(changes, int(options.resource_version), key=lambda c: c.version)
        while True:
            if self._breaks is not None:
                error, self._breaks = self._breaks, None
                raise error
            self.has_told_all = told == len(changes)
            if self.is_held or self.has_told_all:
                self._news.clear()
                await self._news.wait()
                continue
            event = self._event(changes[told])
            told += 1
            if event is not None:
                yield event

    def _event(self, change: Change[T]) -> WatchEvent[T] | None:
        before = change.old is not None and self._selects(change.old)
        if change.new is not None and self._selects(change.new):
            return WatchEvent(EventType.MODIFIED if before else EventType.ADDED, change.new)
        if not before:
            return None
        last = change.gone if change.gone is not None else change.new
        return WatchEvent(EventType.DELETED, cast("T", last))


class ApiStore:
    """The API server's state. Raises the client's errors, as its responses would be read."""

    def __init__(self, clock: VirtualClock, spawn: Callable[[Coroutine[None, None, None]], object]):
        self._clock = clock
        self._spawn = spawn
        self.version = 0
        self._uids = 0
        self.pods: Objects[Pod] = Objects(self._next_version)
        self.nodes: Objects[Node] = Objects(self._next_version)
        self.pod_groups: Objects[PodGroup] = Objects(self._next_version)
        self.claims: Objects[ResourceClaim] = Objects(self._next_version)
        self.slices: Objects[ResourceSlice] = Objects(self._next_version)
        self.classes: Objects[DeviceClass] = Objects(self._next_version)
        #: By name; the scheduler does not read them.
        self.claim_templates: dict[str, ResourceClaimSpec] = {}
        #: Pod groups whose condition PodGroupScheduled went from True to False.
        self.regressions: list[str] = []

    def copy_from(self, other: ApiStore) -> None:
        """Start with the present objects of another store, without their history."""
        self.version, self._uids = other.version, other._uids
        for name in ("pods", "nodes", "pod_groups", "claims", "slices", "classes"):
            getattr(self, name).now.update(getattr(other, name).now)
        self.claim_templates.update(other.claim_templates)

    def _next_version(self) -> int:
        self.version += 1
        return self.version

    def create_pod(self, pod: Pod) -> Pod:
        """A new pod, under a uid of its own."""
        if pod.key in self.pods.now:
            raise AlreadyExists(409, "AlreadyExists", f'pods "{pod.metadata.name}" already exists')
        return self.pods.put(replace(pod, metadata=self.new_metadata(pod.metadata)))

    def create_pod_group(self, group: PodGroup) -> PodGroup:
        """A new pod group, under a uid of its own."""
        if object_key(group) in self.pod_groups.now:
            name = group.metadata.name
            raise AlreadyExists(409, "AlreadyExists", f'podgroups "{name}" already exists')
        return self.pod_groups.put(replace(group, metadata=self.new_metadata(group.metadata)))

    def new_metadata(self, metadata: ObjectMeta) -> ObjectMeta:
        """Return the metadata of a new object: a uid of its own, and a name if it has none."""
        self._uids += 1
        name = metadata.name or f"{metadata.generate_name}{self._uids}"
        uid = f"{name}-{self._uids}"
        return replace(metadata, name=name, uid=uid, creation_timestamp=self.timestamp())

    def pod(self, key: str) -> Pod:
        """A pod; raises NotFound."""
        pod = self.pods.now.get(key)
        if pod is None:
            raise NotFound(404, "NotFound", f'pods "{key}" not found')
        return pod

    def bind(self, key: str, uid: str, node_name: str) -> None:
        """Bind a pod once; the node need not exist."""
        pod = self.pod(key)
        obstacles = (
            (pod.metadata.uid != uid, "the UID in the precondition does not match"),
            (pod.metadata.deletion_timestamp is not None, "pod is being deleted"),
            (bool(pod.spec.scheduling_gates), "pod has non-empty .spec.schedulingGates"),
            (bool(pod.spec.node_name), f"pod is already assigned to node {pod.spec.node_name}"),
        )
        for stands, message in obstacles:
            if stands:
                raise Conflict(409, "Conflict", f'pods "{key}": {message}')
        status = replace(
            pod.status,
            conditions=_merged(pod.status.conditions, {"type": "PodScheduled", "status": "True"}),
        )
        self.pods.put(replace(pod, spec=replace(pod.spec, node_name=node_name), status=status))

    def patch_status(self, key: str, patch: dict[str, object], *, version: str = "") -> None:
        """Conditions and the nominated node, as the scheduler patches them.

        Raises Conflict for a pod of another version; an empty one fits all.
        """
        pod = self.pod(key)
        if version not in ("", pod.metadata.resource_version):
            raise Conflict(409, "Conflict", f'pods "{key}": the object has been modified')
        status = pod.status
        for condition in cast("list[dict[str, object]]", patch.get("conditions", [])):
            status = replace(status, conditions=_merged(status.conditions, condition))
        if "nominatedNodeName" in patch:
            name = cast("str", patch["nominatedNodeName"] or "")
            status = replace(status, nominated_node_name=name)
        if status != pod.status:
            self.pods.put(replace(pod, status=status))

    def patch_pod_group_status(self, key: str, patch: dict[str, object]) -> None:
        """Conditions, as the scheduler patches them; raises NotFound."""
        group = self.pod_groups.now.get(key)
        if group is None:
            raise NotFound(404, "NotFound", f'podgroups "{key}" not found')
        conditions = group.status.conditions
        for condition in cast("list[dict[str, object]]", patch["conditions"]):
            conditions = _merged(conditions, condition)
        changed = replace(group, status=replace(group.status, conditions=conditions))
        before, after = (g.condition(POD_GROUP_SCHEDULED) for g in (group, changed))
        if before and before.status == "True" and after and after.status != "True":
            self.regressions.append(f"{key} was scheduled, and is reported as {after.reason}")
        if changed != group:
            self.pod_groups.put(changed)

    def delete_pod(self, key: str) -> None:
        """A pod with a node is given its time to end; any other is gone at once, or lingers."""
        pod = self.pod(key)
        grace = pod.spec.termination_grace_period_seconds
        grace = GRACE_SECONDS if grace is None else grace
        lingers = LINGERS in pod.metadata.labels
        if not lingers and not (pod.spec.node_name and grace):
            self.pods.remove(key)
        elif pod.metadata.deletion_timestamp is None:
            metadata = replace(pod.metadata, deletion_timestamp=self.timestamp())
            self.pods.put(replace(pod, metadata=metadata))
            self._spawn(self._end(key, pod.metadata.uid, float(grace)))

    async def _end(self, key: str, uid: str, seconds: float) -> None:
        """Act as the kubelet."""
        await self._clock.sleep(seconds)
        pod = self.pods.now.get(key)
        if pod is not None and pod.metadata.uid == uid:
            self.pods.remove(key)

    def timestamp(self) -> datetime:
        """Now, as objects carry it."""
        return datetime.fromtimestamp(int(self._clock.now()), UTC)


def _merged(
    known_conditions: Iterable[PodCondition], patch: dict[str, object]
) -> tuple[PodCondition, ...]:
    conditions = {c.type: c for c in known_conditions}
    kind = cast("str", patch["type"])
    known = conditions.get(kind, PodCondition(type=kind))
    texts = {
        name: cast("str", patch[name] or "")
        for name in ("status", "reason", "message")
        if name in patch
    }
    conditions[kind] = replace(known, **texts)
    return tuple(conditions.values())
