"""The connection to one API server: address, TLS, credentials, proxy.

`scheduler.client.kubeconfig` makes a `Connection` from files or inside a cluster, this module makes
one from a bare URL, and `scheduler.client.rest` uses it.
"""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scheduler.client.client_tls import ClientTls
from scheduler.client.credentials import Credentials, StaticCredentials
from scheduler.client.errors import KubeconfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The address of one API server, and how to connect to it.

    `base_url` has no slash at its end and may have a path (a server behind a gateway).
    `server_hostname` is the expected name in the server's certificate, if not the URL's host.
    `headers` are sent with every request (impersonation). `namespace` is the context's default.
    `identity` names the credentials in errors: the user and the file.
    """

    base_url: str
    tls: ClientTls | None = None
    credentials: Credentials = field(default_factory=StaticCredentials)
    server_hostname: str | None = None
    proxy: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    namespace: str = "default"
    compression: bool = True
    identity: str = ""


def connection_to(
    url: str, *, environ: Mapping[str, str] | None = None, source: str = "--master"
) -> Connection:
    """Return a connection to a URL, without credentials: `--master`, or a fake API server.

    `environ` may contain proxy variables. Raises KubeconfigError, which names `source`, for an
    invalid URL.
    """
    base_url = checked_url(url, source=source)
    return Connection(
        base_url=base_url,
        tls=ClientTls(tls_context) if base_url.startswith("https:") else None,
        proxy=proxy_from_environment(base_url, environ or {}),
    )


def checked_url(url: str, *, source: str) -> str:
    """Check an `http` or `https` URL, and strip a slash at its end; `host:port` means `http`."""
    text = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(text)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or parts.username is not None:
        raise KubeconfigError(f"{source}: expected a URL such as https://host:6443, got {url!r}")
    return text.rstrip("/")


def tls_context(
    *, ca_file: str | None = None, ca_data: str | None = None, verify: bool = True
) -> ssl.SSLContext:
    """Return a client context that trusts `ca_file` or `ca_data` alone (PEM).

    Without either it trusts the machine's authorities. Raises OSError (`ssl.SSLError` is one) for a
    file that is missing or holds no certificate.
    """
    context = ssl.create_default_context(cafile=ca_file, cadata=ca_data)
    # Go does not require the extensions that strict mode requires of a CA, and many clusters' CAs
    # (old ones of kubeadm, those of test servers) do not have them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def proxy_from_environment(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy of a URL by `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`; None for none.

    As in Go: upper case first, never for localhost; NO_PROXY may hold hosts, domains, addresses and
    networks. Source: `golang.org/x/net/http/httpproxy`.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    variable = f"{parts.scheme.upper()}_PROXY"
    proxy = environ.get(variable) or environ.get(variable.lower())
    if not proxy or host == "localhost" or _is_loopback(host):
        return None
    excluded = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if any(_excludes(entry.strip().lower(), host, parts.port) for entry in excluded.split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _excludes(entry: str, host: str, port: int | None) -> bool:
    if not entry:
        return False
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        pass
    name, colon, wanted_port = entry.partition(":")
    if colon and wanted_port.isdecimal() and (port is None or int(wanted_port) != port):
        return False
    domain = name.removeprefix("*")
    return host == domain or host.endswith(domain if domain.startswith(".") else f".{domain}")
