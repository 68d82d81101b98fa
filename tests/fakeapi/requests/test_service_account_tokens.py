"""Tokens of service accounts: what they let in, and until when."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock, Security, User

from ..api_client import ApiClient, Reply

Json = dict[str, Any]

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
AUDIENCE = "https://kubernetes.default.svc.cluster.local"


@pytest.fixture
async def guarded(clock: ManualClock) -> AsyncIterator[FakeApiServer]:
    """A server that asks for tokens."""
    security = Security(tokens={"root": User("root", ("system:masters",))})
    async with FakeApiServer(clock=clock, seed=1, security=security) as server:
        yield server


class Client(ApiClient):
    """A client with a token."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str = "root") -> None:
        super().__init__(session, url)
        self.session, self.token = session, token

    async def request(self, method: str, path: str, body: Any = None, **options: Any) -> Reply:
        headers = {"Authorization": f"Bearer {self.token}"}
        return await super().request(method, path, body, headers=headers, **options)

    def having(self, token: str) -> Client:
        return Client(self.session, self.url, token)


@pytest.fixture
async def root(guarded: FakeApiServer, session: aiohttp.ClientSession) -> Client:
    client = Client(session, guarded.url)
    await client.create(ACCOUNTS, {"metadata": {"name": "bot"}})
    return client


async def token_for(client: Client, **spec: Any) -> str:
    reply = await client.post(f"{ACCOUNTS}/bot/token", {"spec": spec})
    assert reply.code == 201, reply.message
    token: str = reply.body["status"]["token"]
    return token


async def test_a_token_is_its_account(root: Client) -> None:
    account = (await root.get(f"{ACCOUNTS}/bot")).body
    who = (await root.having(await token_for(root)).post(WHO, {})).body["status"]["userInfo"]
    assert who["username"] == "system:serviceaccount:default:bot"
    assert who["uid"] == account["metadata"]["uid"]
    assert who["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]
    assert list(who["extra"]) == ["authentication.kubernetes.io/credential-id"]


async def test_the_answer_is_the_request_with_what_was_left_open(root: Client) -> None:
    reply = await root.post(f"{ACCOUNTS}/bot/token", {})
    assert reply.body["kind"] == "TokenRequest"
    assert reply.body["spec"] == {
        "audiences": [AUDIENCE],
        "expirationSeconds": 3600,
        "boundObjectRef": None,
    }
    assert reply.body["metadata"]["name"] == "bot"
    claims = reply.body["status"]["token"].split(".")[1]
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert said["sub"] == "system:serviceaccount:default:bot"
    assert said["exp"] - said["iat"] == 3600
    assert said["kubernetes.io"]["serviceaccount"]["name"] == "bot"


async def test_a_token_expires_on_the_servers_clock(root: Client, clock: ManualClock) -> None:
    bot = root.having(await token_for(root, expirationSeconds=600))
    clock.advance(599)
    assert (await bot.get(PODS)).code == 200
    clock.advance(2)
    assert (await bot.get(PODS)).code == 401


async def test_a_token_ends_with_its_account(root: Client) -> None:
    bot = root.having(await token_for(root))
    await root.delete(f"{ACCOUNTS}/bot")
    assert (await bot.get(PODS)).code == 401
    await root.create(ACCOUNTS, {"metadata": {"name": "bot"}})
    assert (await bot.get(PODS)).code == 401, "another account of the same name"


async def test_a_token_ends_with_the_pod_it_is_bound_to(root: Client) -> None:
    container = {"name": "c", "image": "i"}
    spec = {"serviceAccountName": "bot", "containers": [container]}
    made = await root.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    bot = root.having(await token_for(root, boundObjectRef=bound))
    extra = (await bot.post(WHO, {})).body["status"]["userInfo"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [made["metadata"]["uid"]]
    await root.delete(f"{PODS}/p")
    assert (await bot.get(PODS)).code == 401


async def test_only_the_accounts_own_pods_can_be_bound_to(root: Client) -> None:
    container = {"name": "c", "image": "i"}
    await root.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    refused = await root.post(f"{ACCOUNTS}/bot/token", {"spec": {"boundObjectRef": bound}})
    assert refused.code == 400
    assert "different serviceaccount" in refused.message
    stale = {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "old"}
    await root.create("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
    refused = await root.post(f"{ACCOUNTS}/bot/token", {"spec": {"boundObjectRef": stale}})
    assert (refused.code, refused.reason) == (409, "Conflict")


async def test_a_token_for_others_does_not_let_in_here(root: Client) -> None:
    token = await token_for(root, audiences=["vault"])
    assert (await root.having(token).get(PODS)).code == 401
    review = await root.post(TOKENS, {"spec": {"token": token, "audiences": ["x", "vault"]}})
    assert review.body["status"]["authenticated"] is True
    assert review.body["status"]["audiences"] == ["vault"]
    review = await root.post(TOKENS, {"spec": {"token": token}})
    assert "authenticated" not in review.body["status"]


@pytest.mark.parametrize("change", ["signature", "claims", "garbage"])
async def test_a_modified_token_is_refused(root: Client, change: str) -> None:
    header, claims, signature = (await token_for(root)).split(".")
    forged = {
        "signature": f"{header}.{claims}.{signature[:-2]}AA",
        "claims": f"{header}.{claims[:-4]}AAAA.{signature}",
        "garbage": "a.b.c",
    }
    assert (await root.having(forged[change]).get(PODS)).code == 401


async def test_a_server_without_authentication_issues_tokens(
    api: ApiClient,
) -> None:
    await api.create(ACCOUNTS, {"metadata": {"name": "bot"}})
    made = await api.post(f"{ACCOUNTS}/bot/token", {})
    review = await api.post(TOKENS, {"spec": {"token": made.body["status"]["token"]}})
    user = review.body["status"]["user"]
    review = await api.post(TOKENS, {"spec": {"token": "é.é.é"}})
    assert "authenticated" not in review.body["status"]
    assert user["username"] == "system:serviceaccount:default:bot"
