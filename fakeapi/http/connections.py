"""Connections as Go's HTTP server has them: nonsense gets plain text, who is slow is hung up on.

A request's head must be complete 32 seconds after its first byte (the first one of a connection:
after the connection), as with kube-apiserver's ReadHeaderTimeout; its body within the 60 seconds
that a request may take. Source: pkg/server/secure_serving.go of k8s.io/apiserver v0.36.3, and
net/http's server.go, which answers a slow head with nothing at all.

Most requests are plain (heads.py), come on a connection that waits for one, and need not wait for
anything themselves. They are answered on the spot: most of what a request costs is otherwise the
parser's messages and streams, and a task. All others go aiohttp's way:

    data --> plain? ---> whole? --> idle? --> at_once --> bytes --> transport
              | no        | no       | no      | None
              v           v          v         v
              |      hold if short   |         |
              v                      v         v
             aiohttp's parser, and the connection's own task

What is in UTF-8 in a target is escaped on the way (`heads.in_ascii`), for aiohttp takes no other.
Once a connection has sent what is not plain, only aiohttp's parser knows where its next request
begins, and all that follows is left to it, such targets refused.
"""

from __future__ import annotations

import asyncio
import functools
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from aiohttp import HttpVersion10, HttpVersion11, hdrs, web
from aiohttp.http_exceptions import LineTooLong

from fakeapi.http import heads
from fakeapi.http.responses import CLOSE, WholeResponse, in_one_piece
from fakeapi.types.errors import RequestTimedOut

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fakeapi.clock import Clock, Timer
    from fakeapi.requests.at_once import AtOnce

    Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

__all__ = ["BODY_SECONDS", "HEADER_SECONDS", "Connections", "read_patiently"]

HEADER_SECONDS: Final = 32.0
BODY_SECONDS: Final = 60.0
#: Of a whole head, as with net/http; lines and fields may be as long.
_HEAD_BYTES_MAX: Final = (1 << 20) + 4096
_HEADERS_MAX: Final = 1000
_LINGERING_SECONDS: Final = 0.5
_PLAIN_TEXT: Final = ((hdrs.CONTENT_TYPE, "text/plain; charset=utf-8"),)
_OTHER_VERSION: Final = "505 HTTP Version Not Supported: unsupported protocol version"
_TOO_LARGE: Final = "431 Request Header Fields Too Large"
#: Larger bodies are left to aiohttp unless they come in one piece.
_HELD_BYTES_MAX: Final = 64 * 1024


class Connection(web.RequestHandler):
    """One connection of a client."""

    __slots__ = (
        "_at_once",
        "_clock",
        "_head_bytes",
        "_held",
        "_holding",
        "_is_in_use",
        "_is_plain",
        "_is_refused",
        "_slow",
    )

    def __init__(self, manager: Connections, **options: Any) -> None:
        super().__init__(manager, **options)
        self._clock = manager.clock
        self._at_once = manager.at_once
        #: Whether all that came so far was plain.
        self._is_plain = True
        #: Whether anything has been answered since aiohttp last asked.
        self._is_in_use = False
        self._head_bytes = 0
        self._held = b""
        self._holding = manager.held
        self._is_refused = False
        self._slow: Timer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called once it is there; a head must follow."""
        super().connection_made(transport)
        self._slow = self._clock.call_later(HEADER_SECONDS, self._hang_up)

    def data_received(self, data: bytes) -> None:
        """Called with what the client sends, and with nothing when aiohttp can go on reading."""
        if self._is_refused:
            return
        if not data or not self._is_plain:
            self._parse(data)
            return
        data = self._resumed(data)
        plain = heads.read(data)
        if plain is None:
            data = heads.in_ascii(data)
            plain = heads.read(data)
        if plain is not None and self._is_idle and self._at_once.is_open():
            if plain.is_whole:
                if self._answered(plain):
                    self._forget_timer()
                    return
            elif plain.fields.body_bytes <= _HELD_BYTES_MAX:
                self._hold(data, plain)
                return
        self._is_plain = plain is not None and plain.is_whole
        self._parse(data)

    @property
    def _is_idle(self) -> bool:
        """Whether its task waits for a request, and the client reads what it gets."""
        waits = self._waiter is not None and not self._waiter.done() and not self._messages
        return waits and not self.writing_paused and self.transport is not None

    def _answered(self, plain: heads.Plain) -> bool:
        response = self._at_once.answer(plain)
        if response is None or self.transport is None:
            return False
        self._is_in_use = True
        self.transport.write(response)
        return True

    def _process_keepalive(self) -> None:
        """Called by aiohttp when nothing has come for so long, as far as it knows."""
        if self._is_in_use:
            self._is_in_use = False
            again = self._loop.call_later(self._keepalive_timeout, self._process_keepalive)
            self._keepalive_handle = again
        else:
            super()._process_keepalive()

    def _hold(self, data: bytes, plain: heads.Plain) -> None:
        """Wait for the rest of a body: many clients send it after the head."""
        self._held = data
        self._holding.add(self)
        self._forget_timer()
        self._slow = self._clock.call_later(BODY_SECONDS, lambda: self._give_up(plain))

    def _resumed(self, data: bytes) -> bytes:
        """What was held, and what has come now."""
        if self._held:
            data, self._held = self._held + data, b""
            self._holding.discard(self)
            self._forget_timer()
        return data

    def _give_up(self, plain: heads.Plain) -> None:
        self._slow = None
        if self.transport is not None:
            self.transport.write(self._at_once.too_slow(plain))
        self.force_close()

    def _parse(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self._head_bytes = 0
            self._forget_timer()
            return
        if self._waiter is None:  # the body of a request that is in work
            return
        self._head_bytes += len(data)
        if self._head_bytes > _HEAD_BYTES_MAX and self.transport is not None:
            self._refuse_head(self.transport)
        elif self._slow is None:  # a head has begun
            self._slow = self._clock.call_later(HEADER_SECONDS, self._hang_up)

    def _refuse_head(self, transport: asyncio.Transport) -> None:
        """Answer before the head has ended; who is hung up on in the middle may not read that."""
        self._is_refused = True
        transport.write(in_one_piece(431, _TOO_LARGE.encode(), _PLAIN_TEXT, CLOSE))
        if transport.can_write_eof():
            transport.write_eof()
        self._forget_timer()
        self._slow = self._clock.call_later(_LINGERING_SECONDS, self._hang_up)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called once it is gone."""
        self._forget_timer()
        self._holding.discard(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP, in Go's words; that is the client's defect and not logged."""
        if status != HTTPStatus.BAD_REQUEST:
            return super().handle_error(request, status, exc, message)
        text = _TOO_LARGE if isinstance(exc, LineTooLong) else "400 Bad Request"
        return _goodbye(text, request)

    def _hang_up(self) -> None:
        self._slow = None
        self.force_close()

    def _forget_timer(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None


class Connections(web.Server):
    """Makes a Connection for each client that comes."""

    def __init__(self, handler: Handler, *, clock: Clock, at_once: AtOnce, **options: Any) -> None:
        super().__init__(
            functools.partial(_understood, handler),
            max_line_size=_HEAD_BYTES_MAX,
            max_field_size=_HEAD_BYTES_MAX,
            max_headers=_HEADERS_MAX,
            **options,
        )
        self.clock = clock
        self.at_once = at_once
        #: Those whose request has begun and waits for the rest of its body.
        self.held: set[Connection] = set()

    def __call__(self) -> Connection:
        """Called for each new connection."""
        return Connection(self, loop=self._loop, **self._kwargs)


async def _understood(handler: Handler, http: web.BaseRequest) -> web.StreamResponse:
    """The answer to a request that aiohttp takes for one; net/http is harder to please."""
    if http.version not in (HttpVersion10, HttpVersion11):
        is_newer = http.version.major > 1
        return _goodbye(_OTHER_VERSION if is_newer else "400 Bad Request", http)
    if http.headers.get(hdrs.TRANSFER_ENCODING, "chunked").lower() != "chunked":
        return _goodbye("501 Unsupported transfer encoding", http)
    if http.headers.get(hdrs.EXPECT, "100-continue").lower() != "100-continue":
        return _goodbye("417 Expectation Failed", http)
    return await handler(http)


def _goodbye(text: str, http: web.BaseRequest) -> WholeResponse:
    """A plain refusal, code first, after which nothing more is read."""
    # aiohttp says so itself but to HTTP/1.0, for which the end would go without saying; and what is
    # no HTTP passes for that.
    is_said = http.version >= HttpVersion11
    head = _PLAIN_TEXT if is_said else (*_PLAIN_TEXT, (hdrs.CONNECTION, "close"))
    response = WholeResponse(int(text[:3]), text.encode(), head)
    response.force_close()
    return response


async def read_patiently(http: web.BaseRequest, clock: Clock) -> bytes:
    """The body of a request that has not come yet. Raises RequestTimedOut if it does not come."""
    reading = asyncio.ensure_future(http.read())
    timer = clock.call_later(BODY_SECONDS, lambda: _cancel(reading))
    try:
        return await reading
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RequestTimedOut from error
    finally:
        timer.cancel()


def _cancel(task: asyncio.Task[bytes]) -> None:
    task.cancel()
