"""What counts as a plain request means the same to aiohttp's parser, and the rest is left to it."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from fakeapi.http import heads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp.http import RawRequestMessage

PLAIN = (
    b"POST /api/v1/namespaces/default/pods?dryRun=All HTTP/1.1\r\n"
    b"Host: localhost:8080\r\ncontent-type: application/json\r\nContent-Length: 2\r\n\r\n{}"
)
#: Bytes on which parsers differ, and what requests are made of.
PIECES = (
    b"GET", b"POST", b"PATCH", b"get", b"TRACE", b" ", b"  ", b"\t", b"/", b"/api", b"/a?b=c&d",
    b"*", b"/%2F", b"/\xc3\xa9", b"#x", b"http://x/", b" HTTP/1.1", b" HTTP/1.0", b" HTTP/2.0",
    b"\r\n",
    b"\n", b"\r", b"\r\n\r\n", b"Host: x", b"host:x", b"Host : x", b": x", b"X", b"X:", b"X: a b ",
    b"X: \x00", b"X: \xff", b" folded", b"Content-Length: 3", b"Content-Length: 03",
    b"Content-Length: +3", b"Content-Length: 3, 3", b"Content-Length: 0x3", b"Content-Length:",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", b"Connection: close",
    b"Connection: Keep-Alive", b"Connection: Upgrade", b"Upgrade: h2c", b"Expect: 100-continue",
    b"Accept: */*", b"abc", b"abcd", b"0\r\n\r\n", b"",
)  # fmt: skip


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def as_aiohttp_reads(
    raw: bytes, loop: asyncio.AbstractEventLoop
) -> tuple[RawRequestMessage, bytes, bytes]:
    """The one request in the bytes, its body and what is left over; raises what the parser does."""
    protocol = BaseProtocol(loop)
    parser = HttpRequestParser(
        protocol, loop, 2**16, max_line_size=8190, max_field_size=8190, auto_decompress=False
    )
    protocol._parser = parser
    ((message, payload),), _, tail = parser.feed_data(raw)
    assert payload.is_eof()
    return message, payload.read_nowait(), tail


def agrees_with_aiohttp(plain: heads.Plain, raw: bytes, loop: asyncio.AbstractEventLoop) -> None:
    if not plain.is_whole:
        raw += b"x" * (plain.fields.body_bytes - len(plain.body))
    message, body, tail = as_aiohttp_reads(raw, loop)
    assert (message.method, message.path) == (plain.method, plain.target)
    assert body.startswith(plain.body)
    assert len(body) == plain.fields.body_bytes
    assert not tail
    assert (message.should_close, message.upgrade, message.chunked) == (False, False, False)
    sent = {name.title(): value for name, value in message.headers.items()}
    assert len(sent) == len(message.headers)
    if sent.get("Connection", "").lower() == "keep-alive":
        del sent["Connection"]
    assert plain.fields.values == sent


def test_a_usual_request_is_plain() -> None:
    plain = heads.read(PLAIN)
    assert plain is not None
    assert (plain.method, plain.body, plain.is_whole) == ("POST", b"{}", True)
    assert plain.target == "/api/v1/namespaces/default/pods?dryRun=All"
    assert plain.fields.values["Content-Type"] == "application/json"


def test_a_body_that_has_not_come_is_missed() -> None:
    plain = heads.read(PLAIN[:-1])
    assert plain is not None
    assert (plain.body, plain.is_whole) == (b"{", False)


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        (b"POST", b"TRACE"),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"/api", b"http://localhost/api"),
        (b"?", b"#"),
        (b"?", b"\xc3\xa9"),
        (b"Host", b"Hast"),
        (b"Host: localhost", b"Host: local\x00host"),
        (b"Host: localhost", b"Host: localhost\r\n folded"),
        (b"Host: localhost", b"Host: localhost\n"),
        (b"content-type", b"Content-Length"),
        (b"content-type:", b"content-type :"),
        (b"content-type: application/json", b"Transfer-Encoding: chunked"),
        (b"content-type: application/json", b"Expect: 100-continue"),
        (b"content-type: application/json", b"Connection: close"),
        (b"content-type: application/json", b"Upgrade: websocket"),
        (b"content-type: application/json", b"content-type: application/j\xc3\xb6son"),
        (b"content-type: application/json", b"X: " + b"x" * heads.HEAD_BYTES_MAX),
        (b"content-type", b"host"),
        (b"Length: 2", b"Length: 1"),
        (b"Length: 2", b"Length: -2"),
        (b"Length: 2", b"Length: 0x2"),
        (b"Length: 2", b"Length: 2, 2"),
        (b"{}", b"{}GET /"),
        (b"\r\n\r\n{}", b"\r\n"),
    ],
)
def test_what_is_unusual_is_not_plain(part: bytes, instead: bytes) -> None:
    assert PLAIN.count(part) >= 1
    assert heads.read(PLAIN.replace(part, instead, 1)) is None


def test_every_pair_of_odd_lines_is_left_or_read_as_aiohttp_reads_it(
    loop: asyncio.AbstractEventLoop,
) -> None:
    read = 0
    for first, second in itertools.product(PIECES, repeat=2):
        raw = b"GET /api HTTP/1.1\r\nHost: x\r\n%b\r\n%b\r\n\r\nabc" % (first, second)
        for candidate in (raw, raw[:-3]):
            plain = heads.read(candidate)
            if plain is not None:
                read += 1
                agrees_with_aiohttp(plain, candidate, loop)
    assert read > 40


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=8), body=st.binary(max_size=4))
def test_whatever_is_plain_is_read_as_aiohttp_reads_it(
    loop: asyncio.AbstractEventLoop, pieces: list[bytes], body: bytes
) -> None:
    head = b"\r\n".join([b"PUT /api HTTP/1.1", b"Host: x", *pieces[1:]])
    for raw in (b"".join(pieces), head + b"\r\n\r\n" + body):
        plain = heads.read(raw)
        if plain is not None:
            agrees_with_aiohttp(plain, raw, loop)
