"""The security options of a server, and their validation."""

from __future__ import annotations

import dataclasses
import ipaddress
import socket
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from fakeapi.access.users import SecurityError
from fakeapi.decoding.bodies import BODY_BYTES_MAX
from fakeapi.types.option import check_values, file_option, option

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fakeapi.access.users import User

AuthorizationMode: TypeAlias = Literal["AlwaysAllow", "RBAC"]
MODES: Final = ("AlwaysAllow", "RBAC")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Address, TLS, authentication, authorization and limits; by default only the address.

    Clients that can authenticate must authenticate, unless `anonymous_auth` is set.
    """

    host: str = option(
        "127.0.0.1", "Address to listen on; addresses other than loopback need authentication."
    )
    tls: bool = option(
        False,
        "Serve HTTPS with a new certificate; its authority, and an administrator's certificate, "
        "are in the kubeconfig.",
    )
    tls_cert_file: str | Path | None = file_option(
        "Serve HTTPS with this certificate, in PEM, followed by those that signed it."
    )
    tls_private_key_file: str | Path | None = file_option("The key of --tls-cert-file.")
    client_ca_file: str | Path | None = file_option(
        "Accept client certificates of these authorities: the common name is the user, "
        "organizations are the groups."
    )
    token_auth_file: str | Path | None = file_option(
        'Users by their bearer tokens, as CSV: token,user,uid,"group1,group2".'
    )
    token: str = option(
        "",
        "A bearer token of an administrator, which is in the kubeconfig. Clients of client-go send "
        "tokens over HTTPS only.",
        metavar="TOKEN",
    )
    #: Bearer tokens of users.
    tokens: Mapping[str, User] = dataclasses.field(default_factory=dict)
    anonymous_auth: bool | None = option(
        None,
        "Accept requests without credentials as system:anonymous; by default with RBAC only.",
        type=bool,
    )
    authorization_mode: AuthorizationMode = option(
        "AlwaysAllow", "Allow every request, or those that roles allow.", choices=MODES
    )
    max_requests_inflight: int = option(
        0,
        "Answer 429 beyond this number of reading requests at once; 0 for no limit.",
        minimum=0,
    )
    max_mutating_requests_inflight: int = option(
        0,
        "Answer 429 beyond this number of writing requests at once; 0 for no limit.",
        minimum=0,
    )
    max_request_bytes: int = option(BODY_BYTES_MAX, "Limit of the body of a request.", minimum=1)
    insecure_bind_anywhere: bool = option(
        False, "Allow addresses other than loopback without authentication."
    )

    @property
    def serves_tls(self) -> bool:
        return self.tls or self.tls_cert_file is not None

    @property
    def takes_certificates(self) -> bool:
        """Return True if client certificates are requested."""
        return self.tls or self.client_ca_file is not None

    @property
    def authenticates(self) -> bool:
        """Return True if users can authenticate."""
        takes_tokens = bool(self.token or self.tokens) or self.token_auth_file is not None
        return takes_tokens or self.takes_certificates

    @property
    def lets_anonymous_in(self) -> bool:
        """Return True if requests without credentials are accepted."""
        if self.anonymous_auth is None:
            return self.authorization_mode == "RBAC"
        return self.anonymous_auth

    @property
    def limits_requests(self) -> bool:
        return bool(self.max_requests_inflight or self.max_mutating_requests_inflight)

    def check(self) -> None:
        """Refuse options that contradict, and an unguarded host. Raises SecurityError.

        The host may have to be looked up.
        """
        self._check_files()
        if any(not letter.isprintable() or letter.isspace() for letter in self.token):
            raise SecurityError("--token: expected no blanks: a header cannot hold them")
        try:
            check_values(self)
        except ValueError as error:
            raise SecurityError(str(error)) from error
        needs = "needs a way to authenticate: --token, --token-auth-file, --tls or --client-ca-file"
        if self.authorization_mode == "RBAC" and not self.authenticates:
            raise SecurityError(f"--authorization-mode RBAC {needs}")
        if self.anonymous_auth is False and not self.authenticates:
            raise SecurityError(f"--no-anonymous-auth {needs}")
        is_open = self.lets_anonymous_in and self.authorization_mode == "AlwaysAllow"
        guarded = self.authenticates and not is_open
        if not guarded and not self.insecure_bind_anywhere and not is_loopback(self.host):
            raise SecurityError(
                f"refusing to listen on {self.host or 'all addresses'} without authentication: "
                "everyone may then do everything; configure authentication (--token, "
                "--token-auth-file, --tls or --client-ca-file), listen on 127.0.0.1, or set "
                "--insecure-bind-anywhere"
            )

    def _check_files(self) -> None:
        if (self.tls_cert_file is None) != (self.tls_private_key_file is None):
            raise SecurityError("--tls-cert-file and --tls-private-key-file go together")
        if self.tls and self.tls_cert_file is not None:
            raise SecurityError("--tls makes a certificate, --tls-cert-file brings one: choose one")
        if self.client_ca_file is not None and not self.serves_tls:
            raise SecurityError("--client-ca-file needs --tls or --tls-cert-file")


def is_loopback(host: str) -> bool:
    """Return True if the host is reached from this machine only; names are looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        infos = socket.getaddrinfo(host or None, 0, flags=socket.AI_PASSIVE)
    except OSError:
        return False  # it cannot be listened on either: that will be said then
    addresses = {str(entry[4][0]).partition("%")[0] for entry in infos}
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)
