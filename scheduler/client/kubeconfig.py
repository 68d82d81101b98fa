"""Kubeconfig: from `--kubeconfig`, `--master` and the environment to a `Connection`.

The official `kubernetes` package interprets contexts, client certificates, tokens, basic auth, OIDC
and exec plugins. It is imported on demand, because the import takes a third of a second. Four
things are done here, because the package differs from kubectl:

- the first of several files with a current context decides (there: the last);
- a failing exec plugin is an error with the plugin's text (there: a log line, then no identity);
- a token file is read again every minute (there: once), by our clock;
- `act-as` becomes impersonation headers (there: it is ignored).

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
import functools
import importlib
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import yaml

from scheduler.client.client_tls import ClientTls
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
from scheduler.config.go_yaml import SAFE_LOADER

if TYPE_CHECKING:
    import ssl
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
class _Settings:
    """The attributes of `client.Configuration` that the package's loaders set."""

    host: str = ""
    ssl_ca_cert: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify_ssl: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None
    api_key: dict[str, str] = field(default_factory=dict)
    refresh_api_key_hook: Callable[[_Settings], None] | None = None

    def tls(
        self, *, authority: Path | None, certificate: tuple[Path, ...] = ()
    ) -> ClientTls | None:
        """Return the TLS for `host`, which follows the changes of files; None for plain HTTP."""
        if not self.host.startswith("https:"):
            return None
        try:
            return ClientTls(self._context, authority=authority, certificate=certificate)
        except OSError as error:
            raise ValueError(f"certificate-authority: {error}") from error

    def _context(self) -> ssl.SSLContext:
        context = tls_context(ca_file=self.ssl_ca_cert, verify=self.verify_ssl)
        if self.cert_file:
            try:
                context.load_cert_chain(self.cert_file, self.key_file)
            except OSError as error:
                raise ValueError(f"client-certificate, client-key: {error}") from error
        return context


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
    follows_authority: bool = False,
) -> Connection:
    """Return the connection of a server process: `KUBECONFIG` and `~/.kube/config` are not read.

    With `follows_authority` a file with the server's certificate authority may change.
    Source: client-go `tools/clientcmd/client_config.go` (`BuildConfigFromFlags`).
    """
    environ = os.environ if environ is None else environ
    if kubeconfig:
        return connection_from_kubeconfig(
            [Path(kubeconfig)],
            clock=clock,
            master=master,
            environ=environ,
            follows_authority=follows_authority,
        )
    if master:
        return connection_to(master, environ=environ)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return connection_in_cluster(
            clock=clock,
            environ=environ,
            service_account=service_account,
            follows_authority=follows_authority,
        )
    raise _NoServerError(
        "no API server: expected a kubeconfig (--kubeconfig, or clientConnection.kubeconfig in the "
        "file of --config), --master, or to run in a cluster"
    )


def connection_in_cluster(
    *,
    clock: Clock,
    environ: Mapping[str, str] | None = None,
    service_account: Path = _SERVICE_ACCOUNT,
    follows_authority: bool = False,
) -> Connection:
    """Return the connection of a pod by its service account; see `connect_process`."""
    module: Any = importlib.import_module("kubernetes.config.incluster_config")
    token, authority = service_account / "token", service_account / "ca.crt"
    settings = _Settings()
    try:
        module.InClusterConfigLoader(
            token_filename=str(token),
            cert_filename=str(authority),
            environ=os.environ if environ is None else environ,
        ).load_and_set(settings)
        tls = settings.tls(authority=authority if follows_authority else None)
    except Exception as error:  # the package raises whatever comes up
        raise KubeconfigError(f"in cluster: {service_account}: {_one_line(error)}") from error
    try:
        namespace = (service_account / "namespace").read_text(encoding="utf-8").strip()
    except OSError:
        namespace = ""
    return Connection(
        base_url=settings.host,
        tls=tls,
        credentials=RenewedCredentials(TokenFile(token, clock=clock), clock=clock),
        namespace=namespace or "default",
        identity=str(token),
    )


def connection_from_kubeconfig(
    paths: Sequence[Path],
    *,
    clock: Clock,
    master: str = "",
    environ: Mapping[str, str] | None = None,
    follows_authority: bool = False,
) -> Connection:
    """Return the connection of the current context of one or several kubeconfig files.

    The first of several entries with the same name is used. `master` replaces the server's address.
    See `connect_process` for `follows_authority`.
    """
    files = _Files(paths)
    if master:
        files.cluster["server"] = master
    try:
        settings = files.settings()
        tls = settings.tls(
            authority=files.authority if follows_authority else None,
            certificate=files.certificate,
        )
        if tls is not None and settings.cert_file:
            _warn_of_expiry(Path(settings.cert_file), files.identity, now=clock.now())
    except KubeconfigError:
        raise
    except Exception as error:  # the package raises whatever comes up
        raise KubeconfigError(f"{files.source}: {_one_line(error)}") from error
    base_url = checked_url(settings.host, source=f"{files.source}: cluster.server")
    return Connection(
        base_url=base_url,
        tls=tls,
        credentials=files.credentials(settings, tls, clock=clock),
        server_hostname=settings.tls_server_name,
        proxy=_proxy(settings.proxy, base_url, environ or {}, source=files.source),
        headers=tuple(_impersonation(files.user)),
        namespace=str(files.context.get("namespace") or "default"),
        compression=not files.cluster.get("disable-compression"),
        identity=files.identity,
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
    def identity(self) -> str:
        """The user and the files, for errors; empty without a user."""
        return f"user {self._user_name!r} in {self.source}" if self._user_name else ""

    @property
    def authority(self) -> Path | None:
        """The file with the server's certificate authority; None if the kubeconfig has it."""
        name = self.cluster.get("certificate-authority")
        return Path(name) if name and not self.cluster.get("certificate-authority-data") else None

    @property
    def certificate(self) -> tuple[Path, ...]:
        """The files of the user's certificate and key that the kubeconfig does not have itself."""
        names = ("client-certificate", "client-key")
        return tuple(
            Path(self.user[name])
            for name in names
            if self.user.get(name) and not self.user.get(f"{name}-data")
        )

    def settings(self) -> _Settings:
        """Load the context with the package, without exec plugins and token files."""
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
        # The package would ignore a failing plugin, and read a token file only once.
        user = {key: self.user[key] for key in self.user if key not in {"exec", "tokenFile"}}
        if user or self.cluster.keys() != {"server"}:
            settings = self._interpreted(user)
        else:
            settings = _Settings(host=str(self.cluster["server"] or "").rstrip("/"))
        if not settings.host:
            raise KubeconfigError(f"{self.source}: cluster: expected a server")
        return settings

    def _interpreted(self, user: dict[str, Any]) -> _Settings:
        """Return the settings from the package; a mere URL, as of a fake API server, needs none."""
        package: Any = importlib.import_module("kubernetes.config.kube_config")
        context = {**self.context, "cluster": "cluster", "user": "user"}
        loader = package.KubeConfigLoader(
            config_dict={
                "current-context": "context",
                "contexts": [{"name": "context", "context": context}],
                "clusters": [{"name": "cluster", "cluster": self.cluster}],
                "users": [{"name": "user", "user": user}],
            },
            config_base_path=None,
            config_persister=self._save,
        )
        settings = _Settings()
        loader.load_and_set(settings)
        return settings

    def credentials(
        self, settings: _Settings, tls: ClientTls | None, *, clock: Clock
    ) -> Credentials:
        """Return the credentials of the user. Raises KubeconfigError if an exec plugin fails."""
        if self.user.get("tokenFile"):
            path = self._user_directory / str(self.user["tokenFile"])
            return RenewedCredentials(TokenFile(path, clock=clock), clock=clock)
        if self.user.get("auth-provider"):
            return RenewedCredentials(
                functools.partial(_renew_by_provider, settings, clock, self.source), clock=clock
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
        return StaticCredentials(settings.api_key.get("BearerToken"))

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


def _warn_of_expiry(certificate: Path, identity: str, *, now: float) -> None:
    """Log that a client certificate has expired: the server only answers 401."""
    x509: Any = importlib.import_module("cryptography.x509")
    end = x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    if end.timestamp() <= now:
        date = end.strftime("%Y-%m-%d %H:%M UTC")
        _log.warning("the client certificate of %s expired on %s", identity, date)


def _default_paths(environ: Mapping[str, str]) -> list[Path]:
    named = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if not named and environ.get("HOME"):
        named = [Path(environ["HOME"]) / ".kube" / "config"]
    return [path for path in named if path.exists()]


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        document: object = yaml.load(text, SAFE_LOADER)  # noqa: S506 - a safe loader
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


def _renew_by_provider(settings: _Settings, clock: Clock, source: str) -> Credential:
    try:
        if settings.refresh_api_key_hook is not None:
            settings.refresh_api_key_hook(settings)
    except Exception as error:  # the package raises whatever comes up
        raise KubeconfigError(f"{source}: auth-provider: {_one_line(error)}") from error
    return Credential(
        header=settings.api_key.get("BearerToken"), stale_at=clock.now() + _PROVIDER_SECONDS
    )


def _use_certificate(tls: ClientTls | None, credential: Credential) -> None:
    if tls is not None and credential.certificate:
        tls.use_certificate(credential.certificate, credential.key)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__
