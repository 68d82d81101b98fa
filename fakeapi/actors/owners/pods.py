"""The base of all owners of pods: claiming, creating and deleting pods.

Source: pkg/controller/{controller_utils,controller_ref_manager}.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.events import EventRecorder
from fakeapi.actors.objects import Object, owner_reference
from fakeapi.actors.resources import PODS
from fakeapi.decoding.selectors import label_selector_of
from fakeapi.types import times
from fakeapi.types.objects import Json, integer, mappings, string_map, text

if TYPE_CHECKING:
    from fakeapi.actors.informer import Informer
    from fakeapi.actors.resources import Resource
    from fakeapi.decoding.selectors import LabelSelector

_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
#: The alphabet of rand.SafeEncodeString, which spells no words.
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"


def is_available(pod: Object, min_ready_seconds: int, now: float) -> bool:
    """True if a pod has been ready for `min_ready_seconds`."""
    return pod.is_ready and available_in(pod, min_ready_seconds, now) <= 0


def available_in(pod: Object, min_ready_seconds: int, now: float) -> float:
    """Return the seconds until a ready pod is available."""
    since = text(pod.condition("Ready").get("lastTransitionTime"))
    return times.epoch_seconds(since) + min_ready_seconds - now if since else 0.0


def deletion_rank(pod: Object) -> tuple[object, ...]:
    """Return a sort key: pods to delete first come first. Source: ActivePodsWithRanks."""
    spec, status = pod.spec, pod.status
    cost = pod.annotation(_COST)
    ready_since = text(pod.condition("Ready").get("lastTransitionTime"))
    restarts = max(
        (integer(one.get("restartCount")) for one in mappings(status.get("containerStatuses"))),
        default=0,
    )
    return (
        bool(spec.get("nodeName")),
        {"Pending": 0, "Unknown": 1}.get(text(status.get("phase")), 2),
        pod.is_ready,
        int(cost) if cost.lstrip("-").isdecimal() else 0,
        -times.epoch_seconds(ready_since) if pod.is_ready and ready_since else 0.0,
        -restarts,
        -times.epoch_seconds(pod.created_at),
    )


def pod_from(resource: Resource, owner: Object, template: Object, **metadata: object) -> Object:
    """Return a pod of the owner to create; `metadata` are more fields of its metadata."""
    labelled = template.metadata
    labels = {**string_map(labelled.get("labels")), **string_map(metadata.pop("labels", None))}
    annotations = {
        **string_map(labelled.get("annotations")),
        **string_map(metadata.pop("annotations", None)),
    }
    own: Json = {
        "namespace": owner.namespace,
        "labels": labels,
        "annotations": annotations,
        "finalizers": labelled.get("finalizers"),
        "ownerReferences": [owner_reference(resource, owner)],
        **metadata,
    }
    if "name" not in own:
        own.setdefault("generateName", f"{owner.name}-")
    own = {key: value for key, value in own.items() if value}
    return Object(metadata=own, spec=template.spec)


def template_hash(template: Object, collisions: int = 0) -> str:
    """Return a hash of a template; not upstream's, which is computed from Go's memory."""
    encoded = msgspec.json.encode([template, collisions], order="deterministic")
    number = int.from_bytes(hashlib.sha256(encoded).digest()[:4])
    return safe_encoded(str(number))


def safe_encoded(value: str) -> str:
    """Return a text in characters that spell no words. Source: rand.SafeEncodeString."""
    return "".join(_SAFE[ord(character) % len(_SAFE)] for character in value)


def scaled(value: object, total: int, *, up: bool) -> int:
    """Return a number, or a percentage of `total`, rounded up or down."""
    if isinstance(value, str) and value.endswith("%"):
        part = int(value[:-1]) * total
        return -(-part // 100) if up else part // 100
    return integer(value)


class Owner(Controller):
    """A controller of one resource whose objects own pods, or own owners of pods."""

    resource: Resource

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._recorder = EventRecorder(context, self.name)
        self.owners: Final[Informer] = self.follow(self.resource)
        self.pods: Final[Informer] = self.informer(PODS, self._dependent_changed)

    def selector_of(self, owner: Object) -> LabelSelector:
        """Return the owner's label selector."""
        return label_selector_of(owner.spec.get("selector"))

    async def claimed(self, owner: Object, informer: Informer) -> list[Object]:
        """Return the owner's objects; adopt selected orphans, release objects not selected."""
        selector, uid, resource = self.selector_of(owner), owner.uid, informer.resource
        mine = []
        for obj in informer.of_namespace(owner.namespace):
            reference, selected = obj.owner, selector.matches(obj.labels)
            if reference.get("uid") == uid:
                if selected or owner.is_deleting:
                    mine.append(obj)
                elif not obj.is_deleting:
                    others = [one for one in obj.owners if one.get("uid") != uid]
                    await self._set_owners(obj, resource, others)
            elif not reference and selected and not obj.is_deleting and not owner.is_deleting:
                owners = [*obj.owners, owner_reference(self.resource, owner)]
                mine.append(await self._set_owners(obj, resource, owners))
        return sorted(mine, key=lambda obj: obj.key)

    async def _set_owners(self, obj: Object, resource: Resource, references: list[Json]) -> Object:
        patch: Json = {"metadata": {"ownerReferences": references}}
        return await self.patch(resource, obj, patch, if_unchanged=True)

    async def create_pods(
        self, owner: Object, pods: list[Object]
    ) -> tuple[list[Object], ActorApiError | None]:
        """Create pods until one is refused; return the created pods, and the error or None."""
        made: list[Object] = []
        for pod in pods:
            try:
                made.append(await self.create(PODS, pod))
            except ActorApiError as error:
                if error.code in (403, 422):
                    message = f"Error creating: {error}"
                    await self.record(owner, "FailedCreate", message, kind="Warning")
                    return made, error
                if error.code != 404:
                    raise
                return made, None  # the namespace is being deleted
            await self.record(owner, "SuccessfulCreate", f"Created pod: {made[-1].name}")
        return made, None

    async def delete_pods(self, owner: Object, pods: list[Object]) -> None:
        """Delete pods, each with an event."""
        for pod in pods:
            await self.delete(PODS, pod)
            await self.record(owner, "SuccessfulDelete", f"Deleted pod: {pod.name}")

    async def record(
        self, owner: Object, reason: str, message: str, *, kind: str = "Normal"
    ) -> None:
        """Write an event about the owner."""
        await self._recorder.record(self.resource, owner, reason, message, kind=kind)

    def plan_availability(self, key: str, pods: list[Object], min_ready_seconds: int) -> None:
        """Queue the owner for the time at which the next ready pod becomes available."""
        now = self.clock.now()
        waits = [available_in(pod, min_ready_seconds, now) for pod in pods if pod.is_ready]
        missing = [seconds for seconds in waits if seconds > 0]
        if missing:
            self.queue.add_after(key, min(missing))

    def _dependent_changed(self, old: Object | None, new: Object | None) -> None:
        for obj in (old, new):
            if obj is None:
                continue
            reference = obj.owner
            if reference.get("kind") == self.resource.kind:
                self.queue.add(f"{obj.namespace}/{text(reference.get('name'))}")
            elif not reference and obj is new:
                self._orphan_changed(obj)

    def _orphan_changed(self, obj: Object) -> None:
        for owner in self.owners.of_namespace(obj.namespace):
            if self.selector_of(owner).matches(obj.labels):
                self.queue.add(owner.key)
