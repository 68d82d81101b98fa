"""The HTTP server of the port: its socket, access control, and its end.

    request -> authentication -> authorization -> endpoints
                    401             403, 500

An exception in an endpoint is answered with 500 and logged; the process goes on.
Source: kube-scheduler `app/server.go` (`buildHandlerChain`), apiserver `endpoints/filters`,
`server/secure_serving.go`, `server/filters/wrap.go`, `options/serving.go` (`CreateListener`), Go
`net/ipsock_posix.go`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web

from scheduler.api.field import quoted
from scheduler.serving.authentication import AuthenticationError
from scheduler.serving.authorization import AuthorizationError
from scheduler.serving.options import ServingError
from scheduler.serving.replies import error_reply, sanitized, status_reply

if TYPE_CHECKING:
    import ssl

    from scheduler.serving.authentication import Authenticator
    from scheduler.serving.authorization import Authorizer
    from scheduler.serving.endpoints import Endpoints

_log: Final = logging.getLogger(__name__)

_BACKLOG: Final = 128
#: The limits of an idle connection, and of a started answer when the server stops.
_IDLE_SECONDS: Final = 90.0
_SHUTDOWN_SECONDS: Final = 5.0
#: The limit of Go's servers; tokens can be long.
_HEADER_BYTES_MAX: Final = 1 << 20


def create_listener(
    host: str, port: int | None, *, permit_port_sharing: bool = False
) -> socket.socket:
    """Return a listening socket; None for the port takes a free one.

    With `permit_port_sharing` several processes may listen on one port.

    As in Go, `0.0.0.0` and `::` mean every address of either family, and a port may be bound while
    connections of an earlier process still linger. Raises ServingError with upstream's text.
    """
    address = ipaddress.ip_address(host)
    try:
        if address.is_unspecified and socket.has_dualstack_ipv6():
            return _bind(socket.AF_INET6, "::", port or 0, permit_port_sharing=permit_port_sharing)
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        return _bind(family, host, port or 0, permit_port_sharing=permit_port_sharing)
    except OSError as error:
        where = _address_text(host, port or 0)
        words = os.strerror(error.errno).lower() if error.errno else str(error)
        text = f"failed to create listener: failed to listen on {where}: listen tcp {where}: "
        text += f"bind: {words}"
        if error.errno == errno.EADDRINUSE:
            text += "; is another scheduler running? --secure-port 0 serves nothing"
        raise ServingError(text) from error


def _bind(
    family: socket.AddressFamily, host: str, port: int, *, permit_port_sharing: bool
) -> socket.socket:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if permit_port_sharing:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            only_ipv6 = not ipaddress.ip_address(host).is_unspecified
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(only_ipv6))
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        stack.pop_all()
        return listener


def _address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class AccessControl:
    """Authenticates and authorizes requests."""

    authenticator: Authenticator
    authorizer: Authorizer

    async def refusal(self, request: web.BaseRequest) -> web.Response | None:
        """Return the refusal of a request; None if the request is allowed."""
        try:
            user = await self.authenticator.user(request)
        except AuthenticationError as error:
            _log.error("Unable to authenticate the request", {"err": error})
            return status_reply(request, code=401, reason="Unauthorized", message="Unauthorized")
        verb, path = request.method.lower(), request.path
        try:
            review = await self.authorizer.review(user, verb=verb, path=path)
        except AuthorizationError as error:
            text = f"Internal Server Error: {quoted(request.raw_path)}: {error}"
            return error_reply(sanitized(text), status=500)
        if review.allowed:
            return None
        attempt = f"User {quoted(user.name)} cannot {verb} path {quoted(path)}"
        message = f"forbidden: {sanitized(attempt)}"
        if review.reason:
            message += f": {review.reason}"
        return status_reply(request, code=403, reason="Forbidden", message=message, details={})


class SchedulerServer:
    """Serves the endpoints on a listening socket; an async context manager.

    Without `tls` it is plain HTTP, and without `access` open to all: for tests only.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        listener: socket.socket,
        *,
        tls: ssl.SSLContext | None = None,
        access: AccessControl | None = None,
    ) -> None:
        self._endpoints: Final = endpoints
        self._listener: Final = listener
        self._tls: Final = tls
        self._access: Final = access
        self._stack: Final = contextlib.AsyncExitStack()
        host, port = listener.getsockname()[:2]
        self._address: Final = _address_text(host, port)
        reachable = "127.0.0.1" if host in {"0.0.0.0", "::"} else host  # noqa: S104 - compared only
        #: The URL for clients on this machine.
        self.url: Final = f"{'https' if tls else 'http'}://{_address_text(reachable, port)}"

    async def __aenter__(self) -> SchedulerServer:
        self._stack.callback(self._listener.close)
        web_server = web.Server(
            self._answer,
            keepalive_timeout=_IDLE_SECONDS,
            max_field_size=_HEADER_BYTES_MAX,
            access_log=None,
        )
        self._stack.push_async_callback(web_server.shutdown, _SHUTDOWN_SECONDS)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(web_server, sock=self._listener, ssl=self._tls)
        self._stack.callback(server.close)
        if self._tls is not None:
            _log.info("Serving securely on %s", self._address)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            if self._access is not None and (refusal := await self._access.refusal(request)):
                return refusal
            return await self._endpoints.answer(request)
        except Exception:  # noqa: BLE001 - every request has an answer
            _log.exception("answering %s %s", request.method, request.raw_path)
            text = "This request caused apiserver to panic. Look in the logs for details."
            return error_reply(text, status=500)
