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

from fakeapi.http.answers import JSON

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from aiohttp.abc import AbstractStreamWriter

    from fakeapi.http.answers import Answer

    HeaderPairs = tuple[tuple[str, str], ...]

_JSON_ALONE: Final = ((hdrs.CONTENT_TYPE, JSON),)
#: The line that says that a connection ends with the response.
CLOSE: Final = "Connection: close\r\n"
#: Bytes that may be written without waiting for the client to read them.
_UNREAD_BYTES_MAX: Final = 64 * 1024


class WholeResponse(web.Response):
    """A status, headers and a body; until it is sent the body may be replaced."""

    def __init__(self, code: int, body: bytes, headers: HeaderPairs) -> None:
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
        is_head = request.method == hdrs.METH_HEAD
        data = in_one_piece(self._status, self._whole, self._pairs, connection, is_head=is_head)
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


def response_to(answer: Answer, warnings: Iterable[str] = ()) -> WholeResponse:
    """The response that carries an answer."""
    return WholeResponse(answer.code, answer.body, header_pairs(answer, warnings))


def header_pairs(answer: Answer, warnings: Iterable[str] = ()) -> HeaderPairs:
    """The headers of an answer, those that warn the client included."""
    if not warnings and not answer.headers and answer.content_type == JSON:
        return _JSON_ALONE
    pairs = [(hdrs.CONTENT_TYPE, answer.content_type), *answer.headers.items()]
    return (*pairs, *_warning_pairs(warnings))


def _warning_pairs(warnings: Iterable[str]) -> Iterator[tuple[str, str]]:
    for warning in warnings:
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
        yield "Warning", f'299 - "{quoted}"'


def stream_headers(warnings: Iterable[str]) -> CIMultiDict[str]:
    """The headers of a watch, those that warn the client included."""
    return CIMultiDict([*_JSON_ALONE, *_warning_pairs(warnings)])


def in_one_piece(
    code: int, body: bytes, headers: HeaderPairs, connection: str = "", *, is_head: bool = False
) -> bytes:
    """A whole response as bytes; `connection` is a line about what becomes of the connection.

    A response to HEAD has the length of the body but not the body.
    """
    head = _head(code, headers, len(body), connection)
    date = f"Date: {rfc822_formatted_time()}\r\n\r\n".encode()
    return b"".join((head, date, b"" if is_head else body))


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
    return "Connection: keep-alive\r\n" if keep_alive else CLOSE


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
