"""ResourceQuota: writes that exceed the quotas of their namespace are refused.

The package `quota` is imported when the first ResourceQuota is created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation
from fakeapi.types.kind import CLAIMS, PODS, QUOTAS

if TYPE_CHECKING:
    from fakeapi.quota.controller import QuotaController
    from fakeapi.store.registry import Registry, Review
    from fakeapi.store.store import Change, Collection
    from fakeapi.types.kind import ResourceKey

#: Resources of which an update can increase the use.
_GROWING: Final = frozenset(
    {
        PODS,
        ("", "services"),
        CLAIMS,
        ("resource.k8s.io", "resourceclaims"),
    }
)


class ResourceQuota(Plugin):
    """Refuses writes that exceed a quota; `QuotaController` keeps the status of quotas."""

    name = "ResourceQuota"

    def __init__(self) -> None:
        self._controller: QuotaController | None = None

    def follow(self, state: Registry) -> None:
        """Start the controller, or wait for the first quota."""
        if state.store.collection(QUOTAS).revisions:
            self._start(state)
            return

        def observe(collection: Collection, change: Change) -> None:
            if collection.resource == QUOTAS and self._controller is None:
                # The controller observes the store too, and is called next with this change.
                self._start(state)

        state.store.observers.append(observe)

    def _start(self, state: Registry) -> None:
        from fakeapi.quota.controller import QuotaController

        self._controller = QuotaController(state)

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """Return True for creates, and for updates of kinds that can grow."""
        if operation is Operation.DELETE:
            return False
        if subresource:
            return (resource, subresource) == (PODS, "resize") and operation is Operation.UPDATE
        return operation is Operation.CREATE or resource in _GROWING

    def check(self, review: Review) -> None:
        """Raise Forbidden if the object does not fit into a quota."""
        if self._controller is not None and review.target.namespace:
            self._controller.check(review)
