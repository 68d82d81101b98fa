"""Responses written in one piece: head and body are known, so one write to the socket does it.

aiohttp's own `Response` fills a dictionary of headers and turns it into text for every answer; here
the head is put together from parts that rarely change. That saves a small write a tenth of its
time.
"""

from __future__ import annotations

import functools
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import ClientConnectionResetError, HttpVersion11, hdrs, web
from aiohttp.helpers import rfc822_formatted_time
from multidict import CIMultiDict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiohttp.abc import AbstractStreamWriter

#: Bytes that may be written without waiting for the client to read them.
_UNREAD_BYTES_MAX: Final = 64 * 1024


class WholeResponse(web.Response):
    """A status, headers and a body; until it is sent the body may be replaced."""

    def __init__(self, code: int, body: bytes, headers: Sequence[tuple[str, str]]) -> None:
        web.StreamResponse.__init__(self, status=code)  # what Response adds is not needed
        self._whole = body
        self._pairs = headers

    @property
    def body(self) -> bytes:
        """What will be sent after the head."""
        return self._whole

    @body.setter
    def body(self, value: bytes) -> None:
        self._whole = value

    @property
    def headers(self) -> CIMultiDict[str]:
        """The headers that were asked for, to read."""
        return CIMultiDict(self._pairs)

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send everything. Raises ClientConnectionResetError if the client is gone."""
        if self._eof_sent or self._payload_writer is not None:
            return self._payload_writer
        writer = self._payload_writer = request.writer
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        is_current = request.version >= HttpVersion11
        connection = "" if self._keep_alive == is_current else _connection(self._keep_alive)
        head = _head(self._status, tuple(self._pairs), len(self._whole), connection)
        date = f"Date: {rfc822_formatted_time()}\r\n\r\n".encode()
        body = b"" if request.method == hdrs.METH_HEAD else self._whole
        data = b"".join((head, date, body))
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ClientConnectionResetError("Cannot write to closing transport")
        transport.write(data)
        writer.output_size += len(data)
        return writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Wait for a client that is behind with reading; the rest has been sent."""
        if not self._eof_sent and self._payload_writer is not None:
            self._eof_sent = True
            if len(self._whole) > _UNREAD_BYTES_MAX:
                await self._payload_writer.drain()


def chunk_writer(request: web.BaseRequest) -> Callable[[bytes], Awaitable[None]]:
    """A function that sends a piece of a chunked response whose head has been sent.

    It waits for a client that is behind with reading, and raises ClientConnectionResetError if the
    client is gone.
    """
    writer = request.writer

    async def write(data: bytes) -> None:
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ClientConnectionResetError("Cannot write to closing transport")
        transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        await writer.drain()

    return write


def _connection(keep_alive: bool) -> str:  # noqa: FBT001
    return "Connection: keep-alive\r\n" if keep_alive else "Connection: close\r\n"


@functools.lru_cache(maxsize=4096)  # sizes of bodies repeat
def _head(code: int, pairs: tuple[tuple[str, str], ...], length: int, connection: str) -> bytes:
    try:
        phrase = HTTPStatus(code).phrase
    except ValueError:
        phrase = ""
    fields = "".join(f"{name}: {_one_line(value)}\r\n" for name, value in pairs)
    sized = "" if code == HTTPStatus.NOT_MODIFIED else f"Content-Length: {length}\r\n"
    return f"HTTP/1.1 {code} {phrase}\r\n{fields}{sized}{connection}".encode()


def _one_line(value: str) -> str:
    """A header's value cannot begin another header."""
    return value.replace("\r", " ").replace("\n", " ")
