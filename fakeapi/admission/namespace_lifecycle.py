"""NamespaceLifecycle: nothing is created where there is no namespace, or in one that is going.

Source: apiserver pkg/admission/plugin/namespace/lifecycle/admission.go of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types.errors import NotFound
from fakeapi.types.objects import mapping

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey

NAMESPACES: Final = ("", "namespaces")
_IMMORTAL: Final = ("default", "kube-system", "kube-public")
_ACCESS_REVIEWS: Final = ("authorization.k8s.io", "localsubjectaccessreviews")


class NamespaceLifecycle(Plugin):
    """Namespaces that are missing or going take nothing new; three of them never go."""

    name = "NamespaceLifecycle"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """Every write but deletions, of which only those of namespaces."""
        if operation is Operation.DELETE or resource == NAMESPACES:
            return operation is Operation.DELETE and resource == NAMESPACES
        return resource != _ACCESS_REVIEWS

    def checks(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """Deletions alone."""
        return operation is Operation.DELETE

    def mutate(self, review: Review) -> None:
        """Find the namespace. Raises NotFound, Forbidden."""
        namespace = review.target.namespace
        if review.operation is Operation.DELETE or not namespace:
            return
        found = review.registry.store.get(NAMESPACES, "", namespace)
        if found is None:
            raise NotFound("namespaces", "", namespace)
        phase = mapping(found.object.get("status")).get("phase")
        if review.operation is not Operation.CREATE or phase != "Terminating":
            return
        error = review.forbid(
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        error.details = {**(error.details or {}), "causes": [cause]}
        raise error

    def check(self, review: Review) -> None:
        """Upstream asks before the deletion is looked at, which for deletions is here."""
        if review.target.name in _IMMORTAL:
            raise review.forbid("this namespace may not be deleted")
