"""NamespaceExists: off by default, a weaker NamespaceLifecycle that does not mind which are going.

Source: plugin/pkg/admission/namespace/exists/admission.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.admission.chain import Plugin
from fakeapi.admission.namespace_lifecycle import NAMESPACES
from fakeapi.types.errors import NotFound

if TYPE_CHECKING:
    from fakeapi.store.registry import Operation, Review
    from fakeapi.types.kind import ResourceKey


class NamespaceExists(Plugin):
    """Whatever is written, the namespace it is in must be there."""

    name = "NamespaceExists"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """Everything, also deletions; of namespaces nothing."""
        return resource != NAMESPACES

    def check(self, review: Review) -> None:
        """Find the namespace. Raises NotFound."""
        namespace = review.target.namespace
        if namespace and review.registry.store.get(NAMESPACES, "", namespace) is None:
            raise NotFound("namespaces", "", namespace)
