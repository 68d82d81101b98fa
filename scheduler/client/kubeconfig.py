"""Kubeconfig: from `--kubeconfig`, `--master` and the environment to a `Connection`.

Files are read as kubectl reads them: the first of several with a current context decides, a failing
exec plugin is an error with the plugin's text, a token file is read again every minute by our
clock, and `act-as` becomes impersonation headers. The tokens of an auth provider (OIDC) are left to
the official `kubernetes` package, which takes 17 MiB and is imported for them only.

The source of the configuration, as in `clientcmd.BuildConfigFromFlags`:

    --kubeconfig given        that file; --master, if given too, replaces the server's address
    only --master given       that URL, no credentials
    neither, in a cluster     the service account
    neither                   an error; tools (`connect`) read KUBECONFIG, several files with ':'
                              between, else ~/.kube/config

Every failure is a one-line KubeconfigError that names the file.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import importlib
import logging
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import yaml

from scheduler.client.connection import (
    Connection,
    checked_url,
    connection_to,
    proxy_from_environment,
    tls_context,
)
from scheduler.client.credentials import (
    Credential,
    Credentials,
    ExecPlugin,
    RenewedCredentials,
    StaticCredentials,
    TokenFile,
)
from scheduler.client.errors import KubeconfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scheduler.clock import Clock

_log: Final = logging.getLogger(__name__)

#: The directory of a pod's service account.
_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

#: How long a header of an auth provider is used before it is renewed.
_PROVIDER_SECONDS: Final = 60.0

#: The only auth provider of client-go since 1.26. The others were replaced by exec plugins.
_PROVIDER: Final = "oidc"

#: The fields with a user's identity; an exec plugin is used only without any of them.
_IDENTITIES: Final = (
    "token",
    "tokenFile",
    "username",
    "auth-provider",
    "client-certificate",
    "client-certificate-data",
)


class _NoServerError(KubeconfigError):
    """Nothing names an API server."""


@dataclass
class _Provided:
    """The attributes of `client.Configuration` in which the package leaves a provider's token."""

    api_key: dict[str, str] = field(default_factory=dict)
    refresh_api_key_hook: Callable[[_Provided], None] | None = None


def connect(
    *,
    clock: Clock,
    kubeconfig: str = "",
    master: str = "",
    environ: Mapping[str, str] | None = None,
    service_account: Path = _SERVICE_ACCOUNT,
) -> Connection:
    """Return the connection of a tool that people start; see the table of the module.

    This reads files and may run an exec plugin, which blocks the event loop.
    """
    environ = os.environ if environ is None else environ
    paths = [] if kubeconfig or master else _default_paths(environ)
    try:
        return connect_process(
            clock=clock,
            kubeconfig=kubeconfig,
            master=master,
            environ=environ,
            service_account=service_account,
        )
    except KubeconfigError as error:
        if paths:
            return connection_from_kubeconfig(paths, clock=clock, environ=environ)
        if isinstance(error, _NoServerError):
            raise KubeconfigError(
                "no API server: expected --kubeconfig, --master, KUBECONFIG, a file "
                "~/.kube/config, or to run in a cluster"
            ) from error
        raise


def connect_process(
    *,
    clock: Clock,
    kubeconfig: str = "",
    master: str = "",
    environ: Mapping[str, str] | None = None,
    service_account: Path = _SERVICE_ACCOUNT,
) -> Connection:
    """Return the connection of a server process: `KUBECONFIG` and `~/.kube/config` are not read.

    Source: client-go `tools/clientcmd/client_config.go` (`BuildConfigFromFlags`).
    """
    environ = os.environ if environ is None else environ
    if kubeconfig:
        return connection_from_kubeconfig(
            [Path(kubeconfig)], clock=clock, master=master, environ=environ
        )
    if master:
        return connection_to(master, environ=environ)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return connection_in_cluster(clock=clock, environ=environ, service_account=service_account)
    raise _NoServerError(
        "no API server: expected a kubeconfig (--kubeconfig, or clientConnection.kubeconfig in the "
        "file of --config), --master, or to run in a cluster"
    )


def connection_in_cluster(
    *,
    clock: Clock,
    environ: Mapping[str, str] | None = None,
    service_account: Path = _SERVICE_ACCOUNT,
) -> Connection:
    """Return the connection of a pod by its service account."""
    environ = os.environ if environ is None else environ
    host, port = (environ.get(f"KUBERNETES_SERVICE_{name}") for name in ("HOST", "PORT"))
    token = service_account / "token"
    try:
        if not host or not port:
            raise ValueError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
        _check_exists(str(token))
        ca_file = str(service_account / "ca.crt")
        _check_exists(ca_file)
        context = tls_context(ca_file=ca_file)
    except (OSError, ValueError) as error:
        raise KubeconfigError(f"in cluster: {service_account}: {_one_line(error)}") from error
    try:
        namespace = (service_account / "namespace").read_text(encoding="utf-8").strip()
    except OSError:
        namespace = ""
    return Connection(
        base_url=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ssl_context=context,
        credentials=RenewedCredentials(TokenFile(token, clock=clock), clock=clock),
        namespace=namespace or "default",
    )


def connection_from_kubeconfig(
    paths: Sequence[Path],
    *,
    clock: Clock,
    master: str = "",
    environ: Mapping[str, str] | None = None,
) -> Connection:
    """Return the connection of the current context of one or several kubeconfig files.

    The first of several entries with the same name is used. `master` replaces the server's address.
    """
    files = _Files(paths)
    if master:
        files.cluster["server"] = master
    try:
        files.check()
        tls = files.tls()
        credentials = files.credentials(tls, clock=clock)
    except KubeconfigError:
        raise
    except Exception as error:  # the package raises whatever comes up
        raise KubeconfigError(f"{files.source}: {_one_line(error)}") from error
    base_url = checked_url(files.host, source=f"{files.source}: cluster.server")
    return Connection(
        base_url=base_url,
        ssl_context=tls,
        credentials=credentials,
        server_hostname=files.cluster.get("tls-server-name"),
        proxy=_proxy(files.cluster.get("proxy-url"), base_url, environ or {}, source=files.source),
        headers=tuple(_impersonation(files.user)),
        namespace=str(files.context.get("namespace") or "default"),
        compression=not files.cluster.get("disable-compression"),
    )


class _Files:
    """The current context of some kubeconfig files, with its cluster and its user."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.source = os.pathsep.join(str(path) for path in paths)
        self._documents = [(path, _read(path)) for path in paths]
        currents = (str(document.get("current-context") or "") for _, document in self._documents)
        self._name = next(filter(None, currents), "")
        if not self._name:
            raise KubeconfigError(f"{self.source}: expected a current-context")
        self.context, _ = self._entry("context", self._name)
        self.cluster, directory = self._entry("cluster", str(self.context.get("cluster") or ""))
        _make_absolute(self.cluster, directory, "certificate-authority")
        self._user_name = str(self.context.get("user") or "")
        self.user: dict[str, Any] = {}
        self._user_directory = Path()
        if self._user_name:
            self.user, self._user_directory = self._entry("user", self._user_name)
            _make_absolute(self.user, self._user_directory, "client-certificate", "client-key")

    @property
    def host(self) -> str:
        """The URL of the API server, unchecked."""
        return str(self.cluster.get("server") or "").rstrip("/")

    def check(self) -> None:
        """Raise KubeconfigError without a server, and for what kubectl refuses."""
        if not self.host:
            raise KubeconfigError(f"{self.source}: cluster: expected a server")
        if self.cluster.get("insecure-skip-tls-verify") and any(
            self.cluster.get(name)
            for name in ("certificate-authority", "certificate-authority-data")
        ):
            raise KubeconfigError(
                f"{self.source}: cluster: insecure-skip-tls-verify and a certificate authority "
                "exclude each other"
            )
        provider = self.user.get("auth-provider")
        if isinstance(provider, dict) and provider.get("name") != _PROVIDER:
            raise KubeconfigError(
                f"{self.source}: user {self._user_name!r}: expected auth-provider to be "
                f"{_PROVIDER}, got {provider.get('name')!r}; use an exec plugin"
            )

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context of the server; None for plain HTTP."""
        if not self.host.startswith("https:"):
            return None
        verify = not self.cluster.get("insecure-skip-tls-verify")
        try:
            with _as_file(self.cluster, "certificate-authority") as ca_file:
                context = tls_context(ca_file=ca_file, verify=verify)
        except OSError as error:
            raise ValueError(f"certificate-authority: {error}") from error
        with (
            _as_file(self.user, "client-certificate") as certificate,
            _as_file(self.user, "client-key") as key,
        ):
            if certificate:
                try:
                    context.load_cert_chain(certificate, key)
                except OSError as error:
                    raise ValueError(f"client-certificate, client-key: {error}") from error
        return context

    def _provided(self) -> _Provided:
        """Let the package get the token of an auth provider."""
        # The package would ignore a failing plugin, and read a token file only once.
        user = {key: self.user[key] for key in self.user if key not in {"exec", "tokenFile"}}
        package: Any = importlib.import_module("kubernetes.config.kube_config")
        loader = package.KubeConfigLoader(
            config_dict={
                "current-context": "context",
                "contexts": [{"name": "context", "context": {"cluster": "c", "user": "user"}}],
                "clusters": [{"name": "c", "cluster": {"server": self.host}}],
                "users": [{"name": "user", "user": user}],
            },
            config_base_path=None,
            config_persister=self._save,
        )
        provided = _Provided()
        loader.load_and_set(provided)
        return provided

    def _authorization(self) -> str | None:
        """Return the header of a token or a password; None without either."""
        if token := self.user.get("token"):
            return f"Bearer {token}"
        if "username" in self.user and "password" in self.user:
            pair = f"{self.user['username']}:{self.user['password']}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        return None

    def credentials(self, tls: ssl.SSLContext | None, *, clock: Clock) -> Credentials:
        """Return the credentials of the user. Raises KubeconfigError if an exec plugin fails."""
        if self.user.get("tokenFile"):
            path = self._user_directory / str(self.user["tokenFile"])
            return RenewedCredentials(TokenFile(path, clock=clock), clock=clock)
        if self.user.get("auth-provider"):
            return RenewedCredentials(
                functools.partial(_renew_by_provider, self._provided(), clock, self.source),
                clock=clock,
            )
        if self.user.get("exec") and not any(self.user.get(name) for name in _IDENTITIES):
            plugin = ExecPlugin(
                self.user["exec"],
                cluster=self.cluster,
                directory=self._user_directory,
                source=f"{self.source}: user {self._user_name!r}",
            )
            return RenewedCredentials(
                plugin, clock=clock, use_certificate=functools.partial(_use_certificate, tls)
            )
        return StaticCredentials(self._authorization())

    def _entry(self, kind: str, name: str) -> tuple[dict[str, Any], Path]:
        """Return the first entry of that name, and the directory of its relative paths."""
        for path, document in self._documents:
            entries = document.get(f"{kind}s") or []
            if not isinstance(entries, list):
                raise KubeconfigError(f"{path}: {kind}s: expected a list")
            for entry in entries:
                if isinstance(entry, dict) and entry.get("name") == name:
                    value = entry.get(kind)
                    if not isinstance(value, dict):
                        raise KubeconfigError(f"{path}: {kind} {name!r}: expected a mapping")
                    _check_base64(value, source=f"{path}: {kind} {name!r}")
                    return dict(value), path.absolute().parent
        raise KubeconfigError(f"{self.source}: there is no {kind} named {name!r}")

    def _save(self) -> None:
        """Write renewed tokens of a provider to the user's file, as the old ones are invalid."""
        provider = self.user.get("auth-provider")
        for path, document in self._documents:
            users = (entry["user"] for entry in document.get("users") or [] if entry.get("user"))
            if any(user.get("auth-provider") is provider for user in users):
                try:
                    path.write_text(yaml.safe_dump(document), encoding="utf-8")
                except OSError as error:
                    _log.warning("%s: renewed tokens could not be kept: %s", path, error)


def _default_paths(environ: Mapping[str, str]) -> list[Path]:
    named = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if not named and environ.get("HOME"):
        named = [Path(environ["HOME"]) / ".kube" / "config"]
    return [path for path in named if path.exists()]


def _read(path: Path) -> dict[str, Any]:
    try:
        document: object = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise KubeconfigError(f"{path}: not a readable kubeconfig: {_one_line(error)}") from error
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path}: expected a mapping with clusters, contexts and users")
    return document


def _check_base64(entry: dict[str, Any], *, source: str) -> None:
    for name in ("certificate-authority-data", "client-certificate-data", "client-key-data"):
        try:
            base64.b64decode(str(entry.get(name) or ""), validate=True)
        except ValueError as error:
            raise KubeconfigError(f"{source}: {name}: expected base64: {error}") from error


@contextlib.contextmanager
def _as_file(entry: dict[str, Any], name: str) -> Iterator[str | None]:
    """Yield the file of an entry, or one of its data for the ssl module; None without either."""
    if not (data := entry.get(f"{name}-data")):
        if path := entry.get(name):
            _check_exists(path)
        yield path
        return
    with tempfile.NamedTemporaryFile(suffix=".pem") as pem:
        pem.write(base64.b64decode(data))
        pem.flush()
        yield pem.name


def _check_exists(path: str) -> None:
    if not os.path.isfile(path):
        raise ValueError(f"File does not exist: {path}")


def _make_absolute(entry: dict[str, Any], directory: Path, *names: str) -> None:
    for name in names:
        if entry.get(name):
            entry[name] = str(directory / str(entry[name]))


def _proxy(
    configured: str | None, base_url: str, environ: Mapping[str, str], *, source: str
) -> str | None:
    if not configured:
        return proxy_from_environment(base_url, environ)
    if not configured.startswith(("http://", "https://")):
        raise KubeconfigError(
            f"{source}: cluster.proxy-url: expected an http or https URL, got {configured!r}"
        )
    return configured


def _impersonation(user: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if user.get("act-as"):
        yield "Impersonate-User", str(user["act-as"])
    if user.get("act-as-uid"):
        yield "Impersonate-Uid", str(user["act-as-uid"])
    for group in user.get("act-as-groups") or []:
        yield "Impersonate-Group", str(group)
    for key, values in (user.get("act-as-user-extra") or {}).items():
        for value in values:
            yield f"Impersonate-Extra-{quote(str(key), safe='')}", str(value)


def _renew_by_provider(provided: _Provided, clock: Clock, source: str) -> Credential:
    try:
        if provided.refresh_api_key_hook is not None:
            provided.refresh_api_key_hook(provided)
    except Exception as error:  # the package raises whatever comes up
        raise KubeconfigError(f"{source}: auth-provider: {_one_line(error)}") from error
    return Credential(
        header=provided.api_key.get("BearerToken"), stale_at=clock.now() + _PROVIDER_SECONDS
    )


def _use_certificate(tls: ssl.SSLContext | None, credential: Credential) -> None:
    """Use a plugin's certificate for new TLS connections, by a file for the ssl module."""
    if tls is None or not credential.certificate:
        return
    with tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".pem") as pem:
        pem.write(f"{credential.certificate}\n{credential.key}\n")
        pem.flush()
        try:
            tls.load_cert_chain(pem.name)
        except ssl.SSLError as error:
            raise KubeconfigError(f"exec: not a certificate and key in PEM: {error}") from error


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__
