"""Bytes over HTTP: connection pools, the headers of every request, the lines of a watch.

The only module of the client that uses aiohttp. It turns aiohttp's errors into `ConnectionFailed`
and its subclasses. `rest` interprets the answers and retries.

Watches have a connection pool of their own, without a limit: each holds its connection for minutes,
and must neither starve the writes nor wait for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from scheduler.client.errors import ConnectionFailed, ConnectionRefused, StreamInterrupted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.client.connection import Connection

#: How long to wait for a TCP connection, and how long to keep an idle one. (client-go: 30 s and
#: 90 s. Servers close after 90 s or so; a client that closes first never sees a reset.)
_CONNECT_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 60.0

#: The most connections for requests other than watches.
_CONNECTIONS_MAX: Final = 100

#: How much of a watch is read ahead before the server has to wait.
_WATCH_BUFFER_BYTES: Final = 1 << 18

#: After how much silence of a watch the kernel sends keep-alive probes.
_KEEPALIVE_SECONDS: Final = 30

#: How long a server may take to answer a TLS handshake, when it has closed a plain connection.
_PROBE_SECONDS: Final = 2.0

_RESETS: Final = frozenset({errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED})


class Answer(NamedTuple):
    """A complete answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """True for 200 to 206, as in client-go."""
        return 200 <= self.status <= 206


class _Broken(Exception):
    """Hides the error of a broken connection from aiohttp, which would send a DELETE twice."""


class Transport:
    """Sends requests to one API server; an async context manager."""

    def __init__(self, connection: Connection, *, user_agent: str) -> None:
        self._connection = connection
        self._user_agent = user_agent
        self._origin = URL(connection.base_url)
        self._prefix = self._origin.raw_path.rstrip("/")
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None
        self._authorization: str | None = None
        self._headers: dict[tuple[str, str], CIMultiDict[str]] = {}
        #: True if a closed connection may mean that the server expects HTTPS.
        self._may_need_tls = self._origin.scheme == "http" and connection.proxy is None

    async def __aenter__(self) -> Transport:
        encoding = "gzip" if self._connection.compression else "identity"
        self._requests = self._session(limit=_CONNECTIONS_MAX, encoding=encoding)
        # Compression would delay events until there are enough of them.
        self._watches = self._session(limit=0, encoding="identity")
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in (self._requests, self._watches):
            if session is not None:
                await session.close()
        self._requests = self._watches = None

    def url(self, path: str, query: str = "") -> str:
        """Return the full URL of a path, for messages."""
        return f"{self._connection.base_url}{path}{f'?{query}' if query else ''}"

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        body: bytes | None = None,
        content_type: str = "",
        accept: str = "",
    ) -> Answer:
        """Send one request; return the answer, whatever its code. Raises ConnectionFailed.

        If the server expects HTTPS, the error names the right URL and is not worth a retry.
        """
        session = _entered(self._requests)
        headers = await self._headers_for(content_type if body is not None else "", accept)
        try:
            response = await session.request(
                method,
                self._target(path, query),
                data=body,
                headers=headers,
                allow_redirects=False,
                ssl=self._tls_context,
                proxy=self._connection.proxy,
                server_hostname=self._connection.server_hostname,
            )
            answer = Answer(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, OSError, _Broken) as error:
            request = f'{method} "{self.url(path, query)}"'
            failure = _translated(error, request)
            if failure.reset and self._may_need_tls and await self._serves_tls():
                base = self._connection.base_url.removeprefix("http")
                failure = ConnectionFailed(f"{request}: the server serves HTTPS: write https{base}")
            raise failure from error
        self._may_need_tls = False
        if answer.status == 401:
            self._connection.credentials.rejected(headers.get("Authorization"))
        return answer

    async def open_watch(self, path: str, query: str) -> WatchStream | Answer:
        """Open a watch; return the answer instead if it is not 200.

        Raises ConnectionFailed; a timeout while connecting counts as a reset here.
        """
        session = _entered(self._watches)
        headers = await self._headers_for()
        url = self.url(path, query)
        try:
            response = await session.get(
                self._target(path, query),
                headers=headers,
                allow_redirects=False,
                ssl=self._tls_context,
                proxy=self._connection.proxy,
                server_hostname=self._connection.server_hostname,
            )
            if response.status == 200:
                return WatchStream(response, url)
            answer = Answer(response.status, response.headers, await response.read())
        except TimeoutError as error:
            raise ConnectionFailed(f'GET "{url}": {_text(error)}', reset=True) from error
        except (aiohttp.ClientError, OSError, _Broken) as error:
            raise _translated(error, f'GET "{url}"') from error
        if answer.status == 401:
            self._connection.credentials.rejected(headers.get("Authorization"))
        return answer

    async def _serves_tls(self) -> bool:
        """Return True if the server answers a TLS handshake; checked once, before any answer."""
        self._may_need_tls = False
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                _, writer = await asyncio.open_connection(
                    self._origin.host, self._origin.port, ssl=context
                )
        except (OSError, TimeoutError):
            return False
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return True

    @property
    def _tls_context(self) -> ssl.SSLContext | bool:
        """The context for a new connection; one of an older context is not reused."""
        tls = self._connection.tls
        return tls.context if tls is not None else True

    def _session(self, *, limit: int, encoding: str) -> aiohttp.ClientSession:
        headers = CIMultiDict(self._connection.headers)
        headers["Accept"] = "application/json"
        headers["Accept-Encoding"] = encoding
        headers["User-Agent"] = self._user_agent
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, keepalive_timeout=_IDLE_SECONDS),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            middlewares=(_send_once,),
            read_bufsize=_WATCH_BUFFER_BYTES,
        )

    def _target(self, path: str, query: str) -> URL:
        if query:
            return URL(self.url(path, query), encoded=True)
        # Three times cheaper than parsing the URL again; writes have no query.
        return self._origin.with_path(self._prefix + path, encoded=True)

    async def _headers_for(self, content_type: str = "", accept: str = "") -> CIMultiDict[str]:
        """Return the headers that differ between requests, cached by media types and token."""
        authorization = await self._connection.credentials.authorization()
        if authorization != self._authorization:
            self._authorization = authorization
            self._headers.clear()
        headers = self._headers.get((content_type, accept))
        if headers is None:
            headers = self._headers[content_type, accept] = CIMultiDict()
            if content_type:
                headers["Content-Type"] = content_type
            if accept:
                headers["Accept"] = accept
            if authorization:
                headers["Authorization"] = authorization
        return headers


class WatchStream:
    """An open watch: lines until the server ends it. Close it in the end."""

    def __init__(self, response: aiohttp.ClientResponse, url: str) -> None:
        self._response = response
        self._parts: list[bytes] = []
        self.url = url
        _keep_alive(response)

    def close(self) -> None:
        """Close the connection; a no-op if the stream has ended."""
        self._response.close()

    @property
    def unfinished(self) -> bytes:
        """The bytes after the last end of a line."""
        return b"".join(self._parts)

    async def lines(self) -> list[bytes]:
        """Return the lines that have arrived, at least one; none once the server ends the stream.

        Raises StreamInterrupted if the stream ends otherwise.
        """
        while True:
            try:
                chunk = await self._response.content.readany()
            except (aiohttp.ClientError, OSError) as error:
                raise StreamInterrupted(f"{self.url}: {_text(error)}", reset=True) from error
            if not chunk:
                return []
            if b"\n" not in chunk:
                # The parts of a long line are joined once, at its end.
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
    """Let the kernel detect a peer that has vanished; a watch cannot detect it otherwise."""
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
    text = f"{request}: {_text(error)}"
    number = getattr(getattr(error, "os_error", error), "errno", None)
    if number == errno.ECONNREFUSED:
        return ConnectionRefused(text)
    reset = isinstance(error, aiohttp.ServerDisconnectedError) or number in _RESETS
    return ConnectionFailed(text, reset=reset)


def _text(error: BaseException) -> str:
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection without an answer"
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return "no connection in time"
    return " ".join(str(error).split()) or type(error).__name__
