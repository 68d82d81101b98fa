"""The client reaches servers with TLS, tokens, certificates and credential plugins."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.api import ApiClient, Ref
from conformance.connection import Connection
from conformance.errors import InputError, RequestFailed
from fakeapi import FakeApiServer, Security, User


async def names(connection: Connection) -> list[object]:
    async with ApiClient(connection) as api:
        found: list[Any] = await api.list("Namespace")
        return [each["metadata"]["name"] for each in found]


async def test_a_client_certificate_of_a_kubeconfig(tmp_path: Path) -> None:
    async with FakeApiServer(security=Security(tls=True)) as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
        assert "default" in await names(Connection.from_kubeconfig(kubeconfig))


async def test_a_token_in_a_file_beside_the_kubeconfig(tmp_path: Path) -> None:
    security = Security(tls=True, tokens={"secret": User("jane", ("system:masters",))})
    async with FakeApiServer(security=security) as server:
        document = yaml.safe_load(server.kubeconfig)
        (tmp_path / "token").write_text("secret\n", encoding="utf-8")
        document["users"][0]["user"] = {"tokenFile": "token"}
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        assert "default" in await names(Connection.from_kubeconfig(path))


async def test_a_credential_plugin_gives_the_token(tmp_path: Path) -> None:
    security = Security(tls=True, tokens={"secret": User("jane", ("system:masters",))})
    program = "import json, os; assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec']; "
    program += "print(json.dumps({'status': {'token': os.environ['TOKEN']}}))"
    async with FakeApiServer(security=security) as server:
        document = yaml.safe_load(server.kubeconfig)
        document["users"][0]["user"] = {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": sys.executable,
                "args": ["-c", program],
                "env": [{"name": "TOKEN", "value": "secret"}],
            }
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        assert "default" in await names(Connection.from_kubeconfig(path))


async def test_a_server_whose_certificate_is_not_checked(tmp_path: Path) -> None:
    security = Security(tls=True, tokens={"secret": User("jane", ("system:masters",))})
    async with FakeApiServer(security=security) as server:
        cluster = {"server": server.url}
        path = written(tmp_path, cluster, {"token": "secret"})
        with pytest.raises(RequestFailed, match="certificate verify failed"):
            await names(Connection.from_kubeconfig(path))
        path = written(tmp_path, {**cluster, "insecure-skip-tls-verify": True}, {"token": "secret"})
        assert "default" in await names(Connection.from_kubeconfig(path))


def written(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    """Write a kubeconfig with one cluster and one user."""
    document = {
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "clusters": [{"name": "one", "cluster": cluster}],
        "users": [{"name": "one", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ({"client-certificate-data": "%"}, "not a kubeconfig: client-certificate-data: "),
        ({"client-certificate": "missing.pem"}, "No such file"),
        (
            {"exec": {"apiVersion": "v1", "command": "sh", "args": ["-c", "echo no >&2; exit 3"]}},
            "not a kubeconfig: sh: exit status 3: no",
        ),
        ({"exec": {"apiVersion": "v1", "command": "./missing"}}, "No such file"),
    ],
)
def test_credentials_that_cannot_be_had_are_refused(
    user: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    path = written(tmp_path, {"server": "https://127.0.0.1:1"}, user)
    with pytest.raises(InputError, match=problem):
        Connection.from_kubeconfig(path)


async def test_a_server_that_is_gone_or_speaks_another_language_is_a_failed_request() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
        writer.close()

    other = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    with pytest.raises(RequestFailed, match="not the expected JSON in the answer"):
        await names(Connection(f"http://127.0.0.1:{port}"))
    other.close()
    with pytest.raises(RequestFailed, match=r"GET /api/v1: .*Connect"):
        await names(Connection(f"http://127.0.0.1:{port}"))


async def test_another_context(tmp_path: Path) -> None:
    async with FakeApiServer() as server:
        document = yaml.safe_load(server.kubeconfig)
        context = {**document["contexts"][0], "name": "other"}
        document |= {"contexts": [context], "current-context": "missing"}
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(document), encoding="utf-8")
        assert "default" in await names(Connection.from_kubeconfig(path, "other"))
        with pytest.raises(InputError, match="expected a context named 'missing'"):
            Connection.from_kubeconfig(path)


@pytest.mark.parametrize("text", ["", "[1]", "}", "clusters: 3"])
def test_another_document_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="kubeconfig"):
        Connection.from_kubeconfig(path)
    with pytest.raises(InputError, match="No such file"):
        Connection.from_kubeconfig(tmp_path / "missing")


async def test_a_wrong_credential_is_a_refusal_with_its_code() -> None:
    async with FakeApiServer(security=Security(token="right")) as server:
        with pytest.raises(RequestFailed, match="401") as refused:
            await names(Connection(server.url, token="wrong"))
    assert refused.value.status == 401


async def test_long_lists_come_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.api._PAGE_SIZE", 2)
    async with FakeApiServer() as server, ApiClient(Connection(server.url)) as api:
        for number in range(5):
            metadata = {"name": f"n{number}"}
            await api.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        assert len(await api.list("Node")) == 5


async def test_a_watch_goes_on_from_a_list_and_ends_when_its_version_is_too_old() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    nodes = Ref("Node", "", "")
    async with FakeApiServer() as server, ApiClient(Connection(server.url)) as api:
        before = await api.listing(nodes, dict)
        await api.create(node)
        events = api.watch(nodes, dict, before.resource_version)
        event = await anext(events)
        assert (event.type, event.object["metadata"]["name"]) == ("ADDED", "n")
        await events.aclose()
        with pytest.raises(RequestFailed) as refused:
            await anext(api.watch(nodes, dict, "1"))
    assert refused.value.status == 410


async def test_a_watch_that_is_refused_is_a_failed_request() -> None:
    users = {"judge": User("judge"), "root": User("root", ("system:masters",))}
    security = Security(tokens=users, authorization_mode="RBAC")
    nodes = Ref("Node", "", "")
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(FakeApiServer(security=security))
        judge, root = [
            await stack.enter_async_context(ApiClient(Connection(server.url, token=name)))
            for name in users
        ]
        with pytest.raises(RequestFailed, match=r"watch of /api/v1/nodes: .*nodes is forbidden"):
            await anext(judge.watch(nodes, dict, ""))
        assert await root.list("Node") == []
        await server.__aexit__(None, None, None)
        with pytest.raises(RequestFailed, match=r"watch of /api/v1/nodes: .*Connect"):
            await anext(root.watch(nodes, dict, ""))


async def test_a_kind_that_the_server_has_not_is_named() -> None:
    async with FakeApiServer() as server, ApiClient(Connection(server.url)) as api:
        with pytest.raises(RequestFailed, match="does not know Nodes of v1"):
            await api.find(Ref("Nodes", "n"))
        with pytest.raises(RequestFailed, match="does not know Job of other/v1"):
            await api.list("Job", api_version="other/v1")
