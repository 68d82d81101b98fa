"""Deletion of namespaces: the content is deleted, pods first, then the finalizer is removed.

Source: pkg/controller/namespace/deletion of Kubernetes v1.36.3.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Final

from fakeapi.actors.client import ActorApiError
from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.objects import NOTHING, Object, condition, with_condition
from fakeapi.actors.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource, discovered
from fakeapi.types import times
from fakeapi.types.objects import Json, integer, mappings, text, texts

if TYPE_CHECKING:
    from collections.abc import Iterable

_FINALIZER: Final = "kubernetes"
_DISCOVERED: Final = "ResourcesDiscovered", "All resources successfully discovered"
_PARSED: Final = "ParsedGroupVersions", "All legacy kube types successfully parsed"
_DELETED: Final = (
    "ContentDeleted",
    "All content successfully deleted, may be waiting on finalization",
)
_REMOVED: Final = "ContentRemoved", "All content successfully removed"
_FINALIZED: Final = "ContentHasNoFinalizers", "All content-preserving finalizers finished"
#: The delay of the next try if something other than pods remains.
_WAIT_SECONDS: Final = 15


class NamespaceCollector(Controller):
    """Deletes the content of namespaces that are being deleted."""

    name = "namespace-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._namespaces = self.follow(NAMESPACES)
        self._pods = self.informer(PODS, self._pod_changed)

    async def sync(self, key: str) -> None:
        """Take the next step in the deletion of one namespace."""
        namespace = self._namespaces.get("", key)
        if namespace is None or not namespace.is_deleting:
            return
        if _FINALIZER not in texts(namespace.spec.get("finalizers")):
            return
        resources: list[Resource] = []
        for document in await self.client.discover():
            resources += discovered(document, "list", "delete")
        remaining = await self._empty(key, [one for one in resources if one.namespaced])
        namespace = await self._write_conditions(namespace, remaining)
        if not any(remaining.values()):
            await self._release(namespace)
        else:
            self.queue.add_after(key, _estimate_seconds(remaining))

    async def _empty(
        self, namespace: str, resources: Iterable[Resource]
    ) -> dict[Resource, list[Object]]:
        """Delete the content; return the objects that remain. All else waits for the pods."""
        remaining = {PODS: await self._delete_all(PODS, namespace)}
        if remaining[PODS]:
            return remaining
        for resource in resources:
            if resource != PODS:
                remaining[resource] = await self._delete_all(resource, namespace)
        return remaining

    async def _delete_all(self, resource: Resource, namespace: str) -> list[Object]:
        try:
            if not mappings((await self.client.list_all(resource, namespace)).get("items")):
                return []
            background: Json = {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "propagationPolicy": "Background",
            }
            await self.client.request("DELETE", resource.path(namespace), background)
            left = await self.client.list_all(resource, namespace)
            return [Object(one) for one in mappings(left.get("items"))]
        except ActorApiError as error:
            if error.code in (404, 405):  # not served any more, or no collection can be deleted
                return []
            raise

    async def _write_conditions(
        self, namespace: Object, remaining: dict[Resource, list[Object]]
    ) -> Object:
        status = dict(namespace.status)
        now = times.timestamp(self.clock.now())
        conditions: object = status.get("conditions")
        for new in _conditions(remaining):
            conditions = with_condition(conditions, new, now)
        status["conditions"] = conditions
        return await self.update_status(NAMESPACES, namespace, status)

    async def _release(self, namespace: Object) -> None:
        spec = dict(namespace.spec)
        spec["finalizers"] = [one for one in texts(spec.get("finalizers")) if one != _FINALIZER]
        await self.update(NAMESPACES, {**namespace, "spec": spec}, subresource="finalize")

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            self.queue.add(text((old or NOTHING).metadata.get("namespace")))


class DefaultServiceAccounts(Controller):
    """Creates the ServiceAccount `default` in each namespace, and again if it is deleted.

    Source: pkg/controller/serviceaccount/serviceaccounts_controller.go of Kubernetes v1.36.3.
    """

    name = "service-account-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._namespaces = self.follow(NAMESPACES)
        self._accounts = self.informer(SERVICE_ACCOUNTS, self._account_changed)

    async def sync(self, key: str) -> None:
        """Create the account of one namespace if it is missing. Raises ActorApiError."""
        namespace = self._namespaces.get("", key)
        if namespace is None or namespace.is_deleting or self._accounts.get(key, "default"):
            return
        await self.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": key}})

    def _account_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and (old or NOTHING).name == "default":
            self.queue.add((old or NOTHING).namespace)


def _estimate_seconds(remaining: dict[Resource, list[Object]]) -> float:
    """Return the delay of the next try: half of the longest grace period, plus 1."""
    graces = [
        integer(pod.spec.get("terminationGracePeriodSeconds")) for pod in remaining.get(PODS, ())
    ]
    return max(graces, default=_WAIT_SECONDS) // 2 + 1


def _conditions(remaining: dict[Resource, list[Object]]) -> list[Json]:
    left = {
        f"{resource.plural}.{resource.group}": objects
        for resource, objects in remaining.items()
        if objects
    }
    content = ", ".join(
        f"{name} has {len(objects)} resource instances" for name, objects in sorted(left.items())
    )
    counts = collections.Counter(
        one for objects in left.values() for obj in objects for one in obj.finalizers
    )
    finalizers = ", ".join(
        f"{name} in {count} resource instances" for name, count in sorted(counts.items())
    )
    remains = f"Some resources are remaining: {content}"
    waits = f"Some content in the namespace has finalizers remaining: {finalizers}"
    return [
        condition("NamespaceDeletionDiscoveryFailure", "False", *_DISCOVERED),
        condition("NamespaceDeletionGroupVersionParsingFailure", "False", *_PARSED),
        condition("NamespaceDeletionContentFailure", "False", *_DELETED),
        condition("NamespaceContentRemaining", "True", "SomeResourcesRemain", remains)
        if content
        else condition("NamespaceContentRemaining", "False", *_REMOVED),
        condition("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", waits)
        if finalizers
        else condition("NamespaceFinalizersRemaining", "False", *_FINALIZED),
    ]
