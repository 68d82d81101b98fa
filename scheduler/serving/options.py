"""The options of the scheduler's own port: upstream's names, defaults and error texts.

Source: apiserver `pkg/server/options/{serving,authentication,authorization}.go`, and what
kube-scheduler's `options.go` changes of their defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

DEFAULT_PORT: Final = 10259
#: Paths that need no authorization.
ALWAYS_ALLOW_PATHS: Final = ("/healthz", "/readyz", "/livez")
_PORT_MAX: Final = 65535


class ServingError(Exception):
    """The port cannot be served with these options; the message is one line."""


class NamedCertKey(NamedTuple):
    """A certificate, its key, and the domain patterns for which it is served."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = f":{','.join(self.names)}" if self.names else ""
        return f"{self.cert_file},{self.key_file}{names}"


@dataclass(frozen=True, kw_only=True)
class RequestHeaderOptions:
    """The headers in which an authenticating proxy names the user of a request.

    A proxy has a client certificate from an authority in `client_ca_file`, with one of
    `allowed_names` as its common name; without `allowed_names`, any name.
    """

    client_ca_file: str = ""
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)


#: The fields of `RequestHeaderOptions` that are lists, in the order in which they are checked.
REQUEST_HEADER_LISTS: Final = (
    "username_headers",
    "group_headers",
    "extra_headers_prefix",
    "allowed_names",
    "uid_headers",
)


@dataclass(frozen=True, kw_only=True)
class AuthenticationOptions:
    """Options for finding out the user of a request.

    Without `kubeconfig`, and outside a cluster, there is no server to review tokens: all tokens
    are ignored, and every client without a certificate is `system:anonymous`.
    `skip_lookup` does not read the cluster's own settings (a config map with the CAs of its
    clients and proxies); `tolerate_lookup_failure` starts although they cannot be read.
    """

    kubeconfig: str = ""
    client_ca_file: str = ""
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True
    cache_seconds: float = 10.0
    request_header: RequestHeaderOptions = field(default_factory=RequestHeaderOptions)


@dataclass(frozen=True, kw_only=True)
class AuthorizationOptions:
    """Options for deciding if a request is allowed.

    Without `kubeconfig`, and outside a cluster, only `system:masters` may read other paths than
    `always_allow_paths`. A path may end in `*`. With `names_authorizer` the reason of a refusal
    begins with the name that upstream's authorizer has.
    """

    kubeconfig: str = ""
    always_allow_paths: tuple[str, ...] = ALWAYS_ALLOW_PATHS
    authorized_seconds: float = 10.0
    unauthorized_seconds: float = 10.0
    names_authorizer: bool = False


@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """Address, certificate and access control of the port.

    A `secure_port` of 0 serves nothing, None takes any free port.
    """

    bind_address: str = "0.0.0.0"  # noqa: S104 - upstream's default
    secure_port: int | None = DEFAULT_PORT
    permit_port_sharing: bool = False
    cert_dir: str = ""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    tls_curve_preferences: tuple[int, ...] = ()
    tls_sni_cert_keys: tuple[NamedCertKey, ...] = ()
    authentication: AuthenticationOptions = field(default_factory=AuthenticationOptions)
    authorization: AuthorizationOptions = field(default_factory=AuthorizationOptions)

    @property
    def enabled(self) -> bool:
        return self.secure_port != 0

    def validate(self) -> None:
        """Raise ServingError for an invalid port, with upstream's text."""
        port = self.secure_port
        if port is not None and not 0 <= port <= _PORT_MAX:
            # Above the range upstream prints that the port cannot be turned off with 0, which is
            # untrue.
            raise ServingError(
                f"--secure-port {port} must be between 0 and 65535, inclusive. "
                "0 for turning off secure port"
            )
