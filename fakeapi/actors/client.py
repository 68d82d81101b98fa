"""The HTTP client of all actors: requests, lists and watches.

The client shares no code with the scheduler's, on purpose: two independent readings of the API find
each other's mistakes.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import msgspec

from fakeapi.actors.objects import Object
from fakeapi.types.media_types import JSON
from fakeapi.types.objects import Json, mapping, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fakeapi.actors.resources import Resource
    from fakeapi.security.guard import Loopback

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
_DISCOVERY: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
)


class ActorApiError(Exception):
    """A request that the server refused; `code` is 0 if the server could not be reached."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class Client:
    """Sends requests with the user agent `fakeapi-actors/<name>`; clients share a session.

    Methods raise ActorApiError.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str, name: str) -> None:
        self._session = session
        self._url = url
        self._headers: Final = {
            "User-Agent": f"fakeapi-actors/{name}",
            "Accept-Encoding": "identity",
        }

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Object:
        """Send one request; return its answer. Raises ActorApiError."""
        headers = {**self._headers, "Accept": accept}
        data = None
        if body is not None:
            data = msgspec.json.encode(body)
            headers["Content-Type"] = content_type
        try:
            async with self._session.request(
                method, self._url + path, data=data, headers=headers
            ) as response:
                raw = await response.read()
                answer = _decoded(raw)
                if response.status >= 400:
                    raise _failure(response.status, answer)
                return answer
        except (aiohttp.ClientError, OSError) as error:
            raise ActorApiError(0, "Unreachable", f"{method} {path}: {error!r}") from error

    async def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return one object."""
        return await self.request("GET", resource.path(namespace, name))

    async def list_all(self, resource: Resource, namespace: str = "") -> Object:
        """Return the list of a resource."""
        return await self.request("GET", resource.path(namespace))

    async def create(self, resource: Resource, obj: Json) -> Object:
        """Create an object in its namespace."""
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self.request("POST", resource.path(Object(obj).namespace), body)

    async def update(self, resource: Resource, obj: Json, *, subresource: str = "") -> Object:
        """Replace an object, or a subresource of it."""
        path = resource.path(Object(obj).namespace, Object(obj).name, subresource)
        return await self.request("PUT", path, obj)

    async def patch(
        self,
        resource: Resource,
        obj: Object,
        patch: Json,
        *,
        subresource: str = "",
        content_type: str = MERGE,
        if_unchanged: bool = False,
    ) -> Object:
        """Patch the object if it still has this uid, and this version on request."""
        path = resource.path(obj.namespace, obj.name, subresource)
        metadata = {**({"uid": obj.uid} if obj.uid else {}), **mapping(patch.get("metadata"))}
        if if_unchanged:
            metadata["resourceVersion"] = obj.metadata.get("resourceVersion")
        body: Json = {**patch, "metadata": metadata} if metadata else patch
        return await self.request("PATCH", path, body, content_type=content_type)

    async def delete(self, resource: Resource, obj: Object, **options: object) -> Object:
        """Delete the object if it still has this uid; `options` are fields of DeleteOptions."""
        preconditions = {"uid": obj.uid, **mapping(options.pop("pre", None))}
        body: Json = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
            **options,
        }
        return await self.request("DELETE", resource.path(obj.namespace, obj.name), body)

    async def discover(self) -> list[Object]:
        """Return both documents of aggregated discovery."""
        return [await self.request("GET", path, accept=_DISCOVERY) for path in ("/api", "/apis")]

    @contextlib.asynccontextmanager
    async def watch(self, resource: Resource, version: str) -> AsyncIterator[AsyncIterator[Object]]:
        """Watch a resource from a version on."""
        path = resource.path()
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        try:
            async with self._session.get(
                self._url + path, params=query, headers=self._headers
            ) as response:
                if response.status >= 400:
                    raise _failure(response.status, _decoded(await response.read()))
                yield _lines(response)
        except (aiohttp.ClientError, OSError, msgspec.DecodeError) as error:
            raise ActorApiError(0, "Unreachable", f"watch of {path}: {error!r}") from error


def new_session(loopback: Loopback | None = None) -> aiohttp.ClientSession:
    """Return a session without a limit of connections: each watch holds one."""
    tls = None if loopback is None else loopback.tls
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=True if tls is None else tls),
        headers=None if loopback is None else loopback.headers,
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
    )


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[Object]:
    """Decode the lines of a stream as JSON."""
    rest = b""
    async for chunk in response.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield Object(msgspec.json.decode(line))


def _decoded(raw: bytes) -> Object:
    try:
        value: Any = msgspec.json.decode(raw) if raw else {}
    except msgspec.DecodeError:
        value = {"message": raw.decode(errors="replace")}
    return Object(value if isinstance(value, dict) else {})


def _failure(code: int, status: Json) -> ActorApiError:
    return ActorApiError(code, text(status.get("reason")), text(status.get("message")))
