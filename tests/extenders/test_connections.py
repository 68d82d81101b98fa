"""Connections to extenders that fail; the texts are those of Go's net/http."""

import asyncio
import base64
import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

import pytest

from conformance import extender as example
from scheduler.clock import SystemClock
from scheduler.config import ConfigError
from scheduler.extenders import HTTPExtenders
from scheduler.framework.extender import ExtenderError
from scheduler.testing import VirtualClock
from tests.extenders.running import config_of, running
from tests.extenders.test_http_extender import CERTIFICATE, FILTER, POD, cluster, error_of

TLS_FILES = Path(__file__).parents[1] / "client" / "tls"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
#: A fatal alert of TLS: the handshake fails.
ALERT = b"\x15\x03\x03\x00\x02\x02\x28"

End = Callable[[asyncio.StreamWriter], None]


def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def kept_open(writer: asyncio.StreamWriter) -> None:
    """The client waits for the rest."""


@contextlib.asynccontextmanager
async def answering(answer: bytes, end: End) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Run a server that answers these bytes; yield its address, and an event of an answer."""
    answered = asyncio.Event()
    writers: list[asyncio.StreamWriter] = []

    async def answer_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.read(100_000)
        writer.write(answer)
        await writer.drain()
        end(writer)
        answered.set()

    server = await asyncio.start_server(answer_one, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    yield f"{host}:{port}", answered
    server.close()
    for writer in writers:
        writer.close()


@pytest.mark.parametrize(
    ("scheme", "answer", "end", "text"),
    [
        ("http", b"", closed, 'Post "http://ADDRESS/filter": EOF'),
        ("http", HEAD + b"{", closed, 'Post "http://ADDRESS/filter": unexpected EOF'),
        (
            "http",
            b"",
            reset,
            'Post "http://ADDRESS/filter": read tcp ADDRESS: read: connection reset by peer',
        ),
        (
            "http",
            b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
            closed,
            "failed filter with extender at URL http://ADDRESS/filter, code 503",
        ),
        (
            "http",
            b"no HTTP\r\n\r\n",
            closed,
            'Post "http://ADDRESS/filter": 400, message="Bad status line',
        ),
        ("https", ALERT, closed, 'Post "https://ADDRESS/filter": tls: '),
    ],
)
async def test_an_answer_that_breaks_off_is_an_error_in_gos_words(
    scheme: str, answer: bytes, end: End, text: str
) -> None:
    async with answering(answer, end) as (address, _):
        config = config_of({**FILTER, "urlPrefix": f"{scheme}://{address}"})
        async with HTTPExtenders([config], clock=SystemClock(), environ={}) as extenders:
            with pytest.raises(ExtenderError) as failure:
                await extenders.in_order[0].filter(POD, cluster().nodes)
    assert str(failure.value).replace(address, "ADDRESS").startswith(text)


async def test_a_body_that_never_ends_is_a_timeout_while_reading_it() -> None:
    clock = VirtualClock()
    async with answering(HEAD, kept_open) as (address, answered):
        config = config_of({**FILTER, "urlPrefix": f"http://{address}", "httpTimeout": "30s"})
        async with HTTPExtenders([config], clock=clock, environ={}) as extenders:
            call = asyncio.ensure_future(extenders.in_order[0].filter(POD, cluster().nodes))
            await answered.wait()
            await asyncio.sleep(0.01)
            clock.advance_nowait(31)
            with pytest.raises(ExtenderError, match="cancellation while reading body"):
                await call


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://[::1", 'parse "http://[::1/filter": '),
        ("http:///x", 'Post "http:///x/filter": http: no Host in request URL'),
    ],
)
async def test_a_url_that_names_no_server_is_an_error(url: str, text: str) -> None:
    assert (await error_of({"urlPrefix": url})).startswith(text)


async def test_the_name_in_the_certificate_is_checked() -> None:
    tls = {"caFile": str(CERTIFICATE), "serverName": "other.example"}
    text = await error_of({"tlsConfig": tls}, tls="untrusted")
    assert "tls: failed to verify certificate: x509: Hostname mismatch" in text


def base64_of(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


async def test_a_client_certificate_is_presented() -> None:
    tls = {
        "insecure": True,
        "certData": base64_of(TLS_FILES / "client.pem"),
        "keyFile": str(TLS_FILES / "client.key"),
    }
    async with running({**FILTER, "tlsConfig": tls}, tls="untrusted") as (extender, _):
        assert len((await extender.filter(POD, cluster().nodes)).nodes) == 2


@pytest.mark.parametrize(
    ("tls", "text"),
    [
        (
            {
                "certData": base64_of(TLS_FILES / "client.pem"),
                "keyData": base64_of(Path(example.__file__).with_name("extender.pem")),
            },
            "tls: failed to load the client certificate: ",
        ),
        (
            {"caData": base64_of(TLS_FILES / "client.key")},
            "unable to load root certificates: no valid certificate authority data seen",
        ),
        (
            {"caData": base64.b64encode(b"-----BEGIN CERTIFICATE-----\nx\n").decode()},
            "unable to load root certificates: failed to parse certificate: ",
        ),
        ({"caFile": "/"}, "open /: is a directory"),
    ],
)
def test_certificates_that_cannot_be_used_are_an_error(tls: dict[str, Any], text: str) -> None:
    config = config_of({"urlPrefix": "https://x", "tlsConfig": tls})
    with pytest.raises(ConfigError) as refusal:
        HTTPExtenders([config], clock=SystemClock(), environ={})
    assert str(refusal.value).startswith(f"couldn't build extenders: {text}")


async def test_a_client_must_be_open() -> None:
    extenders = HTTPExtenders(
        [config_of({**FILTER, "urlPrefix": "http://x"})], clock=SystemClock(), environ={}
    )
    with pytest.raises(RuntimeError, match="not open"):
        await extenders.in_order[0].filter(POD, cluster().nodes)
