"""The flags of the scheduler's own port.

Source: apiserver `pkg/server/options/{serving,authentication,authorization}.go` (`AddFlags`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from scheduler.flags.types import (
    DURATION,
    IP_ADDRESS,
    PORT,
    WORDS,
    Flag,
    flag_group,
    true_or_false,
)
from scheduler.serving.options import (
    ALWAYS_ALLOW_PATHS,
    DEFAULT_PORT,
    AuthenticationOptions,
    AuthorizationOptions,
    ServingOptions,
)

if TYPE_CHECKING:
    from scheduler.config.duration import Duration


def _text(flag: str, metavar: str, words: str) -> Flag:
    return click.option(flag, metavar=metavar, default="", help=words)


def _lifetime(flag: str, words: str) -> Flag:
    return click.option(
        flag,
        metavar="DURATION",
        type=DURATION,
        default="10s",
        show_default=True,
        help=words,
    )


_FLAGS: Final = (
    click.option(
        "--bind-address",
        metavar="IP",
        type=IP_ADDRESS,
        default="0.0.0.0",
        show_default=True,
        help="The address to serve HTTPS on; 0.0.0.0 or :: is all there are.",
    ),
    click.option(
        "--secure-port",
        metavar="PORT",
        type=PORT,
        default=DEFAULT_PORT,
        show_default=True,
        help="The port for HTTPS with authentication and authorization. With 0, nothing is served; "
        "with auto, a free port is taken and logged.",
    ),
    _text("--cert-dir", "DIR", "Where a generated certificate is kept."),
    _text("--tls-cert-file", "FILE", "The certificate for HTTPS, and those that vouch for it."),
    _text("--tls-private-key-file", "FILE", "The private key of --tls-cert-file."),
    _text("--tls-min-version", "VERSION", "The oldest TLS to speak: VersionTLS12, VersionTLS13."),
    click.option(
        "--tls-cipher-suites",
        metavar="NAMES",
        type=WORDS,
        default=(),
        help="The cipher suites to allow with TLS 1.2, by Go's names, with commas between them.",
    ),
    _text("--client-ca-file", "FILE", "Who signs client certificates."),
    _text(
        "--authentication-kubeconfig",
        "FILE",
        "Whom to ask for tokenreviews.authentication.k8s.io. If empty, all token requests are "
        "considered to be anonymous.",
    ),
    true_or_false(
        "--authentication-skip-lookup",
        "Do not look for the authority of client certificates in the cluster.",
        default=False,
        show_default=True,
    ),
    true_or_false(
        "--authentication-tolerate-lookup-failure",
        "Start even if that authority cannot be looked up.",
        default=True,
        show_default=True,
    ),
    _lifetime(
        "--authentication-token-webhook-cache-ttl", "How long an answer about a token is good."
    ),
    _text(
        "--authorization-kubeconfig",
        "FILE",
        "Whom to ask for subjectaccessreviews.authorization.k8s.io. If empty, all requests not "
        "skipped by authorization are forbidden.",
    ),
    click.option(
        "--authorization-always-allow-paths",
        metavar="PATHS",
        type=WORDS,
        default=ALWAYS_ALLOW_PATHS,
        show_default=",".join(ALWAYS_ALLOW_PATHS),
        help="Paths open to all, with commas between them; one may end in *.",
    ),
    _lifetime("--authorization-webhook-cache-authorized-ttl", "How long a yes is good."),
    _lifetime("--authorization-webhook-cache-unauthorized-ttl", "How long a no is good."),
)


def _options(
    *,
    bind_address: str,
    secure_port: int | None,
    cert_dir: str,
    tls_cert_file: str,
    tls_private_key_file: str,
    tls_min_version: str,
    tls_cipher_suites: tuple[str, ...],
    client_ca_file: str,
    authentication_kubeconfig: str,
    authentication_skip_lookup: bool,
    authentication_tolerate_lookup_failure: bool,
    authentication_token_webhook_cache_ttl: Duration,
    authorization_kubeconfig: str,
    authorization_always_allow_paths: tuple[str, ...],
    authorization_webhook_cache_authorized_ttl: Duration,
    authorization_webhook_cache_unauthorized_ttl: Duration,
) -> ServingOptions:
    return ServingOptions(
        bind_address=bind_address,
        secure_port=secure_port,
        cert_dir=cert_dir,
        tls_cert_file=tls_cert_file,
        tls_private_key_file=tls_private_key_file,
        tls_min_version=tls_min_version,
        tls_cipher_suites=tls_cipher_suites,
        authentication=AuthenticationOptions(
            kubeconfig=authentication_kubeconfig,
            client_ca_file=client_ca_file,
            skip_lookup=authentication_skip_lookup,
            tolerate_lookup_failure=authentication_tolerate_lookup_failure,
            cache_seconds=authentication_token_webhook_cache_ttl.seconds,
        ),
        authorization=AuthorizationOptions(
            kubeconfig=authorization_kubeconfig,
            always_allow_paths=authorization_always_allow_paths,
            authorized_seconds=authorization_webhook_cache_authorized_ttl.seconds,
            unauthorized_seconds=authorization_webhook_cache_unauthorized_ttl.seconds,
        ),
    )


#: Adds these flags to a command, which gets them as its argument `serving`: ServingOptions.
serving_flags: Final = flag_group(_FLAGS, "serving", _options)
