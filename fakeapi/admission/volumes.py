"""PersistentVolumeClaimResize and StorageObjectInUseProtection.

Source: plugin/pkg/admission/storage/{persistentvolume/resize,storageobjectinuseprotection} of
Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.admission.chain import Plugin
from fakeapi.kinds.persistent_volumes import STORAGE_CLASSES, claim_class, claim_size
from fakeapi.store.registry import Operation, Review
from fakeapi.types.kind import CLAIMS
from fakeapi.types.objects import child, finalizers_of, mapping


class PersistentVolumeClaimResize(Plugin):
    """Refuses that a claim grows unless it is bound and its class allows it."""

    name = "PersistentVolumeClaimResize"
    resources = (CLAIMS,)
    operations = (Operation.UPDATE,)

    def check(self, review: Review) -> None:
        claim, old = review.object, review.old or {}
        if claim_size(claim) <= claim_size(old):
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


_FINALIZERS: Final = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    CLAIMS: "kubernetes.io/pvc-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection(Plugin):
    """Adds the finalizers that keep volumes and claims while they are used.

    A controller removes the finalizers, here the actor volume-protection-controller. Without one a
    deleted object stays until a client removes its finalizer.
    """

    name = "StorageObjectInUseProtection"
    resources = _FINALIZERS.keys()

    def mutate(self, review: Review) -> None:
        finalizer, present = _FINALIZERS[review.resource], finalizers_of(review.object)
        if finalizer not in present:
            child(review.object, "metadata")["finalizers"] = [*present, finalizer]
