"""Exec plugins: a program that answers who we are.

The official `kubernetes` package runs the program and checks the form of its answer; here is what
kubectl adds: an answer with neither a token nor a certificate is an error, a missing program is
reported with the hint its author gave, and the expiry is kept.
Source: client-go `plugin/pkg/client/auth/exec/exec.go`, and "client-go credential plugins" in the
Kubernetes documentation.
"""

from __future__ import annotations

import importlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scheduler.client.credentials import Credential
from scheduler.client.errors import KubeconfigError

if TYPE_CHECKING:
    from pathlib import Path


class ExecPlugin:
    """Runs the plugin of one kubeconfig user; a `load` function for `RenewedCredentials`.

    `source` begins every error: the file and the user. `directory` is where a relative command
    starts from: the one the kubeconfig is in.
    """

    def __init__(
        self, config: object, *, cluster: dict[str, Any], directory: Path, source: str
    ) -> None:
        self._source = f"{source}: exec"
        if not isinstance(config, dict):
            raise KubeconfigError(f"{self._source}: expected a mapping")
        package: Any = importlib.import_module("kubernetes.config.kube_config")
        self._command = str(config.get("command"))
        self._hint = str(config.get("installHint") or "")
        try:
            self._provider: Any = package.ExecProvider(
                package.ConfigNode("exec", config),
                str(directory),
                package.ConfigNode("cluster", cluster),
            )
        except Exception as error:  # the package raises whatever comes up
            raise self._failure(error) from error

    def __call__(self) -> Credential:
        """Run the plugin and wait for its answer. Raises KubeconfigError."""
        try:
            status: object = self._provider.run()
        except FileNotFoundError as error:
            hint = f"; {self._hint}" if self._hint else ""
            raise KubeconfigError(
                f"{self._source}: there is no program {self._command!r}{hint}"
            ) from error
        except Exception as error:  # the package raises whatever comes up
            raise self._failure(error) from error
        if not isinstance(status, dict):
            raise KubeconfigError(f"{self._source}: expected the plugin to answer with a status")
        return self._credential(status)

    def _credential(self, status: dict[str, object]) -> Credential:
        token, certificate, key, expiry = (
            str(status.get(name) or "")
            for name in ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp")
        )
        if not token and not certificate and not key:
            raise KubeconfigError(
                f"{self._source}: expected a token or a certificate from the plugin"
            )
        if bool(certificate) != bool(key):
            raise KubeconfigError(
                f"{self._source}: expected the plugin to answer with a certificate and its key"
            )
        return Credential(
            header=f"Bearer {token}" if token else None,
            stale_at=self._epoch_seconds(expiry) if expiry else None,
            certificate=certificate,
            key=key,
        )

    def _epoch_seconds(self, text: str) -> float:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise KubeconfigError(
                f"{self._source}: expirationTimestamp: expected a time, got {text!r}"
            ) from error
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    def _failure(self, error: Exception) -> KubeconfigError:
        return KubeconfigError(f"{self._source}: {' '.join(str(error).split())}")
