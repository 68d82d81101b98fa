"""The replay's own API client: create, delete, list and watch, with only the fields that it reads.

It is independent of the scheduler's client on purpose: the verifier must see the server's state,
not the scheduler's view of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

import aiohttp
import msgspec

from .errors import ApiFailure

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .objects import Json

__all__ = [
    "ApiClient",
    "HeldNode",
    "HeldPod",
    "Listing",
    "PodEvent",
]

_PAGE_SIZE: Final = 2000
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json"}

T = TypeVar("T")


class _Held(msgspec.Struct, rename="camel"):
    """The base of everything read from the server. Unknown fields are skipped."""


class Metadata(_Held):
    """An object's name, version and labels."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class Condition(_Held):
    """One condition of a pod."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class Resources(_Held):
    """A container's requests, as quantities."""

    requests: dict[str, str] | None = None


class Container(_Held):
    """A container, as far as it matters for its node."""

    resources: Resources | None = None


class PodSpec(_Held):
    """A pod's node and containers."""

    node_name: str = ""
    containers: list[Container] = []


class PodStatus(_Held):
    """A pod's conditions."""

    conditions: list[Condition] | None = None


class HeldPod(_Held):
    """A pod on the API server."""

    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def unschedulable_message(self) -> str | None:
        """The message of the scheduler if it found no node; None otherwise."""
        for condition in self.status.conditions or ():
            if condition.type == "PodScheduled":
                told = condition.status == "False" and condition.reason == "Unschedulable"
                return condition.message if told else None
        return None


class NodeStatus(_Held):
    """A node's resources, as quantities."""

    allocatable: dict[str, str] = {}


class HeldNode(_Held):
    """A node on the API server."""

    metadata: Metadata
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class _ListMetadata(_Held):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(_Held, Generic[T]):
    metadata: _ListMetadata
    items: list[T]


class Listing(_Held, Generic[T]):
    """All objects of a kind, and the version of the list."""

    resource_version: str
    items: list[T]


class _Status(_Held):
    code: int = 0
    message: str = ""
    reason: str = ""


class PodEvent(_Held):
    """One event of a watch of pods: ADDED, MODIFIED or DELETED."""

    type: str
    object: HeldPod


class _RawEvent(_Held):
    type: str
    object: msgspec.Raw


class ApiClient:
    """A client of one API server; an async context manager. Every method raises ApiFailure."""

    def __init__(self, url: str, *, connections_max: int) -> None:
        self._url = url
        self._connections_max = connections_max
        self._session: aiohttp.ClientSession | None = None
        self._pod_pages = msgspec.json.Decoder(_Page[HeldPod])
        self._node_pages = msgspec.json.Decoder(_Page[HeldNode])

    async def __aenter__(self) -> ApiClient:
        self._session = aiohttp.ClientSession(
            self._url,
            connector=aiohttp.TCPConnector(limit=self._connections_max + 1),
            timeout=aiohttp.ClientTimeout(total=None),
            headers=_HEADERS,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def create(self, path: str, obj: Json) -> None:
        """Create an object in a collection (`/api/v1/nodes`)."""
        await self._send("POST", path, obj)

    async def delete(self, path: str) -> None:
        """Delete an object at once, without a grace period."""
        await self._send("DELETE", path, {"gracePeriodSeconds": 0})

    async def _send(self, method: str, path: str, obj: Json) -> None:
        try:
            async with self._http.request(method, path, data=msgspec.json.encode(obj)) as response:
                body = await response.read()
        except aiohttp.ClientError as error:
            raise ApiFailure(f"{method} {path}: {error}") from error
        if response.status >= 400:
            raise _refused(f"{method} {path}", response.status, body)

    async def list_pods(self) -> Listing[HeldPod]:
        """All pods of all namespaces."""
        return await self._list("/api/v1/pods", self._pod_pages)

    async def list_nodes(self) -> Listing[HeldNode]:
        """All nodes."""
        return await self._list("/api/v1/nodes", self._node_pages)

    async def watch_pods(self, resource_version: str) -> AsyncGenerator[PodEvent, None]:
        """Yield every change of a pod after a version, until the server ends the watch.

        Close the generator when leaving it early. An ERROR event is raised as ApiFailure, with the
        status 410 if the server's log does not go back to the version.
        """
        query = {"watch": "true", "resourceVersion": resource_version}
        try:
            async with self._http.get("/api/v1/pods", params=query) as response:
                if response.status >= 400:
                    what = "watch of /api/v1/pods"
                    raise _refused(what, response.status, await response.read())
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield _event(line)
        except aiohttp.ClientError as error:
            raise ApiFailure(f"watch of /api/v1/pods: {error}") from error

    async def _list(self, path: str, decoder: msgspec.json.Decoder[_Page[T]]) -> Listing[T]:
        items: list[T] = []
        query = {"limit": str(_PAGE_SIZE)}
        while True:
            try:
                async with self._http.get(path, params=query) as response:
                    body = await response.read()
            except aiohttp.ClientError as error:
                raise ApiFailure(f"GET {path}: {error}") from error
            if response.status >= 400:
                raise _refused(f"GET {path}", response.status, body)
            page = _decoded(decoder, body, f"GET {path}")
            items += page.items
            if not page.metadata.continue_:
                return Listing(page.metadata.resource_version, items)
            query["continue"] = page.metadata.continue_

    @property
    def _http(self) -> aiohttp.ClientSession:
        assert self._session is not None, "the client is entered first"
        return self._session


_raw_event: Final = msgspec.json.Decoder(_RawEvent)
_pod: Final = msgspec.json.Decoder(HeldPod)
_status: Final = msgspec.json.Decoder(_Status)


def _event(line: bytes) -> PodEvent:
    what = "watch of /api/v1/pods"
    event = _decoded(_raw_event, line, what)
    if event.type == "ERROR":
        raise _refused(what, 0, bytes(event.object))
    return PodEvent(event.type, _decoded(_pod, bytes(event.object), what))


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes, what: str) -> T:
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise ApiFailure(f"{what}: the answer makes no sense: {error}") from error


def _refused(what: str, code: int, body: bytes) -> ApiFailure:
    try:
        status = _status.decode(body)
    except msgspec.MsgspecError:
        status = _Status()
    message = status.message or body[:200].decode(errors="replace")
    code = code or status.code
    return ApiFailure(f"{what}: {code} {status.reason}: {message}", status=code)
