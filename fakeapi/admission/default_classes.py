"""DefaultStorageClass and DefaultIngressClass: the class that an annotation marks as default.

Source: plugin/pkg/admission/{storage/storageclass/setdefault,network/defaultingressclass} and
pkg/volume/util/storageclass.go of Kubernetes v1.36.3; both choose in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.kinds.persistent_volumes import CLASS_ANNOTATION, STORAGE_CLASSES
from fakeapi.store.registry import Operation, Review
from fakeapi.types.objects import child, mapping, metadata_of, name_of, text

if TYPE_CHECKING:
    from fakeapi.store.store import Store
    from fakeapi.types.kind import ResourceKey

_CLAIMS: Final = ("", "persistentvolumeclaims")
_INGRESSES: Final = ("networking.k8s.io", "ingresses")
_INGRESS_CLASSES: Final = ("networking.k8s.io", "ingressclasses")
_INGRESS_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
_DEFAULT_STORAGE_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_DEFAULT_INGRESS_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"


class DefaultStorageClass(Plugin):
    """Sets the class of new claims that have none; an empty class means no class."""

    name = "DefaultStorageClass"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        return resource == _CLAIMS and not subresource and operation is Operation.CREATE

    def mutate(self, review: Review) -> None:
        spec = child(review.object, "spec")
        annotations = mapping(metadata_of(review.object).get("annotations"))
        if spec.get("storageClassName") is not None or CLASS_ANNOTATION in annotations:
            return
        store = review.registry.store
        chosen = _default_class(store, STORAGE_CLASSES, *_DEFAULT_STORAGE_CLASS)
        if chosen:
            spec["storageClassName"] = chosen


class DefaultIngressClass(Plugin):
    """Sets the class of new ingresses that have none."""

    name = "DefaultIngressClass"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        return resource == _INGRESSES and not subresource and operation is Operation.CREATE

    def mutate(self, review: Review) -> None:
        spec = child(review.object, "spec")
        annotations = mapping(metadata_of(review.object).get("annotations"))
        if spec.get("ingressClassName") is not None or _INGRESS_CLASS_ANNOTATION in annotations:
            return
        chosen = _default_class(review.registry.store, _INGRESS_CLASSES, _DEFAULT_INGRESS_CLASS)
        if chosen:
            spec["ingressClassName"] = chosen


def _default_class(store: Store, resource: ResourceKey, *annotations: str) -> str:
    """Return the newest class that is marked, the first by name of equally new ones, or ""."""
    marked = []
    for stored in store.collection(resource).revisions.values():
        notes = mapping(metadata_of(stored.object).get("annotations"))
        if any(notes.get(annotation) == "true" for annotation in annotations):
            marked.append(stored.object)
    if not marked:
        return ""
    newest = max(text(metadata_of(stored).get("creationTimestamp")) for stored in marked)
    return min(
        name_of(stored)
        for stored in marked
        if text(metadata_of(stored).get("creationTimestamp")) == newest
    )
