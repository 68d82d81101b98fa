"""Connections that need a handshake or a program: TLS, client certificates, exec plugins."""

import asyncio
import base64
import json
import ssl
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakeapi.security.certificates import Authority
from scheduler.client import (
    NODES,
    Connection,
    ConnectionFailed,
    KubeconfigError,
    RestClient,
    Unauthorized,
)
from scheduler.client.client_tls import ClientTls
from scheduler.client.connection import tls_context
from scheduler.client.kinds import ListOptions
from scheduler.client.kubeconfig import connection_from_kubeconfig
from scheduler.metrics import SchedulerMetrics
from tests.client import tls_directory
from tests.client.objects import InstantClock
from tests.client.scripted_server import Answer, ScriptedServer, Stream, status

TLS = tls_directory()

#: Plugins are real programs, and the official package takes its time to load.
pytestmark = pytest.mark.slow


def serving(certificate: str = "server.pem", *, demand_client: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(TLS / "ca.pem"))
    context.load_cert_chain(TLS / certificate)
    if demand_client:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def data(name: str) -> str:
    return base64.b64encode((TLS / name).read_bytes()).decode()


def connection(
    directory: Path,
    url: str,
    user: dict[str, Any],
    cluster: Mapping[str, object] | None = None,
    *,
    clock: InstantClock | None = None,
    follows_authority: bool = False,
) -> Connection:
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": url, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }
    path = directory / "config"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return connection_from_kubeconfig(
        [path], clock=clock or InstantClock(), follows_authority=follows_authority
    )


async def ask(connected: Connection, times: int = 1) -> None:
    async with RestClient(
        connected, user_agent="kubesched/test", clock=InstantClock(), qps=-1
    ) as client:
        for _ in range(times):
            await client.get(NODES, "n")


@pytest.mark.parametrize(
    "cluster",
    [
        {"certificate-authority": str(TLS / "ca.pem")},
        {"certificate-authority-data": data("ca.pem")},
        {"insecure-skip-tls-verify": True},
    ],
    ids=["file", "data", "insecure"],
)
async def test_a_trusted_server_is_talked_to(tmp_path: Path, cluster: dict[str, object]) -> None:
    async with ScriptedServer(Answer({}), tls=serving()) as server:
        await ask(connection(tmp_path, server.url, {}, cluster))

    assert len(server.asked) == 1


async def test_a_relative_certificate_is_sought_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki" / "ca.pem").write_bytes((TLS / "ca.pem").read_bytes())
    async with ScriptedServer(Answer({}), tls=serving()) as server:
        cluster = {"certificate-authority": "pki/ca.pem"}
        await ask(connection(tmp_path, server.url, {}, cluster))

    assert len(server.asked) == 1


class Rotation:
    """An API server with a certificate of an authority, whose file the client has."""

    def __init__(self, directory: Path) -> None:
        self.file, self._chain = directory / "ca.crt", directory / "server.pem"
        self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.rotate()

    def rotate(self) -> None:
        """Show a certificate of another authority on new connections, and write the file."""
        authority = Authority("authority", now=time.time())
        self.file.write_bytes(authority.certificate)
        self._chain.write_bytes(b"".join(authority.server(["127.0.0.1"])))
        self.tls.load_cert_chain(self._chain)


@pytest.mark.parametrize("is_followed", [True, False])
async def test_another_authority_is_trusted_on_new_connections(
    tmp_path: Path, is_followed: bool
) -> None:
    rotation, clock, metrics = Rotation(tmp_path), InstantClock(), SchedulerMetrics()
    node = Answer({"metadata": {"name": "n"}})
    async with ScriptedServer(Stream(then="hold"), node, tls=rotation.tls) as server:
        cluster = {"certificate-authority": str(rotation.file)}
        connected = connection(tmp_path, server.url, {}, cluster, follows_authority=is_followed)
        async with RestClient(
            connected, user_agent="kubesched/test", clock=clock, qps=-1, metrics=metrics
        ) as client:
            watch = asyncio.ensure_future(anext(client.watch(NODES, ListOptions())))
            await server.wait_for_requests(1)
            rotation.rotate()
            clock.time += 300
            if is_followed:
                await client.get(NODES, "n")
            else:
                with pytest.raises(ConnectionFailed, match="certificate verify failed"):
                    await client.get(NODES, "n")
            assert not watch.done(), "a watch goes on over its connection"
            watch.cancel()
    reloads = metrics.rest_client_transport_ca_reloads
    assert reloads["updated", "success"] == is_followed


async def test_another_authority_leaves_the_clients_certificate(tmp_path: Path) -> None:
    clock, file = InstantClock(), tmp_path / "ca.crt"
    file.write_bytes((TLS / "ca.pem").read_bytes())
    tls = ClientTls(lambda: tls_context(ca_file=str(file)), authority=file)
    certificate, key = ((TLS / f"client.{name}").read_text("ascii") for name in ("pem", "key"))
    tls.use_certificate(certificate, key)
    before = tls.context
    async with ScriptedServer(Answer({}), Answer({}), tls=serving(demand_client=True)) as server:
        connected = Connection(base_url=server.url, tls=tls)
        async with RestClient(
            connected, user_agent="kubesched/test", clock=clock, qps=-1
        ) as client:
            await client.get(NODES, "n")
            file.write_bytes((TLS / "ca.pem").read_bytes() + (TLS / "named.pem").read_bytes())
            clock.time += 300
            await client.get(NODES, "n")
    assert tls.context is not before


async def test_a_client_certificate_that_changes_is_shown_on_new_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = tmp_path / "client.crt", tmp_path / "client.key"
    trusted, other = (Authority(name, now=time.time()) for name in ("trusted", "other"))
    (tmp_path / "ca.crt").write_bytes(trusted.certificate)
    of_other, good = other.client("me"), trusted.client("me")
    certificate.write_bytes(of_other[0])
    key.write_bytes(of_other[1])
    clients = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.crt"))
    clients.load_cert_chain(TLS / "server.pem")
    clients.verify_mode = ssl.CERT_REQUIRED
    async with ScriptedServer(Answer({}), tls=clients) as server:
        user = {"client-certificate": str(certificate), "client-key": str(key)}
        cluster = {"certificate-authority": str(TLS / "ca.pem")}
        connected, clock = connection(tmp_path, server.url, user, cluster), InstantClock()
        assert connected.tls is not None
        connected.tls.refresh(clock.monotonic())
        certificate.write_bytes(good[0])
        connected.tls.refresh(clock.monotonic() + 300)
        assert "Loading client cert failed" in caplog.text, "the key is not the certificate's"
        key.write_bytes(good[1])
        clock.time += 600
        async with RestClient(
            connected, user_agent="kubesched/test", clock=clock, qps=-1
        ) as client:
            await client.get(NODES, "n")
    assert len(server.asked) == 1


async def test_a_server_without_a_trusted_certificate_is_refused(tmp_path: Path) -> None:
    async with ScriptedServer(Answer({}), tls=serving()) as server:
        with pytest.raises(ConnectionFailed, match="certificate verify failed") as caught:
            await ask(connection(tmp_path, server.url, {}))

    assert server.asked == []
    assert not caught.value.reset


@pytest.mark.parametrize("name", [None, "kubernetes.default"])
async def test_a_server_may_be_known_by_another_name(tmp_path: Path, name: str | None) -> None:
    cluster: dict[str, object] = {"certificate-authority-data": data("ca.pem")}
    if name is not None:
        cluster["tls-server-name"] = name
    async with ScriptedServer(Answer({}), tls=serving("named.pem")) as server:
        connected = connection(tmp_path, server.url, {}, cluster)
        if name is None:
            with pytest.raises(ConnectionFailed, match="IP address mismatch"):
                await ask(connected)
        else:
            await ask(connected)

    assert len(server.asked) == (0 if name is None else 1)


@pytest.mark.parametrize(
    "user",
    [
        {
            "client-certificate": str(TLS / "client.pem"),
            "client-key": str(TLS / "client.key"),
        },
        {
            "client-certificate-data": data("client.pem"),
            "client-key-data": data("client.key"),
        },
    ],
    ids=["files", "data"],
)
async def test_a_client_certificate_is_shown(tmp_path: Path, user: dict[str, Any]) -> None:
    cluster = {"certificate-authority-data": data("ca.pem")}
    async with ScriptedServer(Answer({}), tls=serving(demand_client=True)) as server:
        await ask(connection(tmp_path, server.url, user, cluster))

    assert len(server.asked) == 1


async def test_without_the_certificate_such_a_server_refuses(tmp_path: Path) -> None:
    cluster = {"certificate-authority-data": data("ca.pem")}
    async with ScriptedServer(Answer({}), tls=serving(demand_client=True)) as server:
        with pytest.raises(ConnectionFailed):
            await ask(connection(tmp_path, server.url, {}, cluster))

    assert server.asked == []


def test_a_key_that_does_not_fit_is_named(tmp_path: Path) -> None:
    user = {
        "client-certificate-data": data("client.pem"),
        "client-key": str(TLS / "server.pem"),
    }
    with pytest.raises(KubeconfigError, match=r"config: client-certificate, client-key: "):
        connection(tmp_path, "https://host", user)


# --- exec plugins ---


def plugin(directory: Path, body: str, **config: object) -> dict[str, Any]:
    """A user whose plugin is a Python program with `body`, which can `answer(**status)`."""
    program = directory / "plugin.py"
    program.write_text(
        "import json, os, sys, pathlib\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "counter = pathlib.Path('counter')\n"
        "count = int(counter.read_text(encoding='utf-8')) + 1 if counter.exists() else 1\n"
        "counter.write_text(str(count), encoding='utf-8')\n"
        "def answer(**status):\n"
        "    head = {'apiVersion': info['apiVersion'], 'kind': 'ExecCredential'}\n"
        "    print(json.dumps({**head, 'status': status}))\n" + body,
        encoding="utf-8",
    )
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(program)],
            "interactiveMode": "Never",
            **config,
        }
    }


async def test_a_plugins_token_is_sent(tmp_path: Path) -> None:
    user = plugin(
        tmp_path,
        "answer(token=os.environ['TOKEN'])",
        env=[{"name": "TOKEN", "value": "from-plugin"}],
    )
    async with ScriptedServer(Answer({}), Answer({})) as server:
        await ask(connection(tmp_path, server.url, user), times=2)

    assert [a.headers["Authorization"] for a in server.asked] == ["Bearer from-plugin"] * 2
    assert (tmp_path / "counter").read_text(encoding="utf-8") == "1"


async def test_a_plugin_runs_again_once_its_token_has_expired(tmp_path: Path) -> None:
    clock = InstantClock()
    # 2027-01-15T08:00:00Z is where the instant clock starts.
    user = plugin(
        tmp_path,
        "end = f'2027-01-15T{7 + 2 * count:02}:00:00Z'\n"
        "answer(token=f'token-{count}', expirationTimestamp=end)",
    )
    async with ScriptedServer(*[Answer({})] * 3) as server:
        connected = connection(tmp_path, server.url, user, clock=clock)
        for hours in (0, 1.5, 0):
            clock.time += hours * 3600
            await ask(connected)

    tokens = [a.headers["Authorization"] for a in server.asked]
    assert tokens == ["Bearer token-1", "Bearer token-2", "Bearer token-2"]


async def test_a_plugin_runs_again_after_a_rejection(tmp_path: Path) -> None:
    user = plugin(tmp_path, "answer(token=f'token-{count}')")
    no = Answer(status(401, "Unauthorized"), 401)
    async with ScriptedServer(no, Answer({})) as server:
        connected = connection(tmp_path, server.url, user)
        with pytest.raises(Unauthorized):
            await ask(connected)
        await ask(connected)

    tokens = [a.headers["Authorization"] for a in server.asked]
    assert tokens == ["Bearer token-1", "Bearer token-2"]


async def test_a_plugin_may_answer_with_a_certificate(tmp_path: Path) -> None:
    status = {
        "clientCertificateData": (TLS / "client.pem").read_text(encoding="utf-8"),
        "clientKeyData": (TLS / "client.key").read_text(encoding="utf-8"),
    }
    user = plugin(tmp_path, f"answer(**{status!r})")
    cluster = {"certificate-authority-data": data("ca.pem")}
    async with ScriptedServer(Answer({}), tls=serving(demand_client=True)) as server:
        await ask(connection(tmp_path, server.url, user, cluster))

    assert "Authorization" not in server.asked[0].headers


async def test_a_plugin_that_wants_it_gets_the_cluster(tmp_path: Path) -> None:
    body = "answer(token=json.dumps(info['spec']['cluster'], sort_keys=True))"
    user = plugin(tmp_path, body, provideClusterInfo=True)
    async with ScriptedServer(Answer({})) as server:
        await ask(connection(tmp_path, server.url, user))

    told = server.asked[0].headers["Authorization"].removeprefix("Bearer ")
    assert json.loads(told)["server"] == server.url


def test_a_credential_plugin_is_not_run_for_a_user_with_a_token(tmp_path: Path) -> None:
    user = {**plugin(tmp_path, "answer(token='x')"), "token": "mine"}
    connected = connection(tmp_path, "http://host", user)

    assert connected.credentials.header == "Bearer mine"  # type: ignore[attr-defined]
    assert not (tmp_path / "counter").exists()


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("sys.exit('out\\nof\\norder')", "exec: process returned 1. out of order"),
        ("print('hello')", "exec: failed to decode process output: "),
        ("answer()", "expected a token or a certificate from the plugin"),
        (
            "answer(clientCertificateData='x')",
            "expected the plugin to answer with a certificate and its key",
        ),
        (
            "answer(token='t', expirationTimestamp='tomorrow')",
            "expirationTimestamp: expected a time, got 'tomorrow'",
        ),
        ("info['apiVersion'] = 'v0'; answer(token='t')", "exec: plugin api version v0 does not"),
    ],
)
def test_a_plugin_that_fails_is_an_error_from_the_start(
    tmp_path: Path, body: str, complaint: str
) -> None:
    with pytest.raises(KubeconfigError) as caught:
        connection(tmp_path, "http://host", plugin(tmp_path, body))

    start = f"{tmp_path / 'config'}: user 'u': exec: "
    assert str(caught.value).startswith(start + complaint)
    assert "\n" not in str(caught.value)


def test_the_error_of_a_missing_plugin_has_its_install_hint(tmp_path: Path) -> None:
    user = plugin(tmp_path, "", command="no-such-plugin", installHint="Run brew install it.")
    with pytest.raises(KubeconfigError) as caught:
        connection(tmp_path, "http://host", user)

    assert str(caught.value).endswith(
        "user 'u': exec: there is no program 'no-such-plugin'; Run brew install it."
    )


def test_a_plugins_certificate_that_is_none_is_an_error(tmp_path: Path) -> None:
    body = "answer(clientCertificateData='x', clientKeyData='y')"
    with pytest.raises(KubeconfigError, match="exec: not a certificate and key in PEM"):
        connection(tmp_path, "https://host", plugin(tmp_path, body))


# --- auth providers ---


def token(expires: int) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    return f"e30.{claims}.sig"


def provider(issuer: str) -> dict[str, Any]:
    """A user of the auth provider oidc, whose token has expired."""
    config = {
        "id-token": token(1),
        "idp-issuer-url": issuer,
        "client-id": "me",
        "client-secret": "s",
        "refresh-token": "old",
    }
    return {"auth-provider": {"name": "oidc", "config": config}}


async def test_a_token_that_a_provider_renewed_is_kept_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    renewed = {"id_token": token(4102444800), "refresh_token": "new"}
    async with ScriptedServer() as server:
        server.script.extend(
            [
                Answer({"token_endpoint": f"{server.url}/token"}),
                Answer({**renewed, "access_token": "a", "token_type": "Bearer"}),
                Answer({}),
            ]
        )
        # The package blocks while it asks the provider.
        await ask(await asyncio.to_thread(connection, tmp_path, server.url, provider(server.url)))

    kept = yaml.safe_load((tmp_path / "config").read_text(encoding="utf-8"))
    config = kept["users"][0]["user"]["auth-provider"]["config"]
    assert server.asked[-1].headers["Authorization"] == f"Bearer {renewed['id_token']}"
    assert (config["id-token"], config["refresh-token"]) == (renewed["id_token"], "new")


def test_a_provider_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"config: .*refused"):
        connection(tmp_path, "http://host", provider("http://127.0.0.1:1"))
