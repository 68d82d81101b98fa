"""PersistentVolumeClaimResize and StorageObjectInUseProtection.

Source: plugin/pkg/admission/storage/{persistentvolume/resize,storageobjectinuseprotection} of
Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.kinds.persistent_volumes import STORAGE_CLASSES, claim_class
from fakeapi.store.registry import Operation, Review
from fakeapi.types.objects import Json, child, finalizers_of, mapping, text
from fakeapi.types.quantity import parse_nano

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey


_CLAIMS: Final = ("", "persistentvolumeclaims")


class PersistentVolumeClaimResize(Plugin):
    """Refuses that a claim grows unless it is bound and its class allows it."""

    name = "PersistentVolumeClaimResize"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        return resource == _CLAIMS and not subresource and operation is Operation.UPDATE

    def check(self, review: Review) -> None:
        claim, old = review.object, review.old or {}
        if _size(claim) <= _size(old):
            return
        if mapping(old.get("status")).get("phase") != "Bound":
            raise review.forbid("Only bound persistent volume claims can be expanded")
        name = claim_class(claim)
        stored = review.registry.store.get(STORAGE_CLASSES, "", name) if name else None
        allows = stored is not None and stored.object.get("allowVolumeExpansion") is True
        if name != claim_class(old) or not allows:
            raise review.forbid(
                "only dynamically provisioned pvc can be resized and the storageclass that "
                "provisions the pvc must support resize"
            )


def _size(claim: Json) -> int:
    resources = mapping(mapping(claim.get("spec")).get("resources"))
    return parse_nano(text(mapping(resources.get("requests")).get("storage")) or "0")


_FINALIZERS: Final = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection(Plugin):
    """Adds the finalizers that keep volumes and claims while they are used.

    A controller removes the finalizers, here the actor volume-protection-controller. Without one a
    deleted object stays until a client removes its finalizer.
    """

    name = "StorageObjectInUseProtection"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        return resource in _FINALIZERS and not subresource and operation is Operation.CREATE

    def mutate(self, review: Review) -> None:
        finalizer, present = _FINALIZERS[review.resource], finalizers_of(review.object)
        if finalizer not in present:
            child(review.object, "metadata")["finalizers"] = [*present, finalizer]
