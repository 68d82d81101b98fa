"""The listening socket, bound before anything else starts: a port that is taken is known at once.

As in Go, `0.0.0.0` and `::` mean every address of either family, and a port may be bound again
while connections of an earlier process still linger.
Source: apiserver `options/serving.go` (`CreateListener`), Go `net/ipsock_posix.go`.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
from typing import Final

from scheduler.serving.errors import ServingError

_BACKLOG: Final = 128


def create_listener(host: str, port: int | None) -> socket.socket:
    """A socket that listens; None for the port takes a free one.

    Raises ServingError in upstream's words, and for a port that is taken says what helps.
    """
    address = ipaddress.ip_address(host)
    try:
        if address.is_unspecified and socket.has_dualstack_ipv6():
            return _bound(socket.AF_INET6, "::", port or 0)
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        return _bound(family, host, port or 0)
    except OSError as error:
        where = _joined(host, port or 0)
        words = os.strerror(error.errno).lower() if error.errno else str(error)
        text = f"failed to create listener: failed to listen on {where}: listen tcp {where}: "
        text += f"bind: {words}"
        if error.errno == errno.EADDRINUSE:
            text += "; is another scheduler running? --secure-port 0 serves nothing"
        raise ServingError(text) from error


def address_text(listener: socket.socket) -> str:
    """The address as `Serving securely on` shows it: `127.0.0.1:10259`, `[::]:10259`."""
    host, port = listener.getsockname()[:2]
    return _joined(host, port)


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            only_ipv6 = not ipaddress.ip_address(host).is_unspecified
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(only_ipv6))
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        stack.pop_all()
        return listener


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
