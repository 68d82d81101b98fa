"""NamespaceLifecycle and NamespaceExists: objects need a namespace that exists.

Source: apiserver pkg/admission/plugin/namespace/lifecycle/admission.go of v0.36.3, and
plugin/pkg/admission/namespace/exists/admission.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types.errors import NotFound
from fakeapi.types.kind import NAMESPACES
from fakeapi.types.objects import mapping

if TYPE_CHECKING:
    from fakeapi.store.registry import Review
    from fakeapi.types.kind import ResourceKey


_IMMORTAL: Final = ("default", "kube-system", "kube-public")
_ACCESS_REVIEWS: Final = ("authorization.k8s.io", "localsubjectaccessreviews")


class NamespaceLifecycle(Plugin):
    """Refuses new objects in a namespace that is missing or terminating.

    Three namespaces cannot be deleted.
    """

    name = "NamespaceLifecycle"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        if operation is Operation.DELETE or resource == NAMESPACES:
            return operation is Operation.DELETE and resource == NAMESPACES
        return resource != _ACCESS_REVIEWS

    def checks(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        return operation is Operation.DELETE

    def mutate(self, review: Review) -> None:
        """Raise NotFound for a missing namespace, Forbidden for a terminating one."""
        namespace = review.target.namespace
        if review.operation is Operation.DELETE or not namespace:
            return
        stored = review.registry.store.get(NAMESPACES, "", namespace)
        if stored is None:
            raise NotFound("namespaces", "", namespace)
        phase = mapping(stored.object.get("status")).get("phase")
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
        """Refuse to delete the immortal namespaces; deletions have no `mutate`."""
        if review.target.name in _IMMORTAL:
            raise review.forbid("this namespace may not be deleted")


class NamespaceExists(Plugin):
    """Refuses writes to a namespace that is missing; off by default."""

    name = "NamespaceExists"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        return resource != NAMESPACES

    def check(self, review: Review) -> None:
        namespace = review.target.namespace
        if namespace and review.registry.store.get(NAMESPACES, "", namespace) is None:
            raise NotFound("namespaces", "", namespace)
