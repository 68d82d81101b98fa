"""Requests of plugins for objects of any kind, and for labels and annotations of pods."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from scheduler.api.core import ObjectMeta
from scheduler.api.unstructured import Unstructured
from scheduler.client import (
    MERGE_PATCH,
    PODS,
    Conflict,
    NotFound,
    Resource,
    Retry,
)
from scheduler.client.discovery import DiscoveredKind
from scheduler.client.kinds import GroupVersionResource, resource_named
from scheduler.framework.handle import ObjectNotFoundError, WriteConflictError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from scheduler.api.core import Pod
    from scheduler.api.unstructured import Kind
    from scheduler.api_calls.resource_claims import Write
    from scheduler.client import RestClient

R = TypeVar("R")


class PluginCalls:
    """Makes the requests of plugins."""

    def __init__(self, client: RestClient, write: Write) -> None:
        self._client: Final = client
        self._write: Final = write

    async def patch_pod(
        self,
        pod: Pod,
        *,
        labels: Mapping[str, str | None] = MappingProxyType({}),
        annotations: Mapping[str, str | None] = MappingProxyType({}),
    ) -> Pod:
        """Patch a pod of this uid, and no other pod of its name."""
        metadata = pod.metadata
        patch = {
            "metadata": {
                "uid": metadata.uid,
                "labels": dict(labels),
                "annotations": dict(annotations),
            }
        }
        return await self.write(
            metadata,
            Retry.ALWAYS,
            lambda: self._client.patch(
                PODS,
                metadata.name,
                patch,
                namespace=metadata.namespace,
                content_type=MERGE_PATCH,
            ),
        )

    def client(self, kind: Kind, /) -> ObjectCalls:
        """Return the client of a kind. Raises ValueError for a kind that cannot exist."""
        return ObjectCalls(self, self._client, resource_named(kind))

    async def write(
        self, metadata: ObjectMeta, retry: Retry, send: Callable[[], Awaitable[R]]
    ) -> R:
        """Send a write; raises the errors of the handle's protocols."""
        try:
            return await self._write(metadata, retry, send)
        except NotFound as error:
            raise ObjectNotFoundError(str(error)) from error
        except Conflict as error:
            raise WriteConflictError(str(error)) from error


class ObjectCalls:
    """Requests for one kind; satisfies `scheduler.framework.handle.ObjectClient`."""

    def __init__(
        self, calls: PluginCalls, client: RestClient, kind: Resource[Any] | GroupVersionResource
    ) -> None:
        self._calls: Final = calls
        self._client: Final = client
        self._kind: Final = kind
        self._resource: Resource[Unstructured] | None = None

    async def get(self, name: str, *, namespace: str = "") -> Unstructured:
        resource = await self._found()
        try:
            return await self._client.get(resource, name, namespace=namespace)
        except NotFound as error:
            raise ObjectNotFoundError(str(error)) from error

    async def create(self, obj: Mapping[str, object]) -> Unstructured:
        resource = await self._found()
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        sent = Unstructured({**head, **obj})
        if resource.namespaced and not sent.metadata.namespace:
            raise ValueError(f"metadata.namespace: a {resource.kind} needs a namespace")
        body = msgspec.json.encode(sent, enc_hook=dict)
        path = resource.collection_path(sent.metadata.namespace)
        created = await self._calls.write(
            sent.metadata,
            Retry.IF_NOT_SENT,
            lambda: self._client.request("POST", path, body=body),
        )
        return Unstructured(msgspec.json.decode(created))

    async def patch(
        self,
        name: str,
        patch: Mapping[str, object],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> Unstructured:
        resource = await self._found()
        plain = msgspec.json.decode(msgspec.json.encode(patch, enc_hook=dict))
        has_version = "resourceVersion" in (plain.get("metadata") or {})
        return await self._calls.write(
            ObjectMeta(name=name, namespace=namespace),
            Retry.IF_VERSION_CHECKED if has_version else Retry.ALWAYS,
            lambda: self._client.patch(
                resource,
                name,
                plain,
                namespace=namespace,
                subresource=subresource,
                content_type=MERGE_PATCH,
            ),
        )

    async def delete(self, name: str, *, namespace: str = "") -> bool:
        resource = await self._found()
        try:
            await self._calls.write(
                ObjectMeta(name=name, namespace=namespace),
                Retry.IF_NOT_SENT,
                lambda: self._client.delete(resource, name, namespace=namespace),
            )
        except ObjectNotFoundError:
            return False
        return True

    async def _found(self) -> Resource[Unstructured]:
        """Return the kind, looked up once if it has no type of ours. Raises `KindNotFound`."""
        if self._resource is None:
            kind = self._kind
            if isinstance(kind, GroupVersionResource):
                self._resource = await DiscoveredKind(self._client, kind).discover()
            else:
                name = GroupVersionResource(kind.group, kind.version, kind.plural)
                self._resource = name.resource(kind.kind, namespaced=kind.namespaced)
        return self._resource
