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
from fakeapi.actors.objects import (
    annotation,
    condition_of,
    controller_of,
    is_ready,
    key_of,
    owner_reference,
    owners_of,
    spec_of,
    status_of,
    uid_of,
)
from fakeapi.actors.resources import PODS
from fakeapi.decoding.selectors import label_selector_of
from fakeapi.types import times
from fakeapi.types.objects import (
    Json,
    integer,
    is_deleting,
    labels_of,
    mappings,
    metadata_of,
    name_of,
    namespace_of,
    string_map,
    text,
)

if TYPE_CHECKING:
    from fakeapi.actors.informer import Informer
    from fakeapi.actors.resources import Resource
    from fakeapi.decoding.selectors import LabelSelector

_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
#: The alphabet of rand.SafeEncodeString, which spells no words.
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"


def is_available(pod: Json, min_ready_seconds: int, now: float) -> bool:
    """True if a pod has been ready for `min_ready_seconds`."""
    return is_ready(pod) and available_in(pod, min_ready_seconds, now) <= 0


def available_in(pod: Json, min_ready_seconds: int, now: float) -> float:
    """Return the seconds until a ready pod is available."""
    since = text(condition_of(pod, "Ready").get("lastTransitionTime"))
    return times.epoch_seconds(since) + min_ready_seconds - now if since else 0.0


def deletion_rank(pod: Json) -> tuple[object, ...]:
    """Return a sort key: pods to delete first come first. Source: ActivePodsWithRanks."""
    spec, status = spec_of(pod), status_of(pod)
    cost = annotation(pod, _COST)
    ready_since = text(condition_of(pod, "Ready").get("lastTransitionTime"))
    restarts = max(
        (integer(one.get("restartCount")) for one in mappings(status.get("containerStatuses"))),
        default=0,
    )
    return (
        bool(spec.get("nodeName")),
        {"Pending": 0, "Unknown": 1}.get(text(status.get("phase")), 2),
        is_ready(pod),
        int(cost) if cost.lstrip("-").isdecimal() else 0,
        -times.epoch_seconds(ready_since) if is_ready(pod) and ready_since else 0.0,
        -restarts,
        -times.epoch_seconds(text(metadata_of(pod).get("creationTimestamp"))),
    )


def pod_from(resource: Resource, owner: Json, template: Json, **metadata: object) -> Json:
    """Return a pod of the owner to create; `metadata` are more fields of its metadata."""
    given = metadata_of(template)
    labels = {**string_map(given.get("labels")), **string_map(metadata.pop("labels", None))}
    annotations = {
        **string_map(given.get("annotations")),
        **string_map(metadata.pop("annotations", None)),
    }
    own: Json = {
        "namespace": namespace_of(owner),
        "labels": labels,
        "annotations": annotations,
        "finalizers": given.get("finalizers"),
        "ownerReferences": [owner_reference(resource, owner)],
        **metadata,
    }
    if "name" not in own:
        own.setdefault("generateName", f"{name_of(owner)}-")
    own = {key: value for key, value in own.items() if value}
    return {"metadata": own, "spec": spec_of(template)}


def template_hash(template: Json, collisions: int = 0) -> str:
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
        self.pods: Final[Informer] = self.informer(PODS)
        self.pods.subscribe(self._dependent_changed)

    def selector_of(self, owner: Json) -> LabelSelector:
        """Return the owner's label selector."""
        return label_selector_of(spec_of(owner).get("selector"))

    async def claimed(self, owner: Json, informer: Informer) -> list[Json]:
        """Return the owner's objects; adopt orphans that it selects, release those it does not."""
        selector, uid, resource = self.selector_of(owner), uid_of(owner), informer.resource
        mine = []
        for obj in informer.of_namespace(namespace_of(owner)):
            reference, selected = controller_of(obj), selector.matches(labels_of(obj))
            if reference.get("uid") == uid:
                if selected or is_deleting(owner):
                    mine.append(obj)
                elif not is_deleting(obj):
                    others = [one for one in owners_of(obj) if one.get("uid") != uid]
                    await self._set_owners(obj, resource, others)
            elif not reference and selected and not is_deleting(obj) and not is_deleting(owner):
                owners = [*owners_of(obj), owner_reference(self.resource, owner)]
                mine.append(await self._set_owners(obj, resource, owners))
        return sorted(mine, key=key_of)

    async def _set_owners(self, obj: Json, resource: Resource, references: list[Json]) -> Json:
        patch: Json = {"metadata": {"ownerReferences": references}}
        return await self.patch(resource, obj, patch, if_unchanged=True)

    async def create_pods(
        self, owner: Json, pods: list[Json]
    ) -> tuple[list[Json], ActorApiError | None]:
        """Create pods until one is refused; return those created, and the error if any."""
        made: list[Json] = []
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
            await self.record(owner, "SuccessfulCreate", f"Created pod: {name_of(made[-1])}")
        return made, None

    async def delete_pods(self, owner: Json, pods: list[Json]) -> None:
        """Delete pods, each with an event."""
        for pod in pods:
            await self.delete(PODS, pod)
            await self.record(owner, "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")

    async def record(self, owner: Json, reason: str, message: str, *, kind: str = "Normal") -> None:
        """Write an event about the owner."""
        await self._recorder.record(self.resource, owner, reason, message, kind=kind)

    def plan_availability(self, key: str, pods: list[Json], min_ready_seconds: int) -> None:
        """Queue the owner for the time at which the next ready pod becomes available."""
        now = self.clock.now()
        waits = [available_in(pod, min_ready_seconds, now) for pod in pods if is_ready(pod)]
        missing = [seconds for seconds in waits if seconds > 0]
        if missing:
            self.queue.add_after(key, min(missing))

    def _dependent_changed(self, old: Json | None, new: Json | None) -> None:
        for obj in (old, new):
            if obj is None:
                continue
            reference = controller_of(obj)
            if reference.get("kind") == self.resource.kind:
                self.queue.add(f"{namespace_of(obj)}/{text(reference.get('name'))}")
            elif not reference and obj is new:
                self._orphan_changed(obj)

    def _orphan_changed(self, obj: Json) -> None:
        for owner in self.owners.of_namespace(namespace_of(obj)):
            if self.selector_of(owner).matches(labels_of(obj)):
                self.queue.add(key_of(owner))
