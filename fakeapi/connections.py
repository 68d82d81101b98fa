"""Connections as Go's HTTP server has them: nonsense gets plain text, who is slow is hung up on.

A request's head must be complete 32 seconds after its first byte (the first one of a connection:
after the connection), as with kube-apiserver's ReadHeaderTimeout; its body within the 60 seconds
that a request may take. Source: pkg/server/secure_serving.go of k8s.io/apiserver v0.36.3, and
net/http's server.go, which answers a slow head with nothing at all.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from aiohttp import hdrs, web
from aiohttp.http_exceptions import LineTooLong

from .errors import RequestTimedOut
from .responses import WholeResponse

if TYPE_CHECKING:
    from .clock import Clock, Timer

__all__ = ["BODY_SECONDS", "HEADER_SECONDS", "Connections", "read_patiently"]

HEADER_SECONDS: Final = 32.0
BODY_SECONDS: Final = 60.0


class Connection(web.RequestHandler):
    """One connection of a client."""

    __slots__ = ("_clock", "_slow")

    def __init__(self, manager: Connections, **options: Any) -> None:
        super().__init__(manager, **options)
        self._clock = manager.clock
        self._slow: Timer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called once it is there; a head must follow."""
        super().connection_made(transport)
        self._slow = self._clock.call_later(HEADER_SECONDS, self._hang_up)

    def data_received(self, data: bytes) -> None:
        """Called with what the client sends."""
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self._forget_timer()
        elif self._slow is None and self._waiter is not None:  # it waits, and a head has begun
            self._slow = self._clock.call_later(HEADER_SECONDS, self._hang_up)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Called once it is gone."""
        self._forget_timer()
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
        text = "431 Request Header Fields Too Large" if isinstance(exc, LineTooLong) else ""
        text = text or "400 Bad Request"
        # What is no HTTP passes for HTTP/1.0 here, for which the end would go without saying.
        head = [(hdrs.CONTENT_TYPE, "text/plain; charset=utf-8"), (hdrs.CONNECTION, "close")]
        response = WholeResponse(int(text[:3]), text.encode(), head)
        response.force_close()
        return response

    def _hang_up(self) -> None:
        self._slow = None
        self.force_close()

    def _forget_timer(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None


class Connections(web.Server):
    """Makes a Connection for each client that comes."""

    def __init__(self, handler: Any, *, clock: Clock, **options: Any) -> None:
        super().__init__(handler, **options)
        self.clock = clock

    def __call__(self) -> Connection:
        """Called for each new connection."""
        return Connection(self, loop=self._loop, **self._kwargs)


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
