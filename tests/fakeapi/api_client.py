"""A small HTTP client for tests: sends requests unchanged and parses the answers."""

import asyncio
import contextlib
import dataclasses
import io
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp
import msgspec

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

#: Real seconds after which a test gives up on an event that does not come.
PATIENCE_SECONDS = 5.0

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Reply:
    """An answer: status code, parsed body, headers."""

    code: int
    body: Any
    headers: Mapping[str, str]

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Reason and field of each cause of a failure."""
        causes = (self.body.get("details") or {}).get("causes", [])
        return [(cause.get("reason", ""), cause.get("field", "")) for cause in causes]

    @property
    def version(self) -> int:
        return int(self.body["metadata"]["resourceVersion"])

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.body["items"]]


class Stream:
    """The events of an open watch, one by one."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.headers = response.headers

    async def next(self, *, patience_seconds: float = PATIENCE_SECONDS) -> Json | None:
        """The next event, None at the end of the stream."""
        line = await asyncio.wait_for(self._response.content.readline(), patience_seconds)
        return msgspec.json.decode(line) if line else None

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next few events."""
        return [brief(await self.next()) for _ in range(count)]

    async def rest(self) -> list[Json]:
        """All events until the stream ends."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events


def brief(event: Json | None) -> tuple[str, str]:
    """Type and name of an event."""
    assert event is not None, "the stream has ended"
    metadata = event["object"].get("metadata", {})
    return event["type"], metadata.get("name", "")


async def eventually(condition: Callable[[], bool]) -> None:
    """Let tasks run until the condition holds; client and server share the event loop."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come about")


class ApiClient:
    """Requests against one server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str | None = "application/json",
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Reply:
        """Send one request; `body` is encoded unless it is bytes, None sends no body."""
        raw = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        sent = dict(headers or {})
        skip = None
        if raw is not None and content_type is None:
            skip = ["Content-Type"]
        elif raw is not None:
            sent["Content-Type"] = str(content_type)
        parameters = {name: str(value) for name, value in query.items()}
        async with self._session.request(
            method,
            self.url + path,
            data=raw if raw is None else io.BytesIO(raw),
            params=parameters,
            headers=sent,
            skip_auto_headers=skip,
        ) as response:
            text = await response.read()
            parsed: Any = text.decode()
            if text and response.headers["Content-Type"].startswith("application/json"):
                parsed = msgspec.json.decode(text)
            return Reply(response.status, parsed, response.headers)

    async def get(self, path: str, **query: Any) -> Reply:
        return await self.request("GET", path, **query)

    async def post(self, path: str, body: Any, **query: Any) -> Reply:
        return await self.request("POST", path, body, **query)

    async def put(self, path: str, body: Any, **query: Any) -> Reply:
        return await self.request("PUT", path, body, **query)

    async def patch(self, path: str, body: Any, content_type: str = MERGE, **query: Any) -> Reply:
        return await self.request("PATCH", path, body, content_type=content_type, **query)

    async def delete(self, path: str, body: Any = None, **query: Any) -> Reply:
        return await self.request("DELETE", path, body, **query)

    async def create(self, path: str, body: Any) -> Json:
        """Create an object that must be accepted."""
        reply = await self.post(path, body)
        assert reply.code == 201, reply.body
        created: Json = reply.body
        return created

    @contextlib.asynccontextmanager
    async def watch(
        self, path: str, *, headers: Mapping[str, str] | None = None, **query: Any
    ) -> AsyncIterator[Stream]:
        """An open watch; its status must be 200."""
        parameters = {"watch": "true"} | {name: str(value) for name, value in query.items()}
        async with self._session.get(
            self.url + path, params=parameters, headers=headers
        ) as response:
            assert response.status == 200, await response.text()
            yield Stream(response)
