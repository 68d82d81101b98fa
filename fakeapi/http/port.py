"""The port of a server; it may be closed for a while and opened again."""

from __future__ import annotations

import asyncio
import contextvars
import os
import socket
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeapi.http.connections import break_off

if TYPE_CHECKING:
    import ssl

    from aiohttp import web

_BACKLOG: Final = 128
#: Seconds for the client to close a TLS connection.
_GOODBYE_SECONDS: Final = 0.25

#: The connection that this task answers, if it outlives an outage.
_kept: Final[contextvars.ContextVar[asyncio.BaseTransport | None]] = contextvars.ContextVar(
    "kept", default=None
)


def keep(transport: asyncio.BaseTransport | None) -> None:
    """Exempt a connection from `drop_connections` calls of this task, which answers it."""
    _kept.set(transport)


class _Address(NamedTuple):
    family: socket.AddressFamily
    name: tuple[str, int] | tuple[str, int, int, int]


class Port:
    """The listening sockets of a server, and the connections accepted from them."""

    def __init__(
        self, connections: web.Server, host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> None:
        self._connections = connections
        # A client that does not close its connection must not delay the end of the server.
        self._wrapping: dict[str, Any] = (
            {} if tls is None else {"ssl": tls, "ssl_shutdown_timeout": _GOODBYE_SECONDS}
        )
        self._host = host
        self._port = port
        self._servers: list[asyncio.Server] = []
        self._addresses: list[_Address] = []
        self._opening: asyncio.Task[None] | None = None
        #: Listening sockets from which no server accepts yet.
        self._waiting: list[socket.socket] = []

    @property
    def number(self) -> int:
        return self._port

    @property
    def address(self) -> str:
        """The IP address of the first socket, once it is open."""
        return self._addresses[0].name[0]

    async def open(self) -> None:
        """Start to listen. Raises OSError if the address is not available."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                self._connections, self._host, self._port, **self._wrapping
            )
        except OSError as error:
            reason = error.strerror
            if error.errno is not None and not isinstance(error, socket.gaierror):
                reason = os.strerror(error.errno).lower()  # without asyncio's words around it
            place = f"{self._host}:{self._port}"
            raise OSError(error.errno, f"listen on {place}: {reason}") from error
        self._servers = [server]
        sockets = server.sockets
        self._port = sockets[0].getsockname()[1]
        self._addresses = [_Address(sock.family, sock.getsockname()) for sock in sockets]

    def close(self) -> None:
        """Refuse connections from now on."""
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        while self._waiting:
            self._waiting.pop().close()
        for server in self._servers:
            server.close()

    def reopen(self) -> None:
        """Listen again, at once; connections are accepted as soon as tasks run."""
        self._waiting = [_listening_socket(address) for address in self._addresses]
        self._opening = asyncio.ensure_future(self._accept())

    def drop_connections(self) -> None:
        """Reset all connections except the one passed to `keep`."""
        kept = _kept.get()
        for handler in list(self._connections.connections):
            transport = handler.transport
            if transport is not None and transport is not kept:
                break_off(transport, reset=True)

    async def closed(self) -> None:
        """Wait until the sockets are closed."""
        for server in self._servers:
            await server.wait_closed()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        self._servers = []
        while self._waiting:
            sock = self._waiting[-1]
            server = await loop.create_server(
                self._connections, sock=sock, start_serving=False, **self._wrapping
            )
            self._servers.append(server)
            self._waiting.pop()
            await server.start_serving()


def _listening_socket(address: _Address) -> socket.socket:
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if address.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.setblocking(False)
    sock.bind(address.name)
    sock.listen(_BACKLOG)
    return sock
