"""A real cluster on loopback: etcd and kube-apiserver, with TLS, RBAC and an audit log.

    with RealCluster(directory) as cluster:
        cluster.kubeconfig                                    # of an administrator
        cluster.kubeconfig_for("jane", ["developers"])        # of a user with a certificate
        cluster.api_server.kill(); cluster.api_server.start(); cluster.wait_until_ready()

There is no kubelet, and a controller manager only if a test starts it, so nothing else acts but
the tests and the schedulers that they start. Without one, three admission plugins that wait for it
are off: ServiceAccount, TaintNodesByCondition and StorageObjectInUseProtection.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import random
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from fakeapi.security.certificates import Authority, CertificatePair
from tests.integration.clients import Kubectl
from tests.realcluster.binaries import (
    ETCD,
    KUBE_APISERVER,
    KUBE_CONTROLLER_MANAGER,
    KUBE_SCHEDULER,
    KUBECTL,
)
from tests.realcluster.process import Process

Json = dict[str, Any]

ROOT: Final = Path(__file__).parent.parent.parent
#: The user that both schedulers are in their usual place; its rights are built in.
SCHEDULER_USER: Final = "system:kube-scheduler"
_ADMINISTRATORS: Final = "system:masters"
#: Admission plugins that wait for a controller.
WITHOUT_CONTROLLER: Final = (
    "ServiceAccount",
    "TaintNodesByCondition",
    "StorageObjectInUseProtection",
)
#: Below the range of ephemeral ports: a component that is started again finds its port free.
_PORTS: Final = range(20_000, 30_000)
_READY_SECONDS: Final = 120.0
#: The deletion of thousands of pods takes its time.
_REQUEST_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.1
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
#: Every request but those of leases and events is recorded, with the status code of its answer.
_AUDIT_POLICY: Final[Json] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "resources": [{"group": "coordination.k8s.io"}]},
        {
            "level": "None",
            "resources": [{"resources": ["events"]}, {"group": "events.k8s.io"}],
        },
        {"level": "Metadata"},
    ],
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """A request in the API server's audit log, and the status code of the answer."""

    user: str
    agent: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    #: When the request arrived, in seconds since the epoch.
    seconds: float
    #: The identifier of the token.
    credential: str

    @property
    def program(self) -> str:
        """`ours`, `stock`, or the name in another client's user agent."""
        word = self.agent.partition("/")[0]
        return {"kubesched": "ours", "kube-scheduler": "stock"}.get(word, word)

    @classmethod
    def from_json(cls, event: Json) -> AuditEvent:
        found: Json = event.get("objectRef") or {}
        return cls(
            user=event["user"].get("username", ""),
            agent=event.get("userAgent", ""),
            verb=event["verb"],
            resource=found.get("resource", ""),
            subresource=found.get("subresource", ""),
            namespace=found.get("namespace", ""),
            name=found.get("name", ""),
            code=_code(event),
            seconds=datetime.datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
            credential=",".join(event["user"].get("extra", {}).get(_CREDENTIAL, ())),
        )


def _code(event: Json) -> int:
    return int((event.get("responseStatus") or {}).get("code", 0))


class RealCluster:
    """A kube-apiserver with an etcd of its own, and the schedulers that are started for it.

    `api_server_flags` are further flags of kube-apiserver. The data, logs and certificates are in
    `directory`. Raises NoBinary if a program is missing.
    """

    def __init__(
        self,
        directory: Path,
        *,
        api_server_flags: Sequence[str] = (),
        disabled_admission: Sequence[str] = WITHOUT_CONTROLLER,
    ) -> None:
        self.directory: Final = directory
        self._disabled_admission = disabled_admission
        self._authority = Authority("real-cluster", now=time.time())
        #: The bearer token of an administrator.
        self.token: Final = "administrator"
        self.ca: Final = directory / "ca.crt"
        self.ca.write_bytes(self._authority.certificate)
        self._write_pair("server", self._authority.server(["127.0.0.1", "localhost"]))
        client, peer, port = free_ports(3)
        self.url: Final = f"https://127.0.0.1:{port}"
        etcd = f"http://127.0.0.1:{client}"
        self.etcd: Final = Process(
            "etcd", self._etcd_command(etcd, f"http://127.0.0.1:{peer}"), directory / "etcd.log"
        )
        command = [*self._api_server_command(etcd, port), *api_server_flags]
        self.api_server: Final = Process("kube-apiserver", command, directory / "apiserver.log")
        self._clients: list[Process] = []
        #: The kubeconfig of an administrator.
        self.kubeconfig: Final = self.kubeconfig_for("admin", [_ADMINISTRATORS])

    def __enter__(self) -> RealCluster:
        try:
            self.etcd.start()
            self.api_server.start()
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self._clients, self.api_server, self.etcd):
            process.kill()

    def wait_until_ready(self, seconds: float = _READY_SECONDS) -> None:
        """Wait until the API server is ready. Raises TimeoutError, with the log in its text."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.etcd.is_running and self.api_server.is_running:
            with contextlib.suppress(OSError):
                if self.request("GET", "/readyz")[0] == 200:
                    return
            time.sleep(_LOOK_SECONDS)
        raise TimeoutError(f"{self.api_server.last_output}\n{self.etcd.last_output}")

    # Clients

    def tls(self) -> ssl.SSLContext:
        """Return the TLS settings of a client of the API server."""
        return ssl.create_default_context(cafile=str(self.ca))

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request as an administrator; return code and parsed body. Raises OSError."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        patches = "application/merge-patch+json"
        request.add_header("Content-Type", patches if method == "PATCH" else "application/json")
        try:
            with urllib.request.urlopen(
                request, timeout=_REQUEST_SECONDS, context=self.tls()
            ) as answer:
                code, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                code, text = error.code, error.read()
        try:
            return code, json.loads(text)
        except ValueError:
            return code, text.decode(errors="replace")

    def create(self, path: str, body: Json) -> Json:
        """Create an object that the server must accept; return it."""
        code, created = self.request("POST", path, body)
        assert code == 201, created
        return dict(created)

    def kubeconfig_for(self, user: str, groups: Iterable[str] = ()) -> Path:
        """Write the kubeconfig of a user with a client certificate; return its path."""
        name = user.replace(":", "-")
        certificate, key = self._write_pair(name, self._authority.client(user, groups))
        return self._write_kubeconfig(
            name, {"client-certificate": str(certificate), "client-key": str(key)}
        )

    def kubeconfig_with_token(self, name: str, token_file: Path) -> Path:
        """Write a kubeconfig that reads its bearer token from a file; return its path."""
        return self._write_kubeconfig(name, {"tokenFile": str(token_file)})

    def service_account_token(
        self, namespace: str, name: str, *, bound_to: Json | None = None
    ) -> str:
        """Return a new token of a service account; `bound_to` is a reference to an object.

        The token is valid for an hour, and not after the deletion of the account or that object.
        """
        spec: Json = {"expirationSeconds": 3600}
        if bound_to is not None:
            spec["boundObjectRef"] = bound_to
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return str(self.create(path, {"spec": spec})["status"]["token"])

    def kubectl(self, kubeconfig: Path | None = None) -> Kubectl:
        """Return a kubectl, by default an administrator's. Raises NoBinary."""
        return Kubectl(str(KUBECTL.find()), kubeconfig or self.kubeconfig, self.directory)

    # Objects

    def namespace(self, name: str = "") -> str:
        """Create a namespace, by default with a generated name; return the name."""
        metadata = {"name": name} if name else {"generateName": "test-"}
        created = self.create("/api/v1/namespaces", {"metadata": metadata})
        return str(created["metadata"]["name"])

    def nodes(self, count: int, *, prefix: str = "n", **allocatable: str) -> list[str]:
        """Create nodes that are ready, and stay so for want of a node controller; return names.

        Each has the labels of its hostname and of one of three zones (`z0` to `z2`).
        """
        resources = {"cpu": "8", "memory": "32Gi", "pods": "110", **allocatable}
        names = [f"{prefix}{number}" for number in range(count)]
        for number, name in enumerate(names):
            labels = {
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": f"z{number % 3}",
            }
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
            metadata = {"name": name, "labels": labels}
            self.create("/api/v1/nodes", {"metadata": metadata, "status": status})
        return names

    def clear(self) -> None:
        """Delete all pods, nodes and leases, at once."""
        now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        _, found = self.request("GET", "/api/v1/namespaces")
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
        paths = [f"/api/v1/namespaces/{each['metadata']['name']}/pods" for each in found["items"]]
        for path in (*paths, "/api/v1/nodes", leases):
            code, answer = self.request("DELETE", path, now)
            assert code in (200, 404), answer

    def audit(self) -> list[AuditEvent]:
        """Return the requests that were answered so far, but those for leases and events."""
        text = (self.directory / "audit.log").read_text(encoding="utf-8")
        # A server that was killed may have left half a line.
        lines = (line for line in text.splitlines() if line.endswith("}"))
        events = [json.loads(line) for line in lines]
        # A request without valid credentials has one event, and a watch has two.
        return [
            AuditEvent.from_json(event)
            for event in events
            if event["stage"] != "ResponseStarted" or _code(event) == 401
        ]

    # Schedulers

    @contextlib.contextmanager
    def scheduler(
        self, kind: str, *flags: str, kubeconfig: Path | None = None
    ) -> Iterator[Process]:
        """Run a scheduler, `ours` or `stock`, until the block ends.

        Without `kubeconfig` and the flag `--config` it is the user system:kube-scheduler. It serves
        nothing without a flag for that.
        """
        command = {
            "ours": lambda: [sys.executable, "-m", "scheduler"],
            "stock": lambda: [str(KUBE_SCHEDULER.find())],
        }[kind]()
        if not any(flag.startswith("--config=") for flag in flags):
            command.append(f"--kubeconfig={kubeconfig or self.kubeconfig_for(SCHEDULER_USER)}")
        with self._running(kind, [*command, "--secure-port=0", "-v=2", *flags]) as process:
            yield process

    @contextlib.contextmanager
    def controllers(self, *flags: str) -> Iterator[Process]:
        """Run the stock kube-controller-manager with its default controllers until the block ends.

        Nodes without a kubelet are then unreachable, unless something renews their leases.
        """
        command = [
            str(KUBE_CONTROLLER_MANAGER.find()),
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={self.directory}/service-accounts.key",
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--secure-port=0",
            "-v=2",
        ]
        with self._running("kube-controller-manager", [*command, *flags]) as process:
            yield process

    @contextlib.contextmanager
    def _running(self, name: str, command: Sequence[str]) -> Iterator[Process]:
        process = Process(
            name,
            command,
            self.directory / f"{name}-{len(self._clients)}.log",
            environment={"PYTHONPATH": str(ROOT)},
        )
        self._clients.append(process)
        process.start()
        try:
            yield process
        finally:
            process.stop()

    # Files and commands

    def _etcd_command(self, client: str, peer: str) -> list[str]:
        return [
            str(ETCD.find()),
            f"--data-dir={self.directory}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            # What was written is safe from the death of the process, not from that of the machine.
            "--unsafe-no-fsync",
        ]

    def _api_server_command(self, etcd: str, port: int) -> list[str]:
        directory = self.directory
        tokens = directory / "tokens.csv"
        tokens.write_text(f"{self.token},admin,admin,{_ADMINISTRATORS}\n", encoding="utf-8")
        policy = directory / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(_AUDIT_POLICY), encoding="utf-8")
        accounts = self._authority.client("service-accounts")
        certificate, key = self._write_pair("service-accounts", accounts)
        return [
            str(KUBE_APISERVER.find()),
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={port}",
            f"--tls-cert-file={directory}/server.crt",
            f"--tls-private-key-file={directory}/server.key",
            f"--client-ca-file={self.ca}",
            f"--token-auth-file={tokens}",
            f"--service-account-key-file={certificate}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/12",
            "--authorization-mode=RBAC",
            f"--disable-admission-plugins={','.join(self._disabled_admission)}",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={directory}/audit.log",
        ]

    def _write_pair(self, name: str, pair: CertificatePair) -> tuple[Path, Path]:
        certificate, key = (self.directory / f"{name}.{suffix}" for suffix in ("crt", "key"))
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        return certificate, key

    def _write_kubeconfig(self, name: str, user: Json) -> Path:
        path = self.directory / f"{name}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.ca)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": name}}],
            "current-context": "real",
        }
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        return path


def free_ports(count: int) -> list[int]:
    """Return ports on which nothing listens."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"fewer than {count} free ports between {_PORTS.start} and {_PORTS.stop}")
