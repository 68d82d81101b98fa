"""Requests to one extender: its URL, TLS, timeout, and the texts of errors.

The texts appear in conditions of pods, so they are the texts of Go's `net/http`, as far as Python
has the same facts.
Source: `makeTransport` and `send` in `pkg/scheduler/extender.go`, client-go
`transport/transport.go` (`TLSConfigFor`).
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import ssl
import tempfile
from typing import TYPE_CHECKING, Final

import aiohttp
from yarl import URL

from scheduler.client.connection import proxy_from_environment, tls_context
from scheduler.clock import wait_for
from scheduler.config import ConfigError, ExtenderTLSConfig
from scheduler.framework.extender import ExtenderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.clock import Clock
    from scheduler.config import Extender

_log: Final = logging.getLogger(__name__)

_NO_TLS: Final = ExtenderTLSConfig()

#: Go keeps idle connections for 90 s; a client that closes first never sees a reset.
_IDLE_SECONDS: Final = 60.0

#: A negative timeout is none in Go; here it is a day.
_NO_TIMEOUT_SECONDS: Final = 86_400.0

_TIMEOUT: Final = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_TIMEOUT_IN_BODY: Final = (
    "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
)
_RESETS: Final = frozenset({errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED})

#: OpenSSL's codes of certificates whose issuer is not trusted.
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21})


class HTTPClient:
    """Sends requests to one extender; an async context manager.

    `environ` may contain proxy variables. Raises `ConfigError` for a TLS configuration that cannot
    work.
    """

    def __init__(self, config: Extender, *, clock: Clock, environ: Mapping[str, str]) -> None:
        self._prefix: Final = config.url_prefix.rstrip("/")
        seconds = config.http_timeout.seconds
        self._timeout_seconds: Final = seconds if seconds > 0 else _NO_TIMEOUT_SECONDS
        self._clock: Final = clock
        self._environ: Final = environ
        self._tls: Final = _Tls(config)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> HTTPClient:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            headers={"User-Agent": "Go-http-client/1.1", "Accept-Encoding": "gzip"},
            skip_auto_headers=("Accept",),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(self, verb: str, body: bytes) -> bytes:
        """Send a request and return the body of its answer. Raises `ExtenderError`."""
        text = f"{self._prefix}/{verb}"
        url = _parsed(text)
        exchange = _Exchange(self._entered(), url, body)
        try:
            work = exchange.run(tls=self._tls, proxy=proxy_from_environment(text, self._environ))
            status, answer = await wait_for(work, self._timeout_seconds, self._clock)
        except TimeoutError as error:
            if exchange.has_headers:
                raise ExtenderError(_TIMEOUT_IN_BODY) from error
            raise _failed(url, _TIMEOUT) from error
        except (aiohttp.ClientError, OSError) as error:
            raise _failed(url, _go_text(error, url)) from error
        if status != 200:
            raise ExtenderError(f"failed {verb} with extender at URL {text}, code {status}")
        return answer

    def _entered(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the client is not open: use it as an async context manager")
        return self._session


class _Exchange:
    """One request and its answer. `has_headers` is true once the answer has begun."""

    def __init__(self, session: aiohttp.ClientSession, url: URL, body: bytes) -> None:
        self._session: Final = session
        self._url: Final = url
        self._body: Final = body
        self.has_headers = False

    async def run(self, *, tls: _Tls, proxy: str | None) -> tuple[int, bytes]:
        async with self._session.post(
            self._url,
            data=self._body,
            headers={"Content-Type": "application/json"},
            ssl=tls.context() if self._url.scheme == "https" else True,
            server_hostname=tls.server_name,
            proxy=proxy,
        ) as response:
            self.has_headers = True
            body = await response.read() if response.status == 200 else b""
            return response.status, body


class _Tls:
    """The TLS context of an extender, read again when one of its files has changed."""

    def __init__(self, config: Extender) -> None:
        self._config: Final = config.tls_config or _NO_TLS
        has_ca = bool(self._config.ca_file or self._config.ca_data)
        self._is_insecure: Final = self._config.insecure or (config.enable_https and not has_ca)
        self.server_name: Final = self._config.server_name or None
        if has_ca and self._is_insecure:
            raise ConfigError(
                "couldn't build extenders: "
                "specifying a root certificates file with the insecure flag is not allowed"
            )
        try:
            self._read_at = self._changed_at()
            self._context = self._new_context()
        except ValueError as error:
            raise ConfigError(f"couldn't build extenders: {error}") from error

    def context(self) -> ssl.SSLContext:
        """Return the context; if the files cannot be read any more, the one from before."""
        try:
            changed_at = self._changed_at()
            if changed_at != self._read_at:
                self._context, self._read_at = self._new_context(), changed_at
        except ValueError as error:
            _log.error("Reading the TLS files of an extender failed: %s", error)
        return self._context

    def _changed_at(self) -> list[int]:
        config = self._config
        files = (
            (config.ca_file, config.ca_data),
            (config.cert_file, config.cert_data),
            (config.key_file, config.key_data),
        )
        return [_changed_at(file) for file, data in files if file and not data]

    def _new_context(self) -> ssl.SSLContext:
        """Return a new context. Raises ValueError."""
        config = self._config
        if config == _NO_TLS:
            return _plain_context(verify=not self._is_insecure)
        ca_data = _data(config.ca_data, config.ca_file)
        try:
            context = tls_context(
                ca_data=ca_data.decode("ascii", "replace") if ca_data else None,
                verify=not self._is_insecure,
            )
        except (OSError, ValueError) as error:
            text = f"unable to load root certificates: {_ca_problem(ca_data, error)}"
            raise ValueError(text) from error
        cert_data = _data(config.cert_data, config.cert_file)
        key_data = _data(config.key_data, config.key_file)
        if cert_data and key_data:
            _use_certificate(context, cert_data, key_data)
        return context


@functools.cache  # reading the machine's authorities takes longer than building a profile
def _plain_context(*, verify: bool) -> ssl.SSLContext:
    """Return the context of extenders without TLS files of their own."""
    return tls_context(verify=verify)


def _changed_at(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError as error:
        raise ValueError(_file_problem("open", file, error)) from error


def _data(data: bytes, file: str) -> bytes:
    if data or not file:
        return data
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError as error:
        raise ValueError(_file_problem("open", file, error)) from error


def _file_problem(verb: str, file: str, error: OSError) -> str:
    return f"{verb} {file}: {(error.strerror or str(error)).lower()}"


def _ca_problem(data: bytes, error: Exception) -> str:
    if b"-----BEGIN" not in data:
        return "unable to parse bytes as PEM block"
    if b"-----BEGIN CERTIFICATE-----" not in data:
        return "no valid certificate authority data seen"
    return f"failed to parse certificate: {error}"


def _use_certificate(context: ssl.SSLContext, cert_data: bytes, key_data: bytes) -> None:
    """Load a client certificate, by a file: the ssl module reads no other."""
    with tempfile.NamedTemporaryFile(suffix=".pem") as pem:
        pem.write(cert_data + b"\n" + key_data + b"\n")
        pem.flush()
        try:
            context.load_cert_chain(pem.name)
        except ssl.SSLError as error:
            raise ValueError(f"tls: failed to load the client certificate: {error}") from error


def _parsed(text: str) -> URL:
    try:
        url = URL(text)
    except ValueError as error:
        raise ExtenderError(f'parse "{text}": {error}') from error
    if url.scheme not in {"http", "https"}:
        raise _failed(url, f'unsupported protocol scheme "{url.scheme}"')
    if not url.host:
        raise _failed(url, "http: no Host in request URL")
    return url


def _failed(url: URL, text: str) -> ExtenderError:
    """Return the error of a request that got no answer, without the URL's password."""
    shown = str(url)
    if url.password is not None:
        shown = shown.replace(f":{url.raw_password}@", ":***@")
    return ExtenderError(f'Post "{shown}": {text}')


def _go_text(error: Exception, url: URL) -> str:
    """Return an error of aiohttp in the words of Go's net/http."""
    address = f"{url.host}:{url.port}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: {_certificate_problem(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        if getattr(error.os_error, "reason", "") in {
            "WRONG_VERSION_NUMBER",
            "RECORD_LAYER_FAILURE",
        }:
            return "http: server gave HTTP response to HTTPS client"
        return f"tls: {error.os_error}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {url.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        reason = os.strerror(number).lower() if number else str(error.os_error)
        return f"dial tcp {address}: connect: {reason}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "unexpected EOF"
    if isinstance(error, OSError) and error.errno in _RESETS:
        return f"read tcp {address}: read: connection reset by peer"
    return " ".join(str(error).split()) or type(error).__name__


def _certificate_problem(error: Exception) -> str:
    assert isinstance(error, ssl.SSLCertVerificationError)
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return "x509: certificate signed by unknown authority"
    return f"x509: {error.verify_message}"
