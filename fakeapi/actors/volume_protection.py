"""Finalizers that keep claims that pods use, and volumes that are bound, from being deleted.

Source: pkg/controller/volume/{pvcprotection,pvprotection} of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.objects import has_ended, key_of, node_of, phase_of, spec_of
from fakeapi.actors.resources import CLAIMS, PODS, VOLUMES
from fakeapi.types.objects import (
    Json,
    finalizers_of,
    is_deleting,
    mapping,
    mappings,
    name_of,
    namespace_of,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeapi.actors.resources import Resource

_CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
_VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"


class VolumeProtection(Controller):
    """Adds and removes the finalizers. Keys are `claim namespace/name` and `volume name`."""

    name = "volume-protection-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._claims = self.informer(CLAIMS)
        self._volumes = self.informer(VOLUMES)
        self._pods = self.informer(PODS)
        self._claims.subscribe(lambda old, new: self.queue.add(f"claim {key_of(new or old or {})}"))
        self._volumes.subscribe(
            lambda old, new: self.queue.add(f"volume {key_of(new or old or {})}")
        )
        self._pods.subscribe(self._pod_changed)

    async def sync(self, key: str) -> None:
        """Add or remove the finalizer of one claim or volume."""
        kind, _, name = key.partition(" ")
        if kind == "claim":
            claim = self._claims.objects.get(name)
            if claim is not None:
                await self._keep(CLAIMS, claim, _CLAIM_FINALIZER, used=self._is_used(claim))
            return
        volume = self._volumes.objects.get(name)
        if volume is not None:
            bound = phase_of(volume) == "Bound"
            await self._keep(VOLUMES, volume, _VOLUME_FINALIZER, used=bound)

    async def _keep(self, resource: Resource, obj: Json, finalizer: str, *, used: bool) -> None:
        present = finalizers_of(obj)
        if is_deleting(obj):
            if used or finalizer not in present:
                return
            wanted = [one for one in present if one != finalizer]
        elif finalizer in present:
            return
        else:
            wanted = [*present, finalizer]
        await self.patch(resource, obj, {"metadata": {"finalizers": wanted}}, if_unchanged=True)

    def _is_used(self, claim: Json) -> bool:
        """True if a bound pod uses the claim."""
        name = name_of(claim)
        return any(
            node_of(pod) and name in claims_of(pod)
            for pod in self._pods.of_namespace(namespace_of(claim))
        )

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        for pod in (old, new):
            for name in claims_of(pod or {}):
                self.queue.add(f"claim {namespace_of(pod or {})}/{name}")


def claims_of(pod: Json) -> Iterator[str]:
    """Yield the names of the pod's claims; without ephemeral volumes once it has ended."""
    ended = has_ended(pod)
    for volume in mappings(spec_of(pod).get("volumes")):
        source = mapping(volume.get("persistentVolumeClaim"))
        if source:
            yield text(source.get("claimName"))
        elif volume.get("ephemeral") is not None and not ended:
            yield f"{name_of(pod)}-{name_of({'metadata': volume})}"
