"""StorageObjectInUseProtection: volumes and claims that are in use are kept by a finalizer.

Whoever switches it on must have somebody who takes the finalizers off again, as the protection
controllers of kube-controller-manager do; that is why it is off by default here. The actors of
volumes do so for volumes and claims, and put the finalizers on without this plugin, too.

Source: plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go of v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types.objects import child, finalizers_of

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey

_FINALIZERS: Final = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection(Plugin):
    """What storage is made of does not go while somebody uses it."""

    name = "StorageObjectInUseProtection"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """New volumes, claims and classes of volume attributes."""
        return resource in _FINALIZERS and not subresource and operation is Operation.CREATE

    def mutate(self, review: Review) -> None:
        """Add the finalizer, unless it is there."""
        finalizer, present = _FINALIZERS[review.resource], finalizers_of(review.object)
        if finalizer not in present:
            child(review.object, "metadata")["finalizers"] = [*present, finalizer]
