"""DefaultIngressClass: an ingress that names no class gets the one marked as default.

Source: plugin/pkg/admission/network/defaultingressclass/admission.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.admission.default_class import default_class
from fakeapi.store.registry import Operation, Review
from fakeapi.types.objects import child, mapping, metadata_of

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey

_INGRESSES: Final = ("networking.k8s.io", "ingresses")
_CLASSES: Final = ("networking.k8s.io", "ingressclasses")
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
_DEFAULT: Final = "ingressclass.kubernetes.io/is-default-class"


class DefaultIngressClass(Plugin):
    """Ingresses without a class."""

    name = "DefaultIngressClass"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """New ingresses."""
        return resource == _INGRESSES and not subresource and operation is Operation.CREATE

    def mutate(self, review: Review) -> None:
        """Set the class, if there is a default one."""
        spec = child(review.object, "spec")
        annotations = mapping(metadata_of(review.object).get("annotations"))
        if spec.get("ingressClassName") is not None or _CLASS_ANNOTATION in annotations:
            return
        chosen = default_class(review.registry.store, _CLASSES, _DEFAULT)
        if chosen:
            spec["ingressClassName"] = chosen
