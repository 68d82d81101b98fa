"""The controller of ResourceClaims: claims from templates, reservations, deallocation, deletion.

    pod names a template ──► claim is created, its name is in the pod's status
    the scheduler allocates the claim, sets the finalizer and reserves it for the pod
    pod ends or goes ──► reservation is removed ──► without any: allocation, then finalizer
                    └──► a claim that was created for the pod is deleted

Claims of PodGroups are not created: upstream's gate DRAWorkloadResourceClaims is off.

Source: pkg/controller/resourceclaim/controller.go of Kubernetes v1.36.3, and
k8s.io/dynamic-resource-allocation/resourceclaim of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.events import EventRecorder
from fakeapi.actors.objects import (
    annotation,
    has_ended,
    key_of,
    node_of,
    owners_of,
    spec_of,
    status_of,
    uid_of,
)
from fakeapi.actors.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from fakeapi.types.objects import (
    Json,
    finalizers_of,
    is_deleting,
    mapping,
    mappings,
    name_of,
    namespace_of,
    text,
    with_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
_RESERVED_MAX: Final = 256
#: Characters of a generated name before the random ones.
_PREFIX_MAX: Final = 57


class ResourceClaims(Controller):
    """Creates, reserves, deallocates and deletes claims. Keys are `pod KEY` and `claim KEY`."""

    name = "resource-claim-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._recorder = EventRecorder(context, "resource_claim")
        self._pods = self.informer(PODS)
        self._claims = self.informer(RESOURCE_CLAIMS)
        self._templates = self.informer(RESOURCE_CLAIM_TEMPLATES)
        self._pods.subscribe(self._pod_changed)
        self._claims.subscribe(self._claim_changed)
        self._templates.subscribe(self._template_changed)

    async def sync(self, key: str) -> None:
        which, _, name = key.partition(" ")
        if which == "pod":
            pod = self._pods.objects.get(name)
            # Upstream has no check of the phase here: it would create the claim of an ended pod
            # again each time that it deletes it.
            if pod is not None and not is_deleting(pod) and not has_ended(pod):
                await self._sync_pod(pod)
        elif (claim := self._claims.objects.get(name)) is not None:
            await self._sync_claim(claim)

    async def _sync_pod(self, pod: Json) -> None:
        """Create the claims that the pod lacks; reserve allocated claims of a bound pod."""
        named: list[Json] = []
        for entry in mappings(spec_of(pod).get("resourceClaims")):
            try:
                created = await self._claim_for(pod, entry)
            except ActorApiError as error:
                message = f"PodResourceClaim {text(entry.get('name'))}: {error}"
                reason = "FailedResourceClaimCreation"
                await self._recorder.record(PODS, pod, reason, message, kind="Warning")
                raise
            if created:
                named.append({"name": entry.get("name"), "resourceClaimName": created})
        if named:
            await self.patch_status(PODS, pod, {"resourceClaimStatuses": named})
        if node_of(pod):
            await self._reserve(pod)

    async def _claim_for(self, pod: Json, entry: Json) -> str:
        """Return the name of the claim to write into the pod's status, "" if none is needed."""
        template = text(entry.get("resourceClaimTemplateName"))
        status = _status_entry(pod, entry)
        if not template or (status is not None and status.get("resourceClaimName") is None):
            return ""
        if status is not None:
            named = self._claim_of(pod, text(status["resourceClaimName"]))
            if named is not None and _is_owned(named, pod):
                return ""
        for claim in self._claims.of_namespace(namespace_of(pod)):
            if _is_owned(claim, pod) and annotation(claim, _POD_CLAIM) == entry.get("name"):
                return name_of(claim)
        found = self._templates.get(namespace_of(pod), template)
        if found is None:
            why = f'resourceclaimtemplate.resource.k8s.io "{template}" not found'
            raise ActorApiError(404, "NotFound", f'resource claim template "{template}": {why}')
        return name_of(await self.create(RESOURCE_CLAIMS, _new_claim(pod, entry, found)))

    def _claim_of(self, pod: Json, name: str) -> Json | None:
        return self._claims.get(namespace_of(pod), name)

    async def _reserve(self, pod: Json) -> None:
        """Reserve allocated claims for a pod that was bound without the scheduler's reservation."""
        for name, is_generated in _claim_names(pod):
            claim = self._claim_of(pod, name)
            if claim is None or (is_generated and not _is_owned(claim, pod)):
                return
            status = status_of(claim)
            users = mappings(status.get("reservedFor"))
            if status.get("allocation") is None or len(users) >= _RESERVED_MAX:
                continue
            if any(user.get("uid") == uid_of(pod) for user in users):
                continue
            user: Json = {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}
            reserved: Json = {**status, "reservedFor": [*users, user]}
            await self.update_status(RESOURCE_CLAIMS, claim, reserved)

    async def _sync_claim(self, claim: Json) -> None:
        """Remove stale reservations; deallocate and delete the claim if nothing uses it."""
        status = status_of(claim)
        users = mappings(status.get("reservedFor"))
        remaining = [user for user in users if await self._is_in_use(claim, user)]
        is_protected = _FINALIZER in finalizers_of(claim)
        if len(remaining) < len(users):
            wanted: Json = {**status, "reservedFor": remaining}
            if not remaining and is_protected:
                wanted["allocation"] = None
            written = await self.update_status(RESOURCE_CLAIMS, claim, wanted)
            if is_protected and status_of(written).get("allocation") is None:
                await self._remove_finalizer(written)
        elif is_protected and is_deleting(claim) and not remaining:
            wanted = {**status, "allocation": None}
            await self._remove_finalizer(await self.update_status(RESOURCE_CLAIMS, claim, wanted))
        if not remaining and (owner := _owning_pod(claim)):
            pod = self._pods.get(namespace_of(claim), text(owner.get("name")))
            if pod is not None and (uid_of(pod) != owner.get("uid") or _is_done(pod)):
                await self.delete(RESOURCE_CLAIMS, claim)

    async def _remove_finalizer(self, claim: Json) -> None:
        left = [one for one in finalizers_of(claim) if one != _FINALIZER]
        await self.update(RESOURCE_CLAIMS, with_metadata(claim, finalizers=left))

    async def _is_in_use(self, claim: Json, user: Json) -> bool:
        """Return False if the pod of a reservation is gone, was replaced, or does not run again."""
        if user.get("apiGroup") or user.get("resource") != "pods":
            return True
        namespace, name = namespace_of(claim), text(user.get("name"))
        pod = self._pods.get(namespace, name)
        if pod is not None:
            return uid_of(pod) == user.get("uid") and not _is_done(pod)
        try:
            live = await self.client.get(PODS, namespace, name)
        except ActorApiError as error:
            if error.code != 404:
                raise
            return False
        return uid_of(live) == user.get("uid")

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        """Queue the pod if it may need claims, and its claims if it needs none any longer."""
        pod = new or old or {}
        extended = mapping(status_of(pod).get("extendedResourceClaimStatus"))
        if new is None or _is_done(new):
            names = [name for name, _ in _claim_names(pod)]
            if extended:
                names.append(text(extended.get("resourceClaimName")))
            for name in names:
                self.queue.add(f"claim {namespace_of(pod)}/{name}")
        if new is not None and spec_of(new).get("resourceClaims") and not is_deleting(new):
            self.queue.add(f"pod {key_of(new)}")

    def _claim_changed(self, old: Json | None, new: Json | None) -> None:
        claim = new or old or {}
        if new is not None:
            self.queue.add(f"claim {key_of(new)}")
        for pod in self._pods.of_namespace(namespace_of(claim)):
            if any(name == name_of(claim) for name, _ in _claim_names(pod)):
                self.queue.add(f"pod {key_of(pod)}")

    def _template_changed(self, old: Json | None, new: Json | None) -> None:
        template = new or old or {}
        for pod in self._pods.of_namespace(namespace_of(template)):
            for entry in mappings(spec_of(pod).get("resourceClaims")):
                if entry.get("resourceClaimTemplateName") == name_of(template):
                    self.queue.add(f"pod {key_of(pod)}")


def _is_done(pod: Json) -> bool:
    """Return True if no container of the pod runs from now on."""
    return has_ended(pod) or (is_deleting(pod) and not node_of(pod))


def _status_entry(pod: Json, entry: Json) -> Json | None:
    statuses = mappings(status_of(pod).get("resourceClaimStatuses"))
    return next((one for one in statuses if one.get("name") == entry.get("name")), None)


def _claim_names(pod: Json) -> Iterator[tuple[str, bool]]:
    """Yield the names of the pod's claims; True with those that were created for the pod."""
    for entry in mappings(spec_of(pod).get("resourceClaims")):
        if entry.get("resourceClaimName") is not None:
            yield text(entry["resourceClaimName"]), False
        elif (status := _status_entry(pod, entry)) and status.get("resourceClaimName"):
            yield text(status["resourceClaimName"]), True


def _owning_pod(claim: Json) -> Json:
    """Return the reference to the pod that the claim was created for, or {}."""
    for owner in owners_of(claim):
        if owner.get("controller") and (owner.get("apiVersion"), owner.get("kind")) == (
            "v1",
            "Pod",
        ):
            return owner
    return {}


def _is_owned(claim: Json, pod: Json) -> bool:
    return _owning_pod(claim).get("uid") == uid_of(pod)


def _new_claim(pod: Json, entry: Json, template: Json) -> Json:
    spec, name = spec_of(template), text(entry.get("name"))
    metadata = mapping(spec.get("metadata"))
    owner: Json = {
        "apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod),
        "controller": True,
    }  # fmt: skip
    return {
        "metadata": {
            "namespace": namespace_of(pod),
            "generateName": _name_prefix(name_of(pod), name),
            "labels": mapping(metadata.get("labels")),
            "annotations": {**mapping(metadata.get("annotations")), _POD_CLAIM: name},
            "ownerReferences": [owner],
        },
        "spec": mapping(spec.get("spec")),
    }


def _name_prefix(pod: str, claim: str) -> str:
    """Return the prefix of a generated name; both names are cut in proportion if it is long."""
    prefix = f"{pod}-{claim}-"
    size = len(prefix)
    if size <= _PREFIX_MAX:
        return prefix
    pod_part, claim_part = (one[: len(one) * _PREFIX_MAX // size] for one in (pod, claim))
    return f"{pod_part}-{claim_part}"
