"""DefaultStorageClass and DefaultIngressClass: the class that an annotation marks as default.

Source: plugin/pkg/admission/{storage/storageclass/setdefault,network/defaultingressclass} and
pkg/volume/util/storageclass.go of Kubernetes v1.36.3; both choose in the same way.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.kinds.persistent_volumes import CLASS_ANNOTATION, STORAGE_CLASSES
from fakeapi.store.registry import Operation, Review
from fakeapi.types.objects import child, mapping, metadata_of, name_of, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.types.kind import ResourceKey
    from fakeapi.types.objects import Json

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
        classes = review.registry.store.collection(STORAGE_CLASSES)
        chosen = classes.derived(_default_storage_class)
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
        classes = review.registry.store.collection(_INGRESS_CLASSES)
        chosen = classes.derived(_default_ingress_class)
        if chosen:
            spec["ingressClassName"] = chosen


def _default_class(classes: Iterable[Json], annotations: Iterable[str]) -> str:
    """Return the newest class that is marked, the first by name of equally new ones, or ""."""
    marked = []
    for stored in classes:
        notes = mapping(metadata_of(stored).get("annotations"))
        if any(notes.get(annotation) == "true" for annotation in annotations):
            marked.append(stored)
    if not marked:
        return ""
    newest = max(text(metadata_of(stored).get("creationTimestamp")) for stored in marked)
    return min(
        name_of(stored)
        for stored in marked
        if text(metadata_of(stored).get("creationTimestamp")) == newest
    )


_default_storage_class = functools.partial(_default_class, annotations=_DEFAULT_STORAGE_CLASS)
_default_ingress_class = functools.partial(_default_class, annotations=(_DEFAULT_INGRESS_CLASS,))
