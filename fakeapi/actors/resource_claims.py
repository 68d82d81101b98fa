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
from fakeapi.actors.objects import NOTHING, Object
from fakeapi.actors.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from fakeapi.types.objects import Json, mapping, mappings, text, with_metadata

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
        self._pods = self.informer(PODS, self._pod_changed)
        self._claims = self.informer(RESOURCE_CLAIMS, self._claim_changed)
        self._templates = self.informer(RESOURCE_CLAIM_TEMPLATES, self._template_changed)

    async def sync(self, key: str) -> None:
        which, _, name = key.partition(" ")
        if which == "pod":
            pod = self._pods.objects.get(name)
            # Upstream has no check of the phase here: it would create the claim of an ended pod
            # again each time that it deletes it.
            if pod is not None and not pod.is_deleting and not pod.has_ended:
                await self._sync_pod(pod)
        elif (claim := self._claims.objects.get(name)) is not None:
            await self._sync_claim(claim)

    async def _sync_pod(self, pod: Object) -> None:
        """Create the claims that the pod lacks; reserve allocated claims of a bound pod."""
        named: list[Json] = []
        for entry in mappings(pod.spec.get("resourceClaims")):
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
        if pod.node:
            await self._reserve(pod)

    async def _claim_for(self, pod: Object, entry: Json) -> str:
        """Return the name of the claim to write into the pod's status, "" if none is needed."""
        template = text(entry.get("resourceClaimTemplateName"))
        status = _status_entry(pod, entry)
        if not template or (status is not None and status.get("resourceClaimName") is None):
            return ""
        if status is not None:
            named = self._claim_of(pod, text(status["resourceClaimName"]))
            if named is not None and _is_owned(named, pod):
                return ""
        for claim in self._claims.of_namespace(pod.namespace):
            if _is_owned(claim, pod) and claim.annotation(_POD_CLAIM) == entry.get("name"):
                return claim.name
        stored = self._templates.get(pod.namespace, template)
        if stored is None:
            why = f'resourceclaimtemplate.resource.k8s.io "{template}" not found'
            raise ActorApiError(404, "NotFound", f'resource claim template "{template}": {why}')
        return (await self.create(RESOURCE_CLAIMS, _new_claim(pod, entry, stored))).name

    def _claim_of(self, pod: Object, name: str) -> Object | None:
        return self._claims.get(pod.namespace, name)

    async def _reserve(self, pod: Object) -> None:
        """Reserve allocated claims for a pod that was bound without the scheduler's reservation."""
        for name, is_generated in _claim_names(pod):
            claim = self._claim_of(pod, name)
            if claim is None or (is_generated and not _is_owned(claim, pod)):
                return
            status = claim.status
            users = mappings(status.get("reservedFor"))
            if status.get("allocation") is None or len(users) >= _RESERVED_MAX:
                continue
            if any(user.get("uid") == pod.uid for user in users):
                continue
            user: Json = {"resource": "pods", "name": pod.name, "uid": pod.uid}
            reserved: Json = {**status, "reservedFor": [*users, user]}
            await self.update_status(RESOURCE_CLAIMS, claim, reserved)

    async def _sync_claim(self, claim: Object) -> None:
        """Remove stale reservations; deallocate and delete the claim if nothing uses it."""
        status = claim.status
        users = mappings(status.get("reservedFor"))
        remaining = [user for user in users if await self._is_in_use(claim, user)]
        is_protected = _FINALIZER in claim.finalizers
        if len(remaining) < len(users):
            wanted: Json = {**status, "reservedFor": remaining}
            if not remaining and is_protected:
                wanted["allocation"] = None
            written = await self.update_status(RESOURCE_CLAIMS, claim, wanted)
            if is_protected and written.status.get("allocation") is None:
                await self._remove_finalizer(written)
        elif is_protected and claim.is_deleting and not remaining:
            wanted = {**status, "allocation": None}
            await self._remove_finalizer(await self.update_status(RESOURCE_CLAIMS, claim, wanted))
        if not remaining and (owner := _owning_pod(claim)):
            pod = self._pods.get(claim.namespace, text(owner.get("name")))
            if pod is not None and (pod.uid != owner.get("uid") or _is_done(pod)):
                await self.delete(RESOURCE_CLAIMS, claim)

    async def _remove_finalizer(self, claim: Object) -> None:
        left = [one for one in claim.finalizers if one != _FINALIZER]
        await self.update(RESOURCE_CLAIMS, with_metadata(claim, finalizers=left))

    async def _is_in_use(self, claim: Object, user: Json) -> bool:
        """Return False if the pod of a reservation is gone, was replaced, or does not run again."""
        if user.get("apiGroup") or user.get("resource") != "pods":
            return True
        namespace, name = claim.namespace, text(user.get("name"))
        pod = self._pods.get(namespace, name)
        if pod is not None:
            return pod.uid == user.get("uid") and not _is_done(pod)
        try:
            live = await self.client.get(PODS, namespace, name)
        except ActorApiError as error:
            if error.code != 404:
                raise
            return False
        return live.uid == user.get("uid")

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """Queue the pod if it may need claims, and its claims if it needs none any longer."""
        pod = new or old or NOTHING
        extended = mapping(pod.status.get("extendedResourceClaimStatus"))
        if new is None or _is_done(new):
            names = [name for name, _ in _claim_names(pod)]
            if extended:
                names.append(text(extended.get("resourceClaimName")))
            for name in names:
                self.queue.add(f"claim {pod.namespace}/{name}")
        if new is not None and new.spec.get("resourceClaims") and not new.is_deleting:
            self.queue.add(f"pod {new.key}")

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        claim = new or old or NOTHING
        if new is not None:
            self.queue.add(f"claim {new.key}")
        for pod in self._pods.of_namespace(claim.namespace):
            if any(name == claim.name for name, _ in _claim_names(pod)):
                self.queue.add(f"pod {pod.key}")

    def _template_changed(self, old: Object | None, new: Object | None) -> None:
        template = new or old or NOTHING
        for pod in self._pods.of_namespace(template.namespace):
            for entry in mappings(pod.spec.get("resourceClaims")):
                if entry.get("resourceClaimTemplateName") == template.name:
                    self.queue.add(f"pod {pod.key}")


def _is_done(pod: Object) -> bool:
    """Return True if no container of the pod runs from now on."""
    return pod.has_ended or (pod.is_deleting and not pod.node)


def _status_entry(pod: Object, entry: Json) -> Json | None:
    statuses = mappings(pod.status.get("resourceClaimStatuses"))
    return next((one for one in statuses if one.get("name") == entry.get("name")), None)


def _claim_names(pod: Object) -> Iterator[tuple[str, bool]]:
    """Yield the names of the pod's claims; True with claims that were created for the pod."""
    for entry in mappings(pod.spec.get("resourceClaims")):
        if entry.get("resourceClaimName") is not None:
            yield text(entry["resourceClaimName"]), False
        elif (status := _status_entry(pod, entry)) and status.get("resourceClaimName"):
            yield text(status["resourceClaimName"]), True


def _owning_pod(claim: Object) -> Json:
    """Return the reference to the pod that the claim was created for, or {}."""
    for owner in claim.owners:
        if owner.get("controller") and (owner.get("apiVersion"), owner.get("kind")) == (
            "v1",
            "Pod",
        ):
            return owner
    return {}


def _is_owned(claim: Object, pod: Object) -> bool:
    return _owning_pod(claim).get("uid") == pod.uid


def _new_claim(pod: Object, entry: Json, template: Object) -> Json:
    spec, name = template.spec, text(entry.get("name"))
    metadata = mapping(spec.get("metadata"))
    owner: Json = {
        "apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid,
        "controller": True,
    }  # fmt: skip
    return {
        "metadata": {
            "namespace": pod.namespace,
            "generateName": _name_prefix(pod.name, name),
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
