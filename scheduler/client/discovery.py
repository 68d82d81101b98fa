"""Look up kinds that are known by their names only.

Source: client-go `discovery/discovery_client.go` (`ServerResourcesForGroupVersion`).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.client.errors import DecodeError, KindNotFound, NotFound
from scheduler.client.kinds import GroupVersionResource
from scheduler.client.rest import Subject

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from scheduler.api.unstructured import Unstructured
    from scheduler.client.decoding import Page, WatchEvent
    from scheduler.client.kinds import ListOptions, Resource
    from scheduler.client.rest import RestClient


class _ApiResource(msgspec.Struct, frozen=True):
    """One kind in the answer of discovery (`metav1.APIResource`)."""

    name: str
    kind: str
    namespaced: bool = False


class _ApiResourceList(msgspec.Struct, frozen=True):
    """The kinds of one group and version (`metav1.APIResourceList`)."""

    resources: list[_ApiResource] = []


class DiscoveredKind:
    """The lists and watches of a kind, which is looked up for the first list or watch.

    Satisfies `scheduler.client.reflector.Source`. Raises `KindNotFound` as long as the server does
    not have the kind, which is looked up again at the next list or watch.
    """

    def __init__(self, client: RestClient, name: GroupVersionResource) -> None:
        self._client: Final = client
        self._name: Final = name
        self._resource: Resource[Unstructured] | None = None

    async def list(self, options: ListOptions) -> Page[Unstructured]:
        resource = self._resource or await self.discover()
        try:
            return await self._client.list_page(resource, options)
        except NotFound:
            # Deleted; it may come back with another scope or another `kind`.
            self._resource = None
            raise

    async def watch(self, options: ListOptions) -> AsyncGenerator[WatchEvent[Unstructured], None]:
        resource = self._resource or await self.discover()
        async with contextlib.aclosing(self._client.watch(resource, options)) as stream:
            async for event in stream:
                yield event

    async def discover(self) -> Resource[Unstructured]:
        """Look the kind up. Raises `KindNotFound`."""
        name = self._name
        for entry in await _resources_of(self._client, name):
            if entry.name == name.plural:
                self._resource = name.resource(entry.kind, namespaced=entry.namespaced)
                return self._resource
        raise KindNotFound(f"the API server has no kind {name.key}")


async def discover_kind(
    client: RestClient, *, api_version: str, kind: str
) -> Resource[Unstructured]:
    """Look up a kind by the `apiVersion` and `kind` of an object. Raises `KindNotFound`."""
    group, _, version = api_version.rpartition("/")
    for entry in await _resources_of(client, GroupVersionResource(group, version, kind)):
        if entry.kind == kind and "/" not in entry.name:  # no subresource
            name = GroupVersionResource(group, version, entry.name)
            return name.resource(kind, namespaced=entry.namespaced)
    raise KindNotFound(f"the API server has no kind {kind} of {api_version}")


async def _resources_of(client: RestClient, name: GroupVersionResource) -> list[_ApiResource]:
    """List all kinds of the group and version of `name`."""
    path = name.discovery_path
    try:
        body = await client.request("GET", path, subject=Subject(name.group_resource))
    except NotFound as error:
        raise KindNotFound(f"the API server has no kind {name.key}") from error
    try:
        return msgspec.json.decode(body, type=_ApiResourceList).resources
    except msgspec.DecodeError as error:
        raise DecodeError(url=path, kind="APIResourceList", detail=str(error)) from error
