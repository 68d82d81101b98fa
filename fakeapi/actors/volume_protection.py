"""Finalizers that keep objects of storage from being deleted while they are used.

Claims are used by pods, volumes by the claims they are bound to, VolumeAttributesClasses by claims
and volumes.

Source: pkg/controller/volume/{pvcprotection,pvprotection,vacprotection} of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.objects import NOTHING, Object
from fakeapi.actors.resources import CLAIMS, PODS, VOLUME_ATTRIBUTES_CLASSES, VOLUMES
from fakeapi.quota.scopes import attributes_classes_of
from fakeapi.types.objects import mapping, mappings, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeapi.actors.resources import Resource

_CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
_VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"
_CLASS_FINALIZER: Final = "kubernetes.io/vac-protection"


class VolumeProtection(Controller):
    """Adds and removes the finalizers.

    Keys are `claim namespace/name`, `volume name` and `class name`.
    """

    name = "volume-protection-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._claims = self.informer(CLAIMS, self._claim_changed)
        self._volumes = self.informer(VOLUMES, self._volume_changed)
        self._pods = self.informer(PODS, self._pod_changed)
        self._classes = self.follow(VOLUME_ATTRIBUTES_CLASSES, "class ")

    async def sync(self, key: str) -> None:
        """Add or remove the finalizer of one object."""
        which, _, name = key.partition(" ")
        if which == "claim":
            if (claim := self._claims.objects.get(name)) is not None:
                await self._protect(CLAIMS, claim, _CLAIM_FINALIZER, used=self._has_pod(claim))
        elif which == "volume":
            if (volume := self._volumes.objects.get(name)) is not None:
                bound = volume.phase == "Bound"
                await self._protect(VOLUMES, volume, _VOLUME_FINALIZER, used=bound)
        elif (attributes := self._classes.objects.get(name)) is not None:
            used = self._is_class_used(name)
            resource = VOLUME_ATTRIBUTES_CLASSES
            await self._protect(resource, attributes, _CLASS_FINALIZER, used=used)

    async def _protect(
        self, resource: Resource, obj: Object, finalizer: str, *, used: bool
    ) -> None:
        present = obj.finalizers
        if obj.is_deleting:
            if used or finalizer not in present:
                return
            wanted = [one for one in present if one != finalizer]
        elif finalizer in present:
            return
        else:
            wanted = [*present, finalizer]
        await self.patch(resource, obj, {"metadata": {"finalizers": wanted}}, if_unchanged=True)

    def _has_pod(self, claim: Object) -> bool:
        """True if a bound pod uses the claim."""
        return any(
            pod.node and claim.name in claims_of(pod)
            for pod in self._pods.of_namespace(claim.namespace)
        )

    def _is_class_used(self, name: str) -> bool:
        """True if a volume or a claim uses the VolumeAttributesClass."""
        return any(
            name == _attributes_class_of(volume) for volume in self._volumes.objects.values()
        ) or any(name in attributes_classes_of(claim) for claim in self._claims.objects.values())

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        self.queue.add(f"claim {(new or old or NOTHING).key}")
        for name in attributes_classes_of(old or NOTHING):
            self.queue.add(f"class {name}")

    def _volume_changed(self, old: Object | None, new: Object | None) -> None:
        self.queue.add(f"volume {(new or old or NOTHING).key}")
        if name := _attributes_class_of(old or NOTHING):
            self.queue.add(f"class {name}")

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        for pod in (old, new):
            for name in claims_of(pod or NOTHING):
                self.queue.add(f"claim {(pod or NOTHING).namespace}/{name}")


def _attributes_class_of(volume: Object) -> str:
    return text(volume.spec.get("volumeAttributesClassName"))


def claims_of(pod: Object) -> Iterator[str]:
    """Yield the names of the pod's claims; without ephemeral volumes once it has ended."""
    ended = pod.has_ended
    for volume in mappings(pod.spec.get("volumes")):
        source = mapping(volume.get("persistentVolumeClaim"))
        if source:
            yield text(source.get("claimName"))
        elif volume.get("ephemeral") is not None and not ended:
            yield f"{pod.name}-{text(volume.get('name'))}"
