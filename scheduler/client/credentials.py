"""Credentials: the Authorization header, its renewal, and exec plugins.

A token may live for an hour or be rewritten in its file every few minutes, and an exec plugin may
take seconds. So a header is cached until it is stale. The first request that needs a new one renews
it in a worker thread, while other requests wait. If the renewal fails, requests keep the old
header, and the server decides.

    fresh --- it has expired, or a 401 for this header --------> stale
      ^                                                            |
      |   renewed                              next request: renew |
      +------------------------------------------------------------+
                     failed: keep the old header, try again in 10 s

The official `kubernetes` package runs an exec plugin and checks the form of its answer.
`ExecPlugin` adds, as kubectl does: an error for an answer with neither a token nor a certificate,
the author's hint for a missing program, and the expiry.
Source: client-go `plugin/pkg/client/auth/exec/exec.go`, and "client-go credential plugins" in the
Kubernetes documentation.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from scheduler.client.errors import KubeconfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scheduler.clock import Clock

_log: Final = logging.getLogger(__name__)

#: The delay before a failed renewal is retried.
_RETRY_SECONDS: Final = 10.0

#: How long a token from a file is used before the file is read again (client-go's period).
TOKEN_FILE_SECONDS: Final = 60.0


class Credentials(Protocol):
    """The source of the Authorization header."""

    async def authorization(self) -> str | None:
        """Return the header for a request now, None for none. Raises KubeconfigError."""

    def rejected(self, header: str | None) -> None:
        """Renew the header before the next request, because the server answered 401 to it."""


@dataclass(frozen=True)
class StaticCredentials:
    """A constant header: a token, basic auth, or none."""

    header: str | None = None

    async def authorization(self) -> str | None:
        return self.header

    def rejected(self, header: str | None) -> None:
        """Do nothing, as there is no other header."""


@dataclass(frozen=True)
class Credential:
    """A header, when it becomes stale (epoch seconds), and a client certificate, if any.

    `certificate` and `key` are PEM texts: an exec plugin may return them instead of a token.
    """

    header: str | None = None
    stale_at: float | None = None
    certificate: str = ""
    key: str = ""


class RenewedCredentials:
    """A header that has to be renewed.

    `load` may block (it runs a program or reads a file). A first call here detects a broken
    configuration at the start. `use_certificate` is called in the event loop after every renewal.
    """

    def __init__(
        self,
        load: Callable[[], Credential],
        *,
        clock: Clock,
        use_certificate: Callable[[Credential], None] | None = None,
    ) -> None:
        self._load = load
        self._clock = clock
        self._use_certificate = use_certificate
        self._lock = asyncio.Lock()
        self._current = load()
        self._stale_at = self._current.stale_at
        if use_certificate is not None:
            use_certificate(self._current)

    async def authorization(self) -> str | None:
        """Return the header, after a renewal if it is stale."""
        if self._is_stale():
            async with self._lock:
                if self._is_stale():
                    await self._renew()
        return self._current.header

    def rejected(self, header: str | None) -> None:
        """Renew before the next request, unless `header` was renewed since."""
        if header == self._current.header:
            self._stale_at = self._clock.now()

    def _is_stale(self) -> bool:
        return self._stale_at is not None and self._clock.now() >= self._stale_at

    async def _renew(self) -> None:
        try:
            renewed = await asyncio.to_thread(self._load)
            if self._use_certificate is not None:
                self._use_certificate(renewed)
        except KubeconfigError as error:
            _log.warning("credentials not renewed, going on with the old ones: %s", error)
            self._stale_at = self._clock.now() + _RETRY_SECONDS
            return
        self._current = renewed
        self._stale_at = renewed.stale_at


class TokenFile:
    """Reads a bearer token from a file; a `load` function."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def __call__(self) -> Credential:
        """Read the token. Raises KubeconfigError, which names the file."""
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise KubeconfigError(f"{self._path}: the token cannot be read: {error}") from error
        if not token:
            raise KubeconfigError(f"{self._path}: expected a token, the file is empty")
        return Credential(header=f"Bearer {token}", stale_at=self._clock.now() + TOKEN_FILE_SECONDS)


class ExecPlugin:
    """Runs the exec plugin of one kubeconfig user; a `load` function.

    `source`, the file and the user, begins every error. A relative command is relative to
    `directory`, the directory of the kubeconfig.
    """

    def __init__(
        self, config: object, *, cluster: dict[str, Any], directory: Path, source: str
    ) -> None:
        self._source = f"{source}: exec"
        if not isinstance(config, dict):
            raise KubeconfigError(f"{self._source}: expected a mapping")
        package: Any = importlib.import_module("kubernetes.config.kube_config")
        self._command = str(config.get("command"))
        self._hint = str(config.get("installHint") or "")
        try:
            self._provider: Any = package.ExecProvider(
                package.ConfigNode("exec", config),
                str(directory),
                package.ConfigNode("cluster", cluster),
            )
        except Exception as error:  # the package raises whatever comes up
            raise self._failure(error) from error

    def __call__(self) -> Credential:
        """Run the plugin. Raises KubeconfigError."""
        try:
            status: object = self._provider.run()
        except FileNotFoundError as error:
            hint = f"; {self._hint}" if self._hint else ""
            raise KubeconfigError(
                f"{self._source}: there is no program {self._command!r}{hint}"
            ) from error
        except Exception as error:  # the package raises whatever comes up
            raise self._failure(error) from error
        if not isinstance(status, dict):
            raise KubeconfigError(f"{self._source}: expected the plugin to answer with a status")
        return self._credential(status)

    def _credential(self, status: dict[str, object]) -> Credential:
        token, certificate, key, expiry = (
            str(status.get(name) or "")
            for name in ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp")
        )
        if not token and not certificate and not key:
            raise KubeconfigError(
                f"{self._source}: expected a token or a certificate from the plugin"
            )
        if bool(certificate) != bool(key):
            raise KubeconfigError(
                f"{self._source}: expected the plugin to answer with a certificate and its key"
            )
        return Credential(
            header=f"Bearer {token}" if token else None,
            stale_at=self._epoch_seconds(expiry) if expiry else None,
            certificate=certificate,
            key=key,
        )

    def _epoch_seconds(self, text: str) -> float:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise KubeconfigError(
                f"{self._source}: expirationTimestamp: expected a time, got {text!r}"
            ) from error
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    def _failure(self, error: Exception) -> KubeconfigError:
        return KubeconfigError(f"{self._source}: {' '.join(str(error).split())}")
