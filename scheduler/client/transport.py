"""Bytes over HTTP: the connection pools, the headers every request has, the lines of a watch.

This is the only module that knows aiohttp, and its errors go no further: they become
`ConnectionFailed` and its kin here. What the answers mean, and whether to ask again, is decided in
`rest`.

Watches have a pool of their own, without a limit: each holds its connection for minutes, and they
must not starve the writes nor wait behind them.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from scheduler.client.errors import ConnectionFailed, ConnectionRefused, StreamInterrupted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.client.connection import Connection

#: How long to wait for a TCP connection, and how long to keep an idle one. (client-go: 30 s and
#: 90 s. Servers close after 90 s or so, and the one who closes first never meets a reset.)
_CONNECT_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 60.0

#: How much of a watch is read ahead before the server is held up.
_WATCH_BUFFER_BYTES: Final = 1 << 18

#: When the kernel starts asking whether the other side of a silent watch is still there.
_KEEPALIVE_SECONDS: Final = 30

_RESETS: Final = frozenset({errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED})


class Answer(NamedTuple):
    """What came back, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the server did what it was asked (200 to 206, as client-go has it)."""
        return 200 <= self.status <= 206


class _Broken(Exception):
    """Takes the error of a broken connection past aiohttp, which would send a DELETE twice."""


class Transport:
    """Sends requests to one API server. An async context manager; not usable outside of it."""

    def __init__(self, connection: Connection, *, user_agent: str, connections_max: int) -> None:
        self._connection = connection
        self._user_agent = user_agent
        self._connections_max = connections_max
        self._origin = URL(connection.base_url)
        self._prefix = self._origin.raw_path.rstrip("/")
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None
        self._authorization: str | None = None
        self._headers: dict[str, CIMultiDict[str]] = {}

    async def __aenter__(self) -> Transport:
        encoding = "gzip" if self._connection.compression else "identity"
        self._requests = self._session(limit=self._connections_max, encoding=encoding)
        # A compressor would hold events back until it has enough of them.
        self._watches = self._session(limit=0, encoding="identity")
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in (self._requests, self._watches):
            if session is not None:
                await session.close()
        self._requests = self._watches = None

    def url(self, path: str, query: str = "") -> str:
        """The whole URL of a path, for messages."""
        return f"{self._connection.base_url}{path}{f'?{query}' if query else ''}"

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        body: bytes | None = None,
        content_type: str = "",
    ) -> Answer:
        """One request, one answer; whatever its code. Raises ConnectionFailed for no answer."""
        session = _entered(self._requests)
        headers = await self._headers_for(content_type if body is not None else "")
        try:
            response = await session.request(
                method,
                self._target(path, query),
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=self._connection.proxy,
                server_hostname=self._connection.server_hostname,
            )
            answer = Answer(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, OSError, _Broken) as error:
            raise _translated(error, f'{method} "{self.url(path, query)}"') from error
        if answer.status == 401:
            self._connection.credentials.rejected(headers.get("Authorization"))
        return answer

    async def open_watch(self, path: str, query: str) -> WatchStream | Answer:
        """A stream of lines, or the answer of a server that does not want to give one.

        Raises ConnectionFailed; a timeout while connecting counts as a reset here.
        """
        session = _entered(self._watches)
        headers = await self._headers_for("")
        url = self.url(path, query)
        try:
            response = await session.get(
                self._target(path, query),
                headers=headers,
                allow_redirects=False,
                proxy=self._connection.proxy,
                server_hostname=self._connection.server_hostname,
            )
            if response.status == 200:
                return WatchStream(response, url)
            answer = Answer(response.status, response.headers, await response.read())
        except TimeoutError as error:
            raise ConnectionFailed(f'GET "{url}": {_words(error)}', reset=True) from error
        except (aiohttp.ClientError, OSError, _Broken) as error:
            raise _translated(error, f'GET "{url}"') from error
        if answer.status == 401:
            self._connection.credentials.rejected(headers.get("Authorization"))
        return answer

    def _session(self, *, limit: int, encoding: str) -> aiohttp.ClientSession:
        headers = CIMultiDict(self._connection.headers)
        headers["Accept"] = "application/json"
        headers["Accept-Encoding"] = encoding
        headers["User-Agent"] = self._user_agent
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=limit,
                ssl=self._connection.ssl_context or True,
                keepalive_timeout=_IDLE_SECONDS,
            ),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            middlewares=(_send_once,),
            read_bufsize=_WATCH_BUFFER_BYTES,
        )

    def _target(self, path: str, query: str) -> URL:
        if query:
            return URL(self.url(path, query), encoded=True)
        # Three times cheaper than parsing the whole URL again, and writes have no query.
        return self._origin.with_path(self._prefix + path, encoded=True)

    async def _headers_for(self, content_type: str) -> CIMultiDict[str]:
        """The headers that differ between requests, made once per kind of body and token."""
        authorization = await self._connection.credentials.authorization()
        if authorization != self._authorization:
            self._authorization = authorization
            self._headers.clear()
        headers = self._headers.get(content_type)
        if headers is None:
            headers = self._headers[content_type] = CIMultiDict()
            if content_type:
                headers["Content-Type"] = content_type
            if authorization:
                headers["Authorization"] = authorization
        return headers


class WatchStream:
    """An open watch: lines, until the server ends it. Close it when done."""

    def __init__(self, response: aiohttp.ClientResponse, url: str) -> None:
        self._response = response
        self._parts: list[bytes] = []
        self.url = url
        _keep_alive(response)

    def close(self) -> None:
        """Drop the connection; harmless if the stream has ended."""
        self._response.close()

    @property
    def unfinished(self) -> bytes:
        """What came after the last end of line."""
        return b"".join(self._parts)

    async def lines(self) -> list[bytes]:
        """The next lines, as many as lie ready; none once the server has ended the stream.

        Raises StreamInterrupted if the stream ends otherwise.
        """
        while True:
            try:
                chunk = await self._response.content.readany()
            except (aiohttp.ClientError, OSError) as error:
                raise StreamInterrupted(f"{self.url}: {_words(error)}", reset=True) from error
            if not chunk:
                return []
            if b"\n" not in chunk:
                # The parts of a long line are joined once, not with every part.
                self._parts.append(chunk)
                continue
            lines = chunk.split(b"\n")
            if self._parts:
                lines[0] = b"".join([*self._parts, lines[0]])
            last = lines.pop()
            self._parts = [last] if last else []
            return lines


async def _send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
        raise _Broken from error


def _entered(session: aiohttp.ClientSession | None) -> aiohttp.ClientSession:
    if session is None:
        raise RuntimeError("the client is not open: use it as an async context manager")
    return session


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    """Let the kernel notice a peer that vanished without a word: a watch has no other way to."""
    transport = response.connection.transport if response.connection is not None else None
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), _KEEPALIVE_SECONDS)


def _translated(error: Exception, request: str) -> ConnectionFailed:
    if isinstance(error, _Broken) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    text = f"{request}: {_words(error)}"
    number = getattr(getattr(error, "os_error", error), "errno", None)
    if number == errno.ECONNREFUSED:
        return ConnectionRefused(text)
    reset = isinstance(error, aiohttp.ServerDisconnectedError) or number in _RESETS
    return ConnectionFailed(text, reset=reset)


def _words(error: BaseException) -> str:
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection without an answer"
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return "no connection in time"
    return " ".join(str(error).split()) or type(error).__name__
