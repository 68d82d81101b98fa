"""Who we say we are: the Authorization header, and keeping it fresh.

A token may live for an hour or be written anew into its file every few minutes, and an exec plugin
may take seconds to answer. So a header is kept until it is stale, renewed in a worker thread by
whoever needs it first while the others wait, and an old one is better than none: if renewal fails
the old header is sent on, and the server decides.

    fresh --- its time is up, or a 401 for this very header ---> stale
      ^                                                            |
      |   renewed                              next request: renew |
      +------------------------------------------------------------+
                     failed: keep the old header, try again in 10 s
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from scheduler.client.errors import KubeconfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scheduler.clock import Clock

logger = logging.getLogger(__name__)

#: How long to leave a failing plugin or file alone.
_RETRY_SECONDS: Final = 10.0

#: How long a token read from a file is used before the file is read again (client-go's period).
TOKEN_FILE_SECONDS: Final = 60.0


class Credentials(Protocol):
    """Where the Authorization header of a request comes from."""

    async def authorization(self) -> str | None:
        """The header for a request sent now; None sends none. Raises KubeconfigError."""
        ...

    def rejected(self, header: str | None) -> None:
        """The server answered 401 to this header: get another one for the next request."""
        ...


@dataclass(frozen=True)
class StaticCredentials:
    """A header that never changes: a fixed token, basic auth, or none at all."""

    header: str | None = None

    async def authorization(self) -> str | None:
        """The header."""
        return self.header

    def rejected(self, header: str | None) -> None:
        """There is no other."""


@dataclass(frozen=True)
class Credential:
    """A header, when it goes stale (epoch seconds), and a client certificate if there is one.

    `certificate` and `key` are PEM texts: an exec plugin may hand them out instead of a token.
    """

    header: str | None = None
    stale_at: float | None = None
    certificate: str = ""
    key: str = ""


class RenewedCredentials:
    """A header that has to be renewed now and then.

    `load` may block (it runs a program or reads a file) and is called once here, so that a broken
    set-up is known at the start. `use_certificate` is called from the event loop with every
    certificate that comes with a renewed header.
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
        """The header, renewed first if it is stale."""
        if self._is_stale():
            async with self._lock:
                if self._is_stale():
                    await self._renew()
        return self._current.header

    def rejected(self, header: str | None) -> None:
        """Renew before the next request, unless that has happened since `header` was sent."""
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
            logger.warning("credentials not renewed, going on with the old ones: %s", error)
            self._stale_at = self._clock.now() + _RETRY_SECONDS
            return
        self._current = renewed
        self._stale_at = renewed.stale_at


class TokenFile:
    """Reads a bearer token from a file that someone else keeps up to date; a `load` function."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def __call__(self) -> Credential:
        """The token as of now. Raises KubeconfigError naming the file."""
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise KubeconfigError(f"{self._path}: the token cannot be read: {error}") from error
        if not token:
            raise KubeconfigError(f"{self._path}: expected a token, the file is empty")
        return Credential(header=f"Bearer {token}", stale_at=self._clock.now() + TOKEN_FILE_SECONDS)
