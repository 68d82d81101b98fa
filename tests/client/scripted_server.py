"""A real HTTP server that gives the answers of a script, in order, and records the requests."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from aiohttp import web


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> object:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """A whole answer. A body that is not bytes is sent as JSON."""

    body: object = b"{}"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stream:
    """A chunked answer, one chunk after another; `then` is its end.

    `end` ends it properly, `reset` breaks the connection, `hold` keeps it open.
    """

    chunks: Sequence[bytes | dict[str, object]] = ()
    then: str = "end"


@dataclass(frozen=True)
class Reset:
    """No answer: the connection is broken."""


@dataclass(frozen=True)
class Silence:
    """No answer either: the request is left hanging."""


Script = Answer | Stream | Reset | Silence


class ScriptedServer:
    """`async with ScriptedServer(Answer(...), Reset()) as server: ... server.url`"""

    def __init__(self, *script: Script, tls: ssl.SSLContext | None = None) -> None:
        self.script = deque(script)
        self.asked: list[Asked] = []
        self.disconnects = 0
        self._tls = tls
        self._stopped = asyncio.Event()
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> ScriptedServer:
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopped.set()
        await self._runner.cleanup()

    async def wait_for_requests(self, count: int) -> None:
        """Return once so many requests have arrived."""
        while len(self.asked) < count:
            self._arrived.clear()
            await self._arrived.wait()

    async def wait_for_disconnects(self, count: int) -> None:
        """Return once the client has hung up on so many held streams."""
        while self.disconnects < count:
            self._arrived.clear()
            await self._arrived.wait()

    def methods(self) -> list[str]:
        return [asked.method for asked in self.asked]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(
            Asked(
                method=request.method,
                path=request.path,
                query=dict(parse_qsl(request.query_string, keep_blank_values=True)),
                headers=request.headers,
                body=await request.read(),
            )
        )
        self._arrived.set()
        if not self.script:
            return web.json_response({"message": "the script is over"}, status=418)
        step = self.script.popleft()
        if isinstance(step, Answer):
            body = step.body if isinstance(step.body, bytes) else json.dumps(step.body).encode()
            headers = {"Content-Type": "application/json", **step.headers}
            return web.Response(body=body, status=step.status, headers=headers)
        if isinstance(step, Stream):
            return await self._stream(request, step)
        if isinstance(step, Silence):
            await self._stopped.wait()
        break_connection(request)
        return web.Response()

    async def _stream(self, request: web.BaseRequest, stream: Stream) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in stream.chunks:
            line = chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode() + b"\n"
            await response.write(line)
            # A turn of the loop each, so that the client reads them one by one.
            await asyncio.sleep(0)
        if stream.then == "reset":
            await asyncio.sleep(0.01)
            break_connection(request)
        elif stream.then == "hold":
            await self._hold(request)
        return response

    async def _hold(self, request: web.BaseRequest) -> None:
        """Keep the stream open until the client hangs up or the test is over."""
        stopped = asyncio.create_task(self._stopped.wait())
        while not stopped.done():
            if request.transport is None or request.transport.is_closing():
                self.disconnects += 1
                self._arrived.set()
                break
            await asyncio.wait({stopped}, timeout=0.005)
        stopped.cancel()


def break_connection(request: web.BaseRequest) -> None:
    """Close a connection in the way a crashed host does: with a reset."""
    transport = request.transport
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def status(
    code: int, reason: str, message: str = "", *, details: dict[str, object] | None = None
) -> dict[str, object]:
    """A refusal as the API server words it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details or {},
        "code": code,
    }
