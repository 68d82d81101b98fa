"""TLS to one API server: the context for new connections, by files that may change.

The files with the server's certificate authority and the client's certificate are read again before
a request, at most every five minutes. A context of Python's `ssl` cannot forget an authority, so
that other content needs another context. aiohttp reuses the connections of the same context only:
requests and watches under way go on, and a connection that is idle is closed after a minute.

Source: client-go `transport/{ca,cert}_rotation.go`.
"""

from __future__ import annotations

import logging
import ssl
import tempfile
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.client.errors import KubeconfigError
from scheduler.klog import V1, V4

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_log: Final = logging.getLogger(__name__)

#: The feature gate by which the scheduler follows the file.
CA_ROTATION: Final = "ClientsAllowCARotation"
_PERIOD_SECONDS: Final = 300.0


class Reload(NamedTuple):
    """The result of reading a file again, `success` or `failure`, with the reason."""

    result: str
    reason: str


class ClientTls:
    """TLS to one API server: `context` is for new connections.

    `make` returns a context by the files of now. The changes of the file `authority` are followed,
    and those of `certificate`, the files of the client's certificate and its key.
    """

    def __init__(
        self,
        make: Callable[[], ssl.SSLContext],
        *,
        authority: Path | None = None,
        certificate: tuple[Path, ...] = (),
    ) -> None:
        self._make: Final = make
        self._authority: Final = authority
        self._content = b"" if authority is None else authority.read_bytes()
        self._read_at_seconds: float | None = None
        self._certificate_pair = ""
        self.context = make()
        self._certificate: Final = certificate
        self._certificate_content = _contents(certificate)

    def use_certificate(self, certificate: str, key: str) -> None:
        """Show this certificate to the server (PEM). Raises KubeconfigError."""
        pair = f"{certificate}\n{key}\n"
        try:
            _load_pair(self.context, pair)
        except ssl.SSLError as error:
            raise KubeconfigError(f"exec: not a certificate and key in PEM: {error}") from error
        self._certificate_pair = pair

    def refresh(self, now_seconds: float) -> Reload | None:
        """Read the files again if it is time (monotonic).

        Return the result for the authority; None before, and without an authority that may change.
        """
        if self._read_at_seconds is None:
            self._read_at_seconds = now_seconds
        if now_seconds - self._read_at_seconds < _PERIOD_SECONDS:
            return None
        self._read_at_seconds = now_seconds
        self._reload_certificate()
        return None if self._authority is None else self._reload_authority(self._authority)

    def _reload_certificate(self) -> None:
        try:
            content = _contents(self._certificate)
            if content == self._certificate_content:
                return
            self.context = self._make()
        except (OSError, ValueError) as error:
            _log.error("Loading client cert failed", {"err": error})
            return
        self._certificate_content = content
        _log.log(V1, "Certificate rotation detected, new connections use the new credentials")

    def _reload_authority(self, authority: Path) -> Reload:
        file = {"caFile": str(authority)}
        _log.log(V4, "Checking CA file content", file)
        try:
            content = authority.read_bytes()
        except OSError as error:
            words = f"open {authority}: {(error.strerror or str(error)).lower()}"
            _log.error("Failed to read CA data from file", {"err": words, **file})
            return Reload("failure", "read_error")
        if not content:
            _log.info("CA file empty, skipping transport rotation", file)
            return Reload("failure", "empty")
        if content == self._content:
            _log.log(V4, "CA file unchanged, skipping transport rotation", file)
            return Reload("success", "unchanged")
        _log.log(V4, "CA content changed, updating transport", file)
        try:
            context = self._make()
            if self._certificate_pair:
                _load_pair(context, self._certificate_pair)
        except (OSError, ValueError) as error:
            _log.error("Failed to parse CA data from file", {"err": error, **file})
            return Reload("failure", "ca_parse_error")
        self.context, self._content = context, content
        _log.log(V4, "Transport updated for CA rotation", file)
        return Reload("success", "updated")


def _contents(files: Iterable[Path]) -> list[bytes]:
    return [file.read_bytes() for file in files]


def _load_pair(context: ssl.SSLContext, pair: str) -> None:
    """Load a certificate and its key; the ssl module reads them from a file."""
    with tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".pem") as pem:
        pem.write(pair)
        pem.flush()
        context.load_cert_chain(pem.name)
