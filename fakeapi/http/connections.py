"""Connections with the limits of Go's HTTP server, in front of aiohttp's parser.

A request's head must be complete some time after its first byte (the first head of a connection:
after the connection began), as with kube-apiserver's ReadHeaderTimeout; its body within the time
that a request may take. Bytes that are not HTTP get Go's plain text. Source:
pkg/server/secure_serving.go of k8s.io/apiserver v0.36.3, and net/http's server.go, which answers a
slow head with nothing at all.
"""

from __future__ import annotations

import asyncio
import functools
import re
import socket
import struct
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from aiohttp import HttpVersion10, HttpVersion11, hdrs, web
from aiohttp.http_exceptions import LineTooLong

from fakeapi.http.answers import PLAIN_TEXT
from fakeapi.types.errors import EntityTooLarge, RequestTimedOut

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import StreamReader
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http import RawRequestMessage

    from fakeapi.clock import Clock, Timer
    from fakeapi.types.limits import Limits

    Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

#: Longer than the idle time of Go's client, so that the client closes first and no POST is lost.
_KEEPALIVE_SECONDS: Final = 120.0
#: Bytes of a head beyond the limit that net/http accepts.
_SLOP_BYTES: Final = 4096
_LINGERING_SECONDS: Final = 0.5
_OTHER_VERSION: Final = "505 HTTP Version Not Supported: unsupported protocol version"
_TOO_LARGE: Final = "431 Request Header Fields Too Large"
_TOO_LARGE_RESPONSE: Final = (
    f"HTTP/1.1 {_TOO_LARGE}\r\nContent-Type: {PLAIN_TEXT}\r\n"
    f"Content-Length: {len(_TOO_LARGE)}\r\nConnection: close\r\n\r\n{_TOO_LARGE}"
).encode()
#: Linger on, for no time: the kernel resets the connection.
_NO_LINGER: Final = struct.pack("ii", 1, 0)
#: Scheme and authority of an absolute target.
_ORIGIN: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://[^/?]*")
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]")


class Connection(web.RequestHandler):
    """One connection of a client.

    Its timer runs while a head is incomplete, or while the client does not read: the transport
    pauses writing when its buffer is full, and resumes when most of it has been sent.
    """

    __slots__ = (
        "_clock",
        "_head_bytes",
        "_is_refused",
        "_is_request_line",
        "_limits",
        "_requests",
        "_slow",
        "_unread",
    )

    def __init__(self, manager: Connections, **options: Any) -> None:
        super().__init__(manager, **options)
        self._clock = manager.clock
        self._limits = manager.limits
        self._unread: Timer | None = None
        #: Requests whose handler runs: bytes that come meanwhile belong to their bodies.
        self._requests = 0
        self._head_bytes = 0
        self._is_request_line = True
        self._is_refused = False
        self._slow: Timer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._slow = self._clock.call_later(self._limits.read_header_timeout_seconds, self._hang_up)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if data and not self._requests:
            if self._is_request_line:
                data = self._in_ascii(data)
            self._head_bytes += len(data)
            if self._slow is None:  # a head has begun
                self._slow = self._clock.call_later(
                    self._limits.read_header_timeout_seconds, self._hang_up
                )
        super().data_received(data)
        head_bytes_max = self._limits.max_header_bytes + _SLOP_BYTES
        is_too_long = not self._requests and self._head_bytes > head_bytes_max
        if is_too_long and self.transport is not None:
            self._refuse_head(self.transport)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self._clock.call_later(self._limits.write_timeout_seconds, self._break_off)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    @property
    def body_seconds(self) -> float:
        """The time that a client has for a body."""
        return self._limits.request_timeout_seconds

    def request_began(self) -> None:
        """Stop the timer of the head, which is complete."""
        self._requests += 1
        self._head_bytes = 0
        self._is_request_line = True
        self._cancel_timer()

    def request_ended(self) -> None:
        """Count the end of a request and its body: more bytes are the head of the next request."""
        self._requests -= 1

    def _in_ascii(self, data: bytes) -> bytes:
        """Escape UTF-8 in the request line: net/http accepts such targets, aiohttp does not."""
        line, end, rest = data.partition(b"\n")
        self._is_request_line = not end
        if line.isascii():
            return data
        return _NOT_ASCII.sub(lambda found: b"%%%02X" % found[0][0], line) + end + rest

    def _refuse_head(self, transport: asyncio.Transport) -> None:
        """Answer before the head is complete; discard input for a moment, so that it is read."""
        self._is_refused = True
        transport.write(_TOO_LARGE_RESPONSE)
        if transport.can_write_eof():
            transport.write_eof()
        self._cancel_timer()
        self._slow = self._clock.call_later(_LINGERING_SECONDS, self._hang_up)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._cancel_timer()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer malformed HTTP with Go's texts, and do not log it."""
        if status != HTTPStatus.BAD_REQUEST:
            return super().handle_error(request, status, exc, message)
        text = _TOO_LARGE if isinstance(exc, LineTooLong) else "400 Bad Request"
        return _goodbye(text)

    def _hang_up(self) -> None:
        self._slow = None
        self.force_close()

    def _break_off(self) -> None:
        """Drop the connection and the bytes that the client has not read."""
        self._unread = None
        if self.transport is not None:
            break_off(self.transport, reset=True)

    def _cancel_timer(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None


class Connections(web.Server):
    """The connections of a server: each client that connects gets a `Connection`."""

    def __init__(
        self,
        handler: Handler,
        *,
        clock: Clock,
        body_bytes_max: int,
        limits: Limits,
    ) -> None:
        """Set up within a running event loop."""
        super().__init__(
            functools.partial(_understood, handler),
            request_factory=functools.partial(
                _make_request, asyncio.get_running_loop(), body_bytes_max
            ),
            handler_cancellation=True,
        )
        self.clock = clock
        self.limits = limits

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Count a connection; close it at once if there are too many."""
        super().connection_made(handler, transport)
        if 0 < self.limits.max_connections < len(self.connections):
            break_off(transport, reset=False)

    def __call__(self) -> Connection:
        # Of a whole head, as with net/http, which has no other limit for a line or a header.
        head_bytes_max = self.limits.max_header_bytes + _SLOP_BYTES
        return Connection(
            self,
            loop=asyncio.get_running_loop(),
            max_line_size=head_bytes_max,
            max_field_size=head_bytes_max,
            max_headers=self.limits.max_headers,
            keepalive_timeout=_KEEPALIVE_SECONDS,
            access_log=None,
            auto_decompress=False,  # upstream does not decompress bodies either
        )


def _make_request(
    loop: asyncio.AbstractEventLoop,
    body_bytes_max: int,
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """Return a request as aiohttp makes it, with another limit for its body.

    Of an absolute target only path and query are left, as net/http reads it.
    """
    if not message.path.startswith("/") and message.method != hdrs.METH_CONNECT:
        message = message._replace(path=_ORIGIN.sub("", message.path, count=1))
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=body_bytes_max
    )


async def _understood(handler: Handler, http: web.BaseRequest) -> web.StreamResponse:
    """Answer a request that aiohttp accepts; refuse requests that net/http refuses."""
    connection = http.protocol
    assert isinstance(connection, Connection)
    connection.request_began()
    try:
        if http.version not in (HttpVersion10, HttpVersion11):
            is_newer = http.version.major > 1
            return _goodbye(_OTHER_VERSION if is_newer else "400 Bad Request")
        if http.headers.get(hdrs.TRANSFER_ENCODING, "chunked").lower() != "chunked":
            return _goodbye("501 Unsupported transfer encoding")
        if http.headers.get(hdrs.EXPECT, "100-continue").lower() != "100-continue":
            return _goodbye("417 Expectation Failed")
        return await handler(http)
    finally:
        http.content.on_eof(connection.request_ended)  # the rest of a refused body may still come


def _goodbye(text: str) -> web.Response:
    """Return a refusal in plain text that closes the connection; `text` begins with its code."""
    headers = {hdrs.CONTENT_TYPE: PLAIN_TEXT, hdrs.CONNECTION: "close"}
    response = web.Response(status=int(text[:3]), body=text.encode(), headers=headers)
    response.force_close()
    return response


async def read_body(http: web.BaseRequest, clock: Clock) -> bytes:
    """Return the body of a request once it is complete. Raises EntityTooLarge, RequestTimedOut."""
    if http.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        http.writer.output_size = 0  # the response has not begun
    connection = http.protocol
    assert isinstance(connection, Connection)
    reading = asyncio.ensure_future(http.read())
    timer = clock.call_later(connection.body_seconds, lambda: _cancel(reading))
    try:
        return await reading
    except web.HTTPRequestEntityTooLarge as error:
        raise EntityTooLarge(http.client_max_size) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RequestTimedOut from error
    finally:
        timer.cancel()


def _cancel(task: asyncio.Task[bytes]) -> None:
    task.cancel()


class Broken(web.StreamResponse):
    """The response to a request whose connection was broken off."""


def broken(http: web.BaseRequest, *, reset: bool) -> web.StreamResponse:
    """Break off a request's connection, and return a response that is never sent."""
    if http.transport is not None:
        break_off(http.transport, reset=reset)
    return Broken()


def break_off(transport: asyncio.BaseTransport, *, reset: bool) -> None:
    """End a connection at once: by a reset (RST), or as if it had been closed (FIN)."""
    sock = transport.get_extra_info("socket")
    if reset and sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    abort = getattr(transport, "abort", transport.close)
    abort()
