"""A server with TLS and RBAC, and clients with credentials: kubectl, kube-scheduler, kubesched."""

import asyncio
import contextlib
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from fakeapi import FakeApiServer, Security, ServerOptions, User
from tests.fakeapi.api_client import ApiClient
from tests.fakeapi.objects import NODES, PODS, pod
from tests.integration.clients import PATIENCE_SECONDS, Kubectl, fake_api_process, kubectls
from tests.integration.test_stock_scheduler import BINARY as STOCK_SCHEDULER

pytestmark = pytest.mark.slow

#: The programs that schedule, each with what it takes to start them.
SCHEDULERS = [
    pytest.param((sys.executable, "-m", "scheduler"), id="ours"),
    pytest.param(
        (STOCK_SCHEDULER,),
        id="stock",
        marks=pytest.mark.skipif(not STOCK_SCHEDULER, reason="no kube-scheduler"),
    ),
]
NONE = pytest.param("", marks=pytest.mark.skip("no kubectl"))
KUBECTLS: list[Any] = [*kubectls()] or [NONE]
NODE = {
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}


@pytest.fixture(params=KUBECTLS)
def kubectl(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kubectl]:
    """A kubectl with the kubeconfig that a server with TLS and RBAC has written."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("of-jane,jane,1,devs\n", encoding="utf-8")
    flags = ("--tls", "--authorization-mode", "RBAC", "--token-auth-file", str(tokens))
    with fake_api_process(tmp_path, *flags) as kubeconfig:
        yield Kubectl(request.param, kubeconfig, tmp_path)


def test_kubectl_auth_prints_user_and_permissions(kubectl: Kubectl) -> None:
    assert "kubernetes-admin" in kubectl("auth", "whoami")
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "impersonation is not served" in kubectl.refused("get", "pods", "--as=jane")


def test_kubectl_with_a_token_is_the_user_of_the_token(kubectl: Kubectl) -> None:
    kubectl("config", "set-credentials", "jane", "--token=of-jane")
    kubectl("config", "set-context", "--current", "--user=jane")
    assert "jane" in kubectl("auth", "whoami")
    assert 'User "jane" cannot list resource "pods"' in kubectl.refused("get", "pods")
    refused = kubectl.run("auth", "can-i", "list", "pods")
    assert (refused.returncode, refused.stdout) == (1, "no\n")
    kubectl("config", "set-credentials", "jane", "--token=wrong")
    assert "(Unauthorized)" in kubectl.refused("get", "pods", "--request-timeout=5s")


@contextlib.asynccontextmanager
async def running(*command: str) -> AsyncIterator[Process]:
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


async def bound(api: ApiClient, name: str) -> str:
    """The node of a pod, as soon as it has one."""
    async with api.watch(PODS, resourceVersion=0) as events:
        while True:
            event = await events.next(patience_seconds=PATIENCE_SECONDS)
            assert event is not None
            node: Any = event["object"].get("spec", {}).get("nodeName")
            if event["object"]["metadata"]["name"] == name and node:
                return str(node)


async def status_of(session: aiohttp.ClientSession, url: str, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    async with session.get(url, headers=headers, ssl=False) as response:
        return response.status


@pytest.mark.parametrize("command", SCHEDULERS)
async def test_a_scheduler_with_its_own_rights_schedules_and_authenticates_its_clients(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    users = {
        "root": User("root", ("system:masters",)),
        "prometheus": User("prometheus", ("system:monitoring",)),
        "jane": User("jane"),
    }
    security = Security(tls=True, tokens=users, authorization_mode="RBAC")
    port = free_port()
    path = tmp_path / "kubeconfig"
    flags = [
        f"--{name}={path}"
        for name in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    ]
    connector = aiohttp.TCPConnector(ssl=False)
    async with FakeApiServer(
        security=security, options=ServerOptions(requests_kept=1000)
    ) as server:
        path.write_text(server.kubeconfig_for("system:kube-scheduler"), encoding="utf-8")
        listening = ("--bind-address=127.0.0.1", f"--secure-port={port}")
        async with (
            aiohttp.ClientSession(
                connector=connector, headers={"Authorization": "Bearer root"}
            ) as session,
            running(*command, *flags, *listening),
        ):
            api = ApiClient(session, server.url)
            await api.create(NODES, NODE)
            await api.create(PODS, pod("web"))
            assert await bound(api, "web") == "n1"
            metrics = f"https://127.0.0.1:{port}/metrics"
            assert await status_of(session, metrics, "prometheus") == 200
            assert await status_of(session, metrics, "jane") == 403
            assert await status_of(session, metrics, "unknown") == 401
        refused = [entry for entry in server.requests if entry.status in (401, 403)]
        assert not refused


def test_a_token_that_kubectl_made_has_the_permissions_of_its_account(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "bot")
    kubectl("create", "rolebinding", "bot", "--clusterrole=view", "--serviceaccount=default:bot")
    config = yaml.safe_load(Path(kubectl.environment["KUBECONFIG"]).read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": kubectl("create", "token", "bot").strip()}
    Path(kubectl.environment["KUBECONFIG"]).write_text(yaml.safe_dump(config), encoding="utf-8")
    assert "system:serviceaccount:default:bot" in kubectl("auth", "whoami")
    assert kubectl("get", "pods", "-o", "name") == ""
    refused = kubectl.refused("create", "configmap", "c")
    assert 'User "system:serviceaccount:default:bot" cannot create resource' in refused
