"""What the flags say about the scheduler's own port: upstream's names, defaults and complaints.

Source: apiserver `pkg/server/options/{serving,authentication,authorization}.go`, and what
kube-scheduler's `options.go` changes of their defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from scheduler.serving.errors import ServingError

DEFAULT_PORT: Final = 10259
#: Whoever asks for one of these is not asked who they are allowed to be.
ALWAYS_ALLOW_PATHS: Final = ("/healthz", "/readyz", "/livez")
_PORT_MAX: Final = 65535


@dataclass(frozen=True, kw_only=True)
class AuthenticationOptions:
    """Who decides who asks.

    Without `kubeconfig`, and outside a cluster, there is nobody to ask: every token counts for
    nothing, and everybody without a client certificate is `system:anonymous`.
    `skip_lookup` leaves the cluster's own settings (a config map with the CA of its clients)
    alone; `tolerate_lookup_failure` starts without them if they cannot be read.
    """

    kubeconfig: str = ""
    client_ca_file: str = ""
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True
    cache_seconds: float = 10.0


@dataclass(frozen=True, kw_only=True)
class AuthorizationOptions:
    """Who decides what may be asked.

    Without `kubeconfig`, and outside a cluster, all but `always_allow_paths` is forbidden to all
    but `system:masters`. A path may end in `*`.
    """

    kubeconfig: str = ""
    always_allow_paths: tuple[str, ...] = ALWAYS_ALLOW_PATHS
    authorized_seconds: float = 10.0
    unauthorized_seconds: float = 10.0


@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """Where and how to serve. A `secure_port` of 0 serves nothing; None takes any free port."""

    bind_address: str = "0.0.0.0"
    secure_port: int | None = DEFAULT_PORT
    cert_dir: str = ""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    authentication: AuthenticationOptions = field(default_factory=AuthenticationOptions)
    authorization: AuthorizationOptions = field(default_factory=AuthorizationOptions)

    @property
    def enabled(self) -> bool:
        """Whether there is anything to serve."""
        return self.secure_port != 0

    def validate(self) -> None:
        """Raise ServingError for what cannot be, with upstream's sentence."""
        port = self.secure_port
        if port is None:
            return
        if port > _PORT_MAX:
            # The sentence for servers that have to serve; upstream prints it here too.
            raise ServingError(
                f"--secure-port {port} must be between 1 and 65535, inclusive. "
                "It cannot be turned off with 0"
            )
        if port < 0:
            raise ServingError(
                f"--secure-port {port} must be between 0 and 65535, inclusive. "
                "0 for turning off secure port"
            )
