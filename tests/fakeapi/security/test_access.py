"""TLS, tokens, client certificates, where a server may listen, and how much it takes at once."""

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from click.testing import CliRunner

from fakeapi import Actors, FakeApiServer, ManualClock, Security, SecurityError, ServerOptions, User
from fakeapi.access.attributes import Attributes
from fakeapi.access.authentication import read_token_file
from fakeapi.cli.command import command
from fakeapi.security.options import is_loopback
from fakeapi.security.rbac import RbacAuthorizer

from ..api_client import ApiClient, Reply, eventually

Json = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
TRUST = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


def only_trusting(kubeconfig: str) -> ssl.SSLContext:
    """The server's authority, and no certificate of one's own."""
    cluster = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return ssl.create_default_context(cadata=authority)


def trusting(kubeconfig: str, directory: Path) -> ssl.SSLContext:
    """Return the TLS context of a client with the certificates in a kubeconfig."""
    user, context = yaml.safe_load(kubeconfig)["users"][0]["user"], only_trusting(kubeconfig)
    if "client-certificate-data" in user:
        for name in ("client-certificate-data", "client-key-data"):
            (directory / name).write_bytes(base64.b64decode(user[name]))
        context.load_cert_chain(
            directory / "client-certificate-data", directory / "client-key-data"
        )
    return context


async def asked(
    url: str, context: ssl.SSLContext | None, path: str, body: Any = None, **headers: str
) -> Reply:
    """One request over a connection of its own."""
    connector = aiohttp.TCPConnector(ssl=True if context is None else context)
    async with aiohttp.ClientSession(connector=connector) as session:
        method = "GET" if body is None else "POST"
        return await ApiClient(session, url).request(method, path, body, headers=headers)


def user_in(reply: Reply) -> Json:
    user: Json = reply.body["status"]["userInfo"]
    return user


async def test_the_certificate_in_the_kubeconfig_is_an_administrators(tmp_path: Path) -> None:
    async with FakeApiServer(security=Security(tls=True)) as server:
        assert server.url.startswith("https://")
        context = trusting(server.kubeconfig, tmp_path)
        user = user_in(await asked(server.url, context, WHO, {}))
        assert user["username"] == "kubernetes-admin"
        assert user["groups"] == ["system:masters", "system:authenticated"]
        (identity,) = user["extra"]["authentication.kubernetes.io/credential-id"]
        assert identity.startswith("X509SHA256=")


def test_the_faster_loop_serves_tls_as_well(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def talk() -> None:
        security = Security(tls=True, tokens={"t": User("jane")})
        async with FakeApiServer(security=security) as server:
            context = trusting(server.kubeconfig, tmp_path)
            user = user_in(await asked(server.url, context, WHO, {}))
            assert user["username"] == "kubernetes-admin", "the handshake showed who it is"
            connector = aiohttp.TCPConnector(ssl=context)
            async with aiohttp.ClientSession(connector=connector) as session:
                api = ApiClient(session, server.url)
                async with api.watch(PODS) as stream:
                    container = {"name": "c", "image": "i" * 100_000}
                    await api.create(
                        PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
                    )
                    assert await stream.take(1) == [("ADDED", "p")]
            nobody = await asked(server.url, only_trusting(server.kubeconfig), WHO, {})
            assert nobody.code == 401

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(talk())


async def test_the_certificate_is_good_for_localhost(tmp_path: Path) -> None:
    async with FakeApiServer(security=Security(tls=True)) as server:
        context = trusting(server.kubeconfig, tmp_path)
        reply = await asked(f"https://localhost:{server.port}", context, "/version")
        assert reply.code == 200


async def test_a_kubeconfig_is_for_its_owner_alone(tmp_path: Path) -> None:
    async with FakeApiServer(security=Security(tls=True)) as server:
        (tmp_path / "kubeconfig").touch(mode=0o644)
        written = server.write_kubeconfig(tmp_path / "kubeconfig")
        assert written.stat().st_mode & 0o777 == 0o600


async def test_a_kubeconfig_can_be_had_for_any_user(tmp_path: Path) -> None:
    async with FakeApiServer(security=Security(tls=True)) as server:
        context = trusting(server.kubeconfig_for("jane", ["devs"]), tmp_path)
        user = user_in(await asked(server.url, context, WHO, {}))
        assert (user["username"], user["groups"]) == ("jane", ["devs", "system:authenticated"])


async def test_without_credentials_there_is_no_answer(tmp_path: Path) -> None:
    async with FakeApiServer(
        security=Security(tls=True), options=ServerOptions(requests_kept=1)
    ) as server:
        config = yaml.safe_load(server.kubeconfig)
        config["users"][0]["user"] = {}
        reply = await asked(server.url, trusting(yaml.safe_dump(config), tmp_path), PODS)
        assert (reply.code, reply.body) == (
            401,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": "Unauthorized",
                "reason": "Unauthorized",
                "code": 401,
            },
        )
        assert [request.status for request in server.requests] == [401]


async def test_a_certificate_of_strangers_is_not_taken(tmp_path: Path) -> None:
    first, second = (FakeApiServer(security=Security(tls=True)) for _ in range(2))
    async with first as server, second as other:
        mixed, theirs = yaml.safe_load(server.kubeconfig), yaml.safe_load(other.kubeconfig)
        mixed["users"] = theirs["users"]
        with pytest.raises(aiohttp.ClientError):
            await asked(server.url, trusting(yaml.safe_dump(mixed), tmp_path), "/version")


async def test_components_find_the_client_ca(tmp_path: Path) -> None:
    async with FakeApiServer(security=Security(tls=True)) as server:
        reply = await asked(server.url, trusting(server.kubeconfig, tmp_path), TRUST)
        assert reply.body["data"]["client-ca-file"].startswith("-----BEGIN CERTIFICATE-----")


async def test_given_certificates_are_served_and_believed(tmp_path: Path) -> None:
    from fakeapi.clock import SystemClock
    from fakeapi.security.certificates import Authority

    authority = Authority("theirs", now=SystemClock().now())
    serving, key = authority.server(["127.0.0.1"])
    files = {"crt": serving + authority.certificate, "key": key, "ca": authority.certificate}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    security = Security(
        tls_cert_file=tmp_path / "crt",
        tls_private_key_file=tmp_path / "key",
        client_ca_file=tmp_path / "ca",
        token="secret",
    )
    async with FakeApiServer(security=security) as server:
        context = trusting(server.kubeconfig, tmp_path)
        reply = await asked(server.url, context, WHO, {}, Authorization="Bearer secret")
        assert user_in(reply)["username"] == "kubernetes-admin"
        for name, content in zip(("c", "k"), authority.client("bob", ["ops"]), strict=True):
            (tmp_path / name).write_bytes(content)
        context.load_cert_chain(tmp_path / "c", tmp_path / "k")
        assert user_in(await asked(server.url, context, WHO, {}))["username"] == "bob"


async def test_users_come_from_a_file_of_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text('t1,jane,7,"devs,ops"\nt2,bob,8\n,nobody,9\n', encoding="utf-8")
    async with FakeApiServer(security=Security(token_auth_file=path)) as server:
        jane = user_in(await asked(server.url, None, WHO, {}, Authorization="Bearer t1"))
        assert jane == {
            "username": "jane",
            "uid": "7",
            "groups": ["devs", "ops", "system:authenticated"],
        }
        assert (await asked(server.url, None, PODS, Authorization="bearer  t2")).code == 401
        assert (await asked(server.url, None, PODS, Authorization="bearer t2")).code == 200
        assert (await asked(server.url, None, PODS, Authorization="Basic t2")).code == 401
        assert yaml.safe_load(server.kubeconfig_for("bob"))["users"][0]["user"] == {"token": "t2"}
        with pytest.raises(SecurityError, match="no token is eve's"):
            server.kubeconfig_for("eve")


@pytest.mark.parametrize(
    ("content", "words"),
    [("token,user\n", "at least 3 columns .* found 2"), ('"t,u,i\n', "unexpected end of data")],
)
def test_a_file_of_tokens_that_is_none_is_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(SecurityError, match=words):
        read_token_file(path)


async def test_tokens_are_reviewed() -> None:
    security = Security(token="secret", tokens={"t": User("jane", ("devs",), "7")})
    async with FakeApiServer(security=security) as server:

        async def review(**spec: Any) -> Json:
            reply = await asked(
                server.url, None, TOKENS, {"spec": spec}, Authorization="Bearer secret"
            )
            status: Json = reply.body["status"]
            return status

        known = await review(token="t")
        assert known == {
            "authenticated": True,
            "user": {"username": "jane", "uid": "7", "groups": ["devs", "system:authenticated"]},
            "audiences": ["https://kubernetes.default.svc.cluster.local"],
        }
        unknown = {"user": {}, "error": "invalid bearer token"}
        assert await review(token="x") == unknown
        assert await review(token="t", audiences=["elsewhere"]) == unknown


async def test_anonymous_requests_may_be_allowed() -> None:
    async with FakeApiServer(security=Security(token="t", anonymous_auth=True)) as server:
        assert user_in(await asked(server.url, None, WHO, {}))["username"] == "system:anonymous"
        assert (await asked(server.url, None, PODS, Authorization="Bearer x")).code == 401


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("192.0.2.1", False),
    ],
)
def test_loopback_addresses_are_recognised(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    "options", [{}, {"token": "t", "anonymous_auth": True}, {"max_requests_inflight": 1}]
)
def test_an_open_server_does_not_listen_to_the_world(options: dict[str, Any]) -> None:
    with pytest.raises(SecurityError, match="refusing to listen on"):
        FakeApiServer(security=Security(host="0.0.0.0", **options))


@pytest.mark.parametrize(
    "security",
    [
        Security(host="0.0.0.0", token="t"),
        Security(host="0.0.0.0", token="t", anonymous_auth=True, authorization_mode="RBAC"),
        Security(host="0.0.0.0", insecure_bind_anywhere=True),
    ],
)
def test_a_guarded_or_forced_server_may(security: Security) -> None:
    FakeApiServer(security=security)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tls_cert_file": "a"}, "go together"),
        ({"tls": True, "tls_cert_file": "a", "tls_private_key_file": "b"}, "choose one"),
        ({"client_ca_file": "a"}, "--client-ca-file needs"),
        ({"authorization_mode": "RBAC"}, "RBAC needs a way to authenticate"),
        ({"authorization_mode": "ABAC"}, "expected one of AlwaysAllow, RBAC"),
        ({"anonymous_auth": False}, "--no-anonymous-auth needs a way"),
        ({"max_requests_inflight": -1}, "--max-requests-inflight: expected 0 or more"),
        ({"max_request_bytes": 0}, "--max-request-bytes: expected 1 or more"),
        ({"token_auth_file": "/nowhere"}, "/nowhere: No such file"),
        ({"tls": True, "client_ca_file": "/nowhere"}, "/nowhere: No such file"),
        ({"tls": True, "client_ca_file": pytest.__file__}, "expected certificates in PEM"),
        ({"token": "a b"}, "--token: expected no blanks"),
        (
            {"tls_cert_file": "/nowhere", "tls_private_key_file": "/nowhere"},
            "--tls-cert-file: /nowhere",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(options: Json, words: str) -> None:
    with pytest.raises(SecurityError, match=words):
        FakeApiServer(security=Security(**options))


def test_the_command_refuses_to_listen_to_the_world() -> None:
    result = CliRunner().invoke(command, ["--host", "0.0.0.0"])
    assert isinstance(result.exception, SecurityError)
    assert "--insecure-bind-anywhere" in str(result.exception)


async def test_a_body_that_is_too_large_for_this_server_is_refused() -> None:
    async with FakeApiServer(security=Security(max_request_bytes=100)) as server:
        reply = await asked(server.url, None, PODS, {"metadata": {"name": "x" * 200}})
        assert (reply.code, reply.reason) == (413, "RequestEntityTooLarge")
        assert reply.message == "Request entity too large: limit is 100"


async def test_more_concurrent_requests_than_allowed_get_429(
    session: aiohttp.ClientSession,
) -> None:
    security = Security(max_requests_inflight=1)
    slow = {"name": "slow", "match": {"resource": "nodes"}, "delay": {}}
    delay: Json = {"faults": [slow]}
    async with FakeApiServer(security=security, faults=[delay]) as server:
        api = ApiClient(session, server.url)
        waiting = asyncio.ensure_future(api.get("/api/v1/nodes"))
        await eventually(lambda: server.statistics().requests_held == 1)
        refused = await api.get(PODS)
        assert (refused.code, refused.body) == (
            429,
            "Too many requests, please try again later.\n",
        )
        assert refused.headers["Retry-After"] == "1"
        async with api.watch(PODS):
            pass  # watches do not count
        assert (await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})).code == 201
        server.faults.remove("slow")
        assert (await waiting).code == 200
        assert (await api.get(PODS)).code == 200


async def test_a_request_whose_authorization_breaks_is_a_500_and_leaves_its_place(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async with FakeApiServer(security=Security(max_requests_inflight=1)) as server:
        api = ApiClient(session, server.url)
        with monkeypatch.context() as patched:
            patched.setattr("fakeapi.access.access.AlwaysAllow.decide", broken)
            for _ in range(3):
                reply = await api.get(PODS)
                assert (reply.code, reply.reason) == (500, "InternalError")
        assert (await api.get(PODS)).code == 200


async def test_a_review_of_a_long_user_is_not_remembered() -> None:
    registry = FakeApiServer(clock=ManualClock())._registry
    authorizer = RbacAuthorizer(registry.store)
    long = User("x" * 100_000, ("devs",))
    for user, path in ((User("jane"), "/x"), (long, "/x"), (User("jane"), "/" + "x" * 100_000)):
        assert not authorizer.decide(user, Attributes("get", path)).allowed
    assert [key[0].name for key in authorizer._decisions] == ["jane"]
    assert [key[0].name for key in authorizer._known] == ["jane"]


async def test_actors_are_allowed_on_every_server() -> None:
    clock = ManualClock()
    security = Security(tls=True, authorization_mode="RBAC")
    async with (
        FakeApiServer(
            clock=clock, security=security, options=ServerOptions(requests_kept=1000)
        ) as server,
        Actors(server, kubelet=True) as actors,
    ):
        await actors.wait_until_idle()
        assert server.requests
        assert {request.status for request in server.requests} <= {200, 201}


async def test_a_watch_over_tls_does_not_keep_the_server_from_stopping(tmp_path: Path) -> None:
    async with FakeApiServer(security=Security(tls=True)) as server:
        connector = aiohttp.TCPConnector(ssl=trusting(server.kubeconfig, tmp_path))
        async with aiohttp.ClientSession(connector=connector) as session:
            api = ApiClient(session, server.url)
            async with api.watch(PODS) as events:
                await server.__aexit__()
                assert await events.rest() == []
                await server.__aenter__()


async def test_a_server_is_guarded_again_after_an_outage(tmp_path: Path) -> None:
    clock = ManualClock()
    async with FakeApiServer(clock=clock, security=Security(tls=True)) as server:
        context = trusting(server.kubeconfig, tmp_path)
        assert (await asked(server.url, context, "/version")).code == 200
        server.faults.add({"faults": [{"outage": {"seconds": 5}}]})
        with pytest.raises(aiohttp.ClientError):
            await asked(server.url, context, "/version")
        clock.advance(5)
        assert (await asked(server.url, context, "/version")).code == 200
