"""The security of one server, made from its options: TLS, users, roles, a gate."""

from __future__ import annotations

import base64
import functools
import secrets
import socket
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from fakeapi.access.access import Access
from fakeapi.access.authentication import Authenticator, read_token_file
from fakeapi.access.users import ADMIN, SERVER, SecurityError, User
from fakeapi.clock import SystemClock
from fakeapi.security import bootstrap
from fakeapi.security.gate import Gate
from fakeapi.security.rbac import RbacAuthorizer
from fakeapi.writes import pipeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeapi.security.certificates import Authority, CertificatePair
    from fakeapi.security.options import Security
    from fakeapi.store.registry import Registry
    from fakeapi.types.objects import Json

_MANAGER: Final = "kube-apiserver"
#: The ConfigMap with the authorities that components trust which delegate authentication.
_TRUST: Final = "extension-apiserver-authentication"
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default.svc")


class Loopback(NamedTuple):
    """TLS and headers by which a program in the server's own process may do everything."""

    tls: ssl.SSLContext | None
    headers: dict[str, str]


class Guard:
    """The security of one server."""

    def __init__(self, options: Security) -> None:
        """Make certificates and read files. Raises SecurityError."""
        options.check()
        self.options = options
        self._now = SystemClock().now()  # certificates are judged by the time of day
        self._own_token = secrets.token_urlsafe()
        self._tokens = self._known_tokens()
        self._clients = self._authority("kubesched-fakeapi-client-ca") if options.tls else None
        self._ca = b""
        #: What connections are wrapped in, None for plain HTTP.
        self.tls: Final = self._tls() if options.serves_tls else None
        self.access: Final = Access()
        if options.authenticates:
            self.access.authenticator = Authenticator(
                {**self._tokens, self._own_token: SERVER},
                certificates=options.takes_certificates,
                anonymous=options.lets_anonymous_in,
            )

    @property
    def gate(self) -> Gate | None:
        """Return the gate that every request passes; None without anything to check."""
        options = self.options
        if not options.authenticates and not options.limits_requests:
            return None
        return Gate(
            self.access,
            options.authenticates,
            options.max_requests_inflight,
            options.max_mutating_requests_inflight,
        )

    @functools.cached_property
    def loopback(self) -> Loopback:
        """TLS and headers for programs in this process."""
        options = self.options
        headers = {"Authorization": f"Bearer {self._own_token}"} if options.authenticates else {}
        if not options.serves_tls:
            return Loopback(None, headers)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # a given certificate may name other hosts than this
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=self._ca.decode())
        return Loopback(context, headers)

    def set_up(self, state: Registry) -> None:
        """Create the first objects of a server with this security, unless they exist."""
        if self.options.takes_certificates:
            kind = state.kinds.find("", "v1", "configmaps")
            assert kind is not None
            data = {"client-ca-file": self._client_authorities()}
            value: Json = {"metadata": {"name": _TRUST, "namespace": "kube-system"}, "data": data}
            pipeline.ensure(state, kind, value, manager=_MANAGER)
        if self.options.authorization_mode == "RBAC":
            bootstrap.create_missing(state)
            self.access.authorizer = RbacAuthorizer(state.store)

    def kubeconfig(self, url: str, user: str = "", groups: Iterable[str] = ()) -> str:
        """Return a kubeconfig as YAML, by default for an administrator.

        Raises SecurityError if the user has neither certificate nor token.
        """
        cluster: Json = {"server": url}
        if self._ca:
            cluster["certificate-authority-data"] = _base64(self._ca)
        shown = self._credentials_of(user, groups) if user else self._credentials_of_admin()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fakeapi", "cluster": cluster}],
            "users": [{"name": "fakeapi", "user": shown}],
            "contexts": [{"name": "fakeapi", "context": {"cluster": "fakeapi", "user": "fakeapi"}}],
            "current-context": "fakeapi",
        }
        return msgspec.yaml.encode(config).decode()

    def _credentials_of_admin(self) -> Json:
        user: Json = {"token": self.options.token} if self.options.token else {}
        return user if self._clients is None else {**user, **_certificate_user(self._admin)}

    def _credentials_of(self, name: str, groups: Iterable[str]) -> Json:
        if self._clients is not None:
            try:
                return _certificate_user(self._clients.client(name, groups))
            except ValueError as error:
                raise SecurityError(f"no certificate for {name}: {error}") from error
        for token, user in self._tokens.items():
            if user.name == name:
                return {"token": token}
        raise SecurityError(f"no token is {name}'s, and without --tls there are no certificates")

    @functools.cached_property
    def _admin(self) -> CertificatePair:
        assert self._clients is not None
        return self._clients.client(ADMIN.name, ADMIN.groups)

    def _known_tokens(self) -> dict[str, User]:
        options = self.options
        users = {} if options.token_auth_file is None else read_token_file(
            Path(options.token_auth_file)
        )  # fmt: skip
        users.update(options.tokens)
        if options.token:
            users[options.token] = ADMIN
        return users

    def _authority(self, common_name: str) -> Authority:
        from fakeapi.security.certificates import Authority

        return Authority(common_name, now=self._now)

    def _tls(self) -> ssl.SSLContext:
        options = self.options
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if options.tls:
            authority = self._authority("kubesched-fakeapi-ca")
            self._ca = authority.certificate
            _load_pair(context, authority.server(_names_of(options.host)))
        else:
            assert options.tls_cert_file is not None
            assert options.tls_private_key_file is not None
            self._ca = _read(Path(options.tls_cert_file), "--tls-cert-file")
            _load_files(context, Path(options.tls_cert_file), Path(options.tls_private_key_file))
        if options.takes_certificates:
            context.verify_mode = ssl.CERT_OPTIONAL
            try:
                context.load_verify_locations(cadata=self._client_authorities())
            except (ssl.SSLError, ValueError) as error:
                raise SecurityError(f"--client-ca-file: {error}") from error
        return context

    def _client_authorities(self) -> str:
        """Return the certificates of the authorities of clients, in PEM."""
        authorities = b"" if self._clients is None else self._clients.certificate
        if self.options.client_ca_file is not None:
            path = Path(self.options.client_ca_file)
            content = _read(path, "--client-ca-file")
            if b"-----BEGIN CERTIFICATE-----" not in content:
                raise SecurityError(f"--client-ca-file: {path}: expected certificates in PEM")
            authorities += content
        try:
            return authorities.decode("ascii")
        except UnicodeDecodeError as error:
            raise SecurityError("--client-ca-file: expected certificates in PEM") from error


def _names_of(host: str) -> list[str]:
    return [name for name in (host, *_LOCAL_NAMES, socket.gethostname()) if name]


def _load_pair(context: ssl.SSLContext, pair: CertificatePair) -> None:
    """Load a certificate and its key, which the ssl module reads from files only.

    The files are in a temporary directory that only this user may read.
    """
    with tempfile.TemporaryDirectory(prefix="fakeapi-") as directory:
        certificate, key = Path(directory, "tls.crt"), Path(directory, "tls.key")
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        _load_files(context, certificate, key)


def _load_files(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    _read(key, "--tls-private-key-file")
    try:
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except (ssl.SSLError, ValueError) as error:
        raise SecurityError(f"{certificate} and {key} are not a certificate and its key") from error


def _read(path: Path, flag: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SecurityError(f"{flag}: {path}: {error.strerror or error}") from error


def _certificate_user(pair: CertificatePair) -> Json:
    return {
        "client-certificate-data": _base64(pair.certificate),
        "client-key-data": _base64(pair.key),
    }


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
