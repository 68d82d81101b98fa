"""Connections to API servers: address and credentials, from options or a kubeconfig file.

Users of a kubeconfig may have tokens (also in a file), client certificates and credential plugins
(`exec`), as in client-go's `clientcmd` and `plugin/pkg/client/auth/exec`.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import yaml

from .errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_Part: TypeAlias = dict[str, Any]

_EXEC_SECONDS: Final = 60.0


class Connection(NamedTuple):
    """The address of an API server, and the credentials for it."""

    url: str
    tls: ssl.SSLContext | None = None
    token: str = ""

    @classmethod
    def from_kubeconfig(cls, path: Path, context: str = "") -> Connection:
        """Return the connection of a context, by default the current one. Raises InputError."""
        try:
            return _connection(path, context)
        except KeyError as error:
            raise InputError(f"{path}: expected {error.args[0]}") from error
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from error
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(f"{path}: not a kubeconfig: {error}") from error
        except (subprocess.SubprocessError, yaml.YAMLError) as error:
            raise InputError(f"{path}: {error}".replace("\n", " ")) from error


def _connection(path: Path, context: str) -> Connection:
    document: _Part = yaml.safe_load(path.read_text(encoding="utf-8"))
    chosen = _named(document, "context", context or str(document.get("current-context", "")))
    cluster = _named(document, "cluster", str(chosen["cluster"]))
    user = _named(document, "user", str(chosen.get("user", ""))) if chosen.get("user") else {}
    if isinstance(user.get("exec"), dict):
        user = {**user, **_from_plugin(user["exec"], path.parent)}
    token = str(user.get("token") or "")
    if not token and user.get("tokenFile"):
        token = (path.parent / user["tokenFile"]).read_text(encoding="utf-8").strip()
    url = str(cluster["server"])
    return Connection(url, _tls(cluster, user, path.parent) if _is_https(url) else None, token)


def _named(document: _Part, kind: str, name: str) -> _Part:
    """Return the entry of that name in the list of contexts, clusters or users."""
    for entry in document.get(f"{kind}s") or ():
        if entry.get("name") == name:
            return dict(entry.get(kind) or {})
    raise KeyError(f"a {kind} named {name!r}")


def _is_https(url: str) -> bool:
    return url.startswith("https://")


def _tls(cluster: _Part, user: _Part, folder: Path) -> ssl.SSLContext:
    authority = _data(cluster, "certificate-authority", folder)
    tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    certificate, key = (_data(user, f"client-{part}", folder) for part in ("certificate", "key"))
    if certificate and key:
        # `ssl` reads a key from a file only.
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            tls.load_cert_chain(file.name)
    return tls


def _data(part: _Part, name: str, folder: Path) -> bytes | None:
    """Return a certificate or a key, from the field with data or from the named file."""
    if data := part.get(f"{name}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise ValueError(f"{name}-data: {error}") from error
    return (folder / part[name]).read_bytes() if part.get(name) else None


def _from_plugin(plugin: _Part, folder: Path) -> _Part:
    """Run a credential plugin and return its credentials as fields of a user."""
    command = str(plugin["command"])
    if os.sep in command:
        command = str(folder / command)
    request = {
        "apiVersion": plugin["apiVersion"],
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    variables = {str(entry["name"]): str(entry["value"]) for entry in plugin.get("env") or ()}
    ended = subprocess.run(
        [command, *map(str, plugin.get("args") or ())],
        env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(request)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=_EXEC_SECONDS,
    )
    if ended.returncode != 0:
        raise ValueError(f"{command}: exit status {ended.returncode}: {ended.stderr[-300:]}")
    status: _Part = json.loads(ended.stdout)["status"]
    pair = {
        f"{name}-data": base64.b64encode(status[field].encode()).decode()
        for name, field in (
            ("client-certificate", "clientCertificateData"),
            ("client-key", "clientKeyData"),
        )
        if status.get(field)
    }
    return {"token": status.get("token"), **pair}
