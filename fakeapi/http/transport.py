"""How connections break."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    import asyncio

__all__ = ["Broken", "break_off", "broken"]

#: On, and no time to send what is still to be sent: the kernel resets the connection.
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Broken(web.StreamResponse):
    """The response of a request that gets none, as its connection is gone."""


def broken(http: web.BaseRequest, *, reset: bool) -> web.StreamResponse:
    """Break a request's connection off, and stand in for the response."""
    if http.transport is not None:
        break_off(http.transport, reset=reset)
    return Broken()


def break_off(transport: asyncio.BaseTransport, *, reset: bool) -> None:
    """End a connection: by a reset (RST), or as if it had been closed (FIN)."""
    sock = transport.get_extra_info("socket")
    if reset and sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    abort = getattr(transport, "abort", transport.close)
    abort()
