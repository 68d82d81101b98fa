"""Clients that do not read: their lists share memory, and they are disconnected after a while."""

import asyncio
import contextlib
import socket
import tracemalloc
from collections.abc import AsyncIterator, Iterator

import pytest

from fakeapi import FakeApiServer, ManualClock, ServerOptions

from ..api_client import ApiClient, eventually
from ..objects import CONFIG_MAPS, config_map

#: More than the kernel buffers for a client that does not read.
LIST_BYTES = 8_000_000
OBJECT_BYTES = 500_000
READERS = 10
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"namespace": "default", "name": "late"},
}


@pytest.fixture
async def server(clock: ManualClock) -> AsyncIterator[FakeApiServer]:
    maps = [
        {"apiVersion": "v1", "kind": "ConfigMap", **config_map(f"c{n}", {"k": "x" * OBJECT_BYTES})}
        for n in range(LIST_BYTES // OBJECT_BYTES)
    ]
    options = ServerOptions(write_timeout_seconds=30.0)
    async with FakeApiServer(clock=clock, load=maps, options=options) as running:
        yield running


@pytest.fixture
def sockets() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


async def ask(server: FakeApiServer, path: str, sockets: contextlib.ExitStack) -> socket.socket:
    """Return a connection that has sent a request and reads nothing by itself."""
    connection = sockets.enter_context(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, ("127.0.0.1", server.port))
    await loop.sock_sendall(connection, f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    return connection


async def read(connection: socket.socket) -> bytes:
    """Return the whole response of a connection that the server keeps open."""
    loop = asyncio.get_running_loop()
    received = bytearray()
    while b"\r\n\r\n" not in received:
        received += await loop.sock_recv(connection, 1 << 20)
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    received = bytearray(body)
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
    while len(received) < int(length.partition(b":")[2]):
        part = await loop.sock_recv(connection, 1 << 20)
        assert part, "the response is incomplete"
        received += part
    return bytes(received)


async def test_equal_lists_that_clients_do_not_read_share_their_memory(
    server: FakeApiServer, sockets: contextlib.ExitStack
) -> None:
    await read(await ask(server, CONFIG_MAPS, sockets))  # the store keeps encoded objects
    tracemalloc.start()
    try:
        unread = [await ask(server, CONFIG_MAPS, sockets) for _ in range(READERS)]
        await eventually(lambda: server.statistics().requests_total == 1 + READERS)
        await asyncio.sleep(0.01)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * LIST_BYTES
    assert peak < 4 * LIST_BYTES
    bodies = {await read(connection) for connection in unread[:2]}
    assert len(bodies) == 1
    assert bodies.pop().count(b'"resourceVersion"') == LIST_BYTES // OBJECT_BYTES + 1


async def test_a_list_of_another_version_is_its_own(
    server: FakeApiServer, sockets: contextlib.ExitStack, api: ApiClient
) -> None:
    first = await ask(server, CONFIG_MAPS, sockets)
    await eventually(lambda: server.statistics().requests_total == 1)
    patch = {"data": {"k": "y" * OBJECT_BYTES}}
    await api.patch(f"{CONFIG_MAPS}/c0", patch)
    second = await ask(server, CONFIG_MAPS, sockets)
    assert b"yyy" in await read(second)
    assert b"yyy" not in await read(first)


async def test_a_client_that_does_not_read_its_list_is_disconnected(
    server: FakeApiServer, clock: ManualClock, sockets: contextlib.ExitStack
) -> None:
    connection = await ask(server, CONFIG_MAPS, sockets)
    await eventually(lambda: server.statistics().requests_total == 1)
    await asyncio.sleep(0.01)
    clock.advance(31)
    with pytest.raises((ConnectionResetError, AssertionError)):
        await read(connection)


async def test_a_client_that_reads_in_time_gets_all_of_its_list(
    server: FakeApiServer, clock: ManualClock, sockets: contextlib.ExitStack
) -> None:
    connection = await ask(server, CONFIG_MAPS, sockets)
    await eventually(lambda: server.statistics().requests_total == 1)
    await asyncio.sleep(0.01)
    clock.advance(29)
    whole = await read(connection)
    clock.advance(31)  # an idle connection is no client that does not read
    assert len(whole) > LIST_BYTES
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, b"GET /version HTTP/1.1\r\nHost: h\r\n\r\n")
    assert b'"v1.36.3"' in await read(connection)


async def test_a_watch_that_its_client_does_not_read_ends(
    server: FakeApiServer, clock: ManualClock, sockets: contextlib.ExitStack
) -> None:
    await ask(server, f"{CONFIG_MAPS}?watch=true&resourceVersion=0", sockets)
    await eventually(lambda: server.statistics().watchers == 1)
    await asyncio.sleep(0.01)
    clock.advance(31)
    await eventually(lambda: server.statistics().watchers == 0)


async def test_a_client_that_leaves_as_a_change_comes_is_no_error(
    server: FakeApiServer, sockets: contextlib.ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await ask(server, f"{LEASES}?watch=true", sockets)
    await eventually(lambda: server.statistics().watchers == 1)
    connection.shutdown(socket.SHUT_WR)
    await asyncio.sleep(0)
    # The watch is woken in the turn of the loop in which the server reads that the client left.
    server.load([LEASE])
    await eventually(lambda: server.statistics().watchers == 0)
    assert not caplog.records
