"""The server itself: accepts connections, lets the right ones ask, answers, and stops in time.

    request -> who is it? -> may they? -> endpoints
                 401           403, 500

A fault in an endpoint is an answer of 500 and a traceback in the log, and never the end of the
process. Source: kube-scheduler `app/server.go` (`buildHandlerChain`), apiserver
`endpoints/filters`, `server/secure_serving.go`, `server/filters/wrap.go`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web

from scheduler.api.field import quoted
from scheduler.serving.errors import AuthenticationError, AuthorizationError
from scheduler.serving.listener import address_text
from scheduler.serving.replies import error_reply, sanitized, status_reply

if TYPE_CHECKING:
    import socket
    import ssl

    from scheduler.serving.authentication import Authenticator
    from scheduler.serving.authorization import Authorizer
    from scheduler.serving.endpoints import Endpoints

_log: Final = logging.getLogger("kubesched")

#: How long a connection may lie idle, and how long a started answer may take at the end.
_IDLE_SECONDS: Final = 90.0
_SHUTDOWN_SECONDS: Final = 5.0
#: Go's servers take headers up to this size; tokens can be long.
_HEADER_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True)
class Gate:
    """Who lets requests in."""

    authenticator: Authenticator
    authorizer: Authorizer

    async def refusal(self, request: web.BaseRequest) -> web.Response | None:
        """The answer to a request that may not pass; None if it may."""
        try:
            user = await self.authenticator.user(request)
        except AuthenticationError as error:
            _log.error("Unable to authenticate the request: %s", error)
            return status_reply(request, code=401, reason="Unauthorized", message="Unauthorized")
        verb, path = request.method.lower(), request.path
        try:
            decision = await self.authorizer.decide(user, verb=verb, path=path)
        except AuthorizationError as error:
            text = f"Internal Server Error: {quoted(request.raw_path)}: {error}"
            return error_reply(sanitized(text), status=500)
        if decision.allowed:
            return None
        said = f"User {quoted(user.name)} cannot {verb} path {quoted(path)}"
        message = f"forbidden: {sanitized(said)}"
        if decision.reason:
            message += f": {decision.reason}"
        return status_reply(request, code=403, reason="Forbidden", message=message, details={})


class SchedulerServer:
    """Serves the endpoints on a socket that listens already; an async context manager.

    Without `tls` it speaks plain HTTP, and without `gate` everybody may ask: for tests only.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        listener: socket.socket,
        *,
        tls: ssl.SSLContext | None = None,
        gate: Gate | None = None,
    ) -> None:
        self._endpoints: Final = endpoints
        self._listener: Final = listener
        self._tls: Final = tls
        self._gate: Final = gate
        self._stack: Final = contextlib.AsyncExitStack()
        #: Where to ask, from this machine.
        self.url: Final = _url(listener, scheme="https" if tls else "http")

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
            _log.info("Serving securely on %s", address_text(self._listener))
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            if self._gate is not None and (refusal := await self._gate.refusal(request)):
                return refusal
            return self._endpoints.answer(request)
        except Exception:
            _log.exception("answering %s %s", request.method, request.raw_path)
            text = "This request caused apiserver to panic. Look in the logs for details."
            return error_reply(text, status=500)


def _url(listener: socket.socket, *, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:
        host = "127.0.0.1"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
