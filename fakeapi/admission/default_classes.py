"""DefaultStorageClass and DefaultIngressClass: the class that an annotation marks as default.

Source: plugin/pkg/admission/{storage/storageclass/setdefault,network/defaultingressclass} and
pkg/volume/util/storageclass.go of Kubernetes v1.36.3; both choose in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from fakeapi.admission.chain import Plugin
from fakeapi.kinds.networking import DEFAULT_INGRESS_CLASS
from fakeapi.kinds.persistent_volumes import CLASS_ANNOTATION, STORAGE_CLASSES
from fakeapi.kinds.storage import DEFAULT_STORAGE_CLASS
from fakeapi.types.kind import CLAIMS, ResourceKey
from fakeapi.types.objects import child, mapping, metadata_of, name_of, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.store.registry import Review
    from fakeapi.types.objects import Json

_INGRESS_CLASSES: Final = ("networking.k8s.io", "ingressclasses")


class _DefaultClass(Plugin):
    """Sets the class of new objects that have none, in a field or an older annotation."""

    field: ClassVar[str]
    annotation: ClassVar[str]
    classes: ClassVar[ResourceKey]
    #: The annotations that mark a default class.
    marks: ClassVar[tuple[str, ...]]

    def mutate(self, review: Review) -> None:
        spec = child(review.object, "spec")
        annotations = mapping(metadata_of(review.object).get("annotations"))
        if spec.get(self.field) is None and self.annotation not in annotations:
            chosen = review.registry.store.collection(self.classes).derived(self._default)
            if chosen:
                spec[self.field] = chosen

    @classmethod
    def _default(cls, classes: Iterable[Json]) -> str:
        return _default_class(classes, cls.marks)


class DefaultStorageClass(_DefaultClass):
    """Sets the class of new claims that have none; an empty class means no class."""

    name = "DefaultStorageClass"
    resources = (CLAIMS,)
    field, annotation = "storageClassName", CLASS_ANNOTATION
    classes, marks = STORAGE_CLASSES, DEFAULT_STORAGE_CLASS


class DefaultIngressClass(_DefaultClass):
    """Sets the class of new ingresses that have none."""

    name = "DefaultIngressClass"
    resources = (("networking.k8s.io", "ingresses"),)
    field, annotation = "ingressClassName", "kubernetes.io/ingress.class"
    classes, marks = _INGRESS_CLASSES, (DEFAULT_INGRESS_CLASS,)


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
