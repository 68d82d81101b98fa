"""DefaultStorageClass: a claim that names no class gets the one marked as default.

Source: plugin/pkg/admission/storage/storageclass/setdefault/admission.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.admission.default_class import default_class
from fakeapi.kinds.persistent_volumes import CLASS_ANNOTATION, STORAGE_CLASSES
from fakeapi.store.registry import Operation, Review
from fakeapi.types.objects import child, mapping, metadata_of

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey

_CLAIMS: Final = ("", "persistentvolumeclaims")
_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_BETA_DEFAULT: Final = "storageclass.beta.kubernetes.io/is-default-class"


class DefaultStorageClass(Plugin):
    """Claims without a class; those with an empty one want none."""

    name = "DefaultStorageClass"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """New claims."""
        return resource == _CLAIMS and not subresource and operation is Operation.CREATE

    def mutate(self, review: Review) -> None:
        """Set the class, if there is a default one."""
        spec = child(review.object, "spec")
        annotations = mapping(metadata_of(review.object).get("annotations"))
        if spec.get("storageClassName") is not None or CLASS_ANNOTATION in annotations:
            return
        store = review.registry.store
        chosen = default_class(store, STORAGE_CLASSES, _DEFAULT, _BETA_DEFAULT)
        if chosen:
            spec["storageClassName"] = chosen
