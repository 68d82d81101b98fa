"""Access control: requests allowed and refused, with reviews over real HTTP."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from scheduler.client import connection_to
from scheduler.serving.authentication import Authenticator
from scheduler.serving.authorization import Authorizer, OpenPaths
from scheduler.serving.http_server import AccessControl, SchedulerServer, create_listener
from scheduler.serving.options import AuthorizationOptions, ServingError
from scheduler.serving.reviews import ANONYMOUS, ReviewClient
from scheduler.testing import VirtualClock
from tests.serving import served
from tests.serving.review_server import Failure, ReviewServer

METRICS = served.METRICS.decode()
UNAUTHORIZED = (
    '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    '"message":"Unauthorized","reason":"Unauthorized","code":401}\n'
)


def _forbidden(message: str) -> str:
    return (
        '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        f'"message":{json.dumps(message)},"reason":"Forbidden","details":{{}},"code":403}}\n'
    )


class Asker:
    """Asks a port that is served with access control."""

    def __init__(self, session: aiohttp.ClientSession, url: str, clock: VirtualClock) -> None:
        self._session = session
        self.url = url
        self.clock = clock

    async def ask(
        self, path: str = "/metrics", token: str = "", method: str = "GET"
    ) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self._session.request(method, self.url + path, headers=headers) as response:
            return response.status, await response.text()


@contextlib.asynccontextmanager
async def _served(access: AccessControl, clock: VirtualClock) -> AsyncIterator[Asker]:
    endpoints = served.Served().endpoints()
    server = SchedulerServer(endpoints, create_listener("127.0.0.1", None), access=access)
    async with server, aiohttp.ClientSession() as session:
        yield Asker(session, server.url, clock)


@pytest.fixture
async def reviews() -> AsyncIterator[ReviewServer]:
    async with ReviewServer() as reviews:
        yield reviews


@pytest.fixture
async def asker(reviews: ReviewServer) -> AsyncIterator[Asker]:
    clock = VirtualClock()
    async with ReviewClient(
        connection_to(reviews.url), clock=clock, rng=random.Random(1)
    ) as client:
        access = AccessControl(
            Authenticator(client, served.NO_TRUST, cache_seconds=10.0, clock=clock),
            Authorizer(
                OpenPaths(["/healthz", "readyz", "/debug/*"]),
                client,
                options=AuthorizationOptions(authorized_seconds=10.0, unauthorized_seconds=5.0),
                clock=clock,
            ),
        )
        async with _served(access, clock) as asker:
            yield asker


async def test_an_anonymous_request_is_reviewed_and_refused(
    asker: Asker, reviews: ReviewServer
) -> None:
    expected = _forbidden('forbidden: User "system:anonymous" cannot get path "/metrics"')
    assert await asker.ask() == (403, expected)
    assert reviews.asked == [
        {
            "kind": "SubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "spec": {
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
                "user": "system:anonymous",
                "groups": ["system:unauthenticated"],
            },
        }
    ]


@pytest.mark.parametrize("path", ["/debug/ui", "/debug/ui/state", "/debug/ui/pods/default/web"])
async def test_the_page_needs_permission(path: str) -> None:
    clock = VirtualClock()
    access = AccessControl(
        Authenticator(None, served.NO_TRUST, cache_seconds=10.0, clock=clock),
        Authorizer(OpenPaths([]), None, options=AuthorizationOptions(), clock=clock),
    )
    async with _served(access, clock) as asker:
        assert (await asker.ask(path))[0] == 403


async def test_an_allowed_user_gets_the_answer(asker: Asker, reviews: ReviewServer) -> None:
    user = {"username": "alice", "uid": "7", "groups": ["g"], "extra": {"a": ["b"]}}
    reviews.tokens["good"] = {"authenticated": True, "user": user}
    reviews.access["alice"] = {"allowed": True}
    assert await asker.ask(token="good") == (200, METRICS)
    token_review, access_review = reviews.asked
    assert token_review["spec"] == {"token": "good"}
    assert access_review["spec"] == {
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        "user": "alice",
        "groups": ["g", "system:authenticated"],
        "extra": {"a": ["b"]},
        "uid": "7",
    }


async def test_a_refusal_has_the_reason(asker: Asker, reviews: ReviewServer) -> None:
    reviews.user("t", "bob")
    reviews.access["bob"] = {"allowed": False, "denied": True, "reason": "because"}
    expected = _forbidden('forbidden: User "bob" cannot post path "/metrics": because')
    assert await asker.ask(token="t", method="POST") == (403, expected)


@pytest.mark.parametrize(
    ("denied", "reason"), [(True, "because"), (False, "kubernetes.io/webhook: because")]
)
async def test_since_1_37_the_reason_of_no_opinion_names_the_authorizer(
    reviews: ReviewServer, *, denied: bool, reason: str
) -> None:
    reviews.access["system:anonymous"] = {"allowed": False, "denied": denied, "reason": "because"}
    clock, options = VirtualClock(), AuthorizationOptions(names_authorizer=True)
    async with ReviewClient(
        connection_to(reviews.url), clock=clock, rng=random.Random(1)
    ) as client:
        authorizer = Authorizer(OpenPaths([]), client, options=options, clock=clock)
        assert (await authorizer.review(ANONYMOUS, verb="get", path="/metrics")).reason == reason


async def test_markup_in_names_is_made_harmless(asker: Asker, reviews: ReviewServer) -> None:
    reviews.user("t", "<b>&")
    status, body = await asker.ask(token="t")
    assert status == 403
    assert r"User \"\u0026lt;b\u0026gt;\u0026amp;\" cannot get" in body


async def test_paths_may_be_open_to_all(asker: Asker, reviews: ReviewServer) -> None:
    assert await asker.ask("/healthz") == (200, "ok")
    assert await asker.ask("/readyz") == (200, "ok")
    assert (await asker.ask("/debug/pods"))[0] == 200
    assert reviews.asked == []
    assert (await asker.ask("/healthz/ping"))[0] == 403
    assert (await asker.ask("/nosuch"))[0] == 403


async def test_masters_may_everything(asker: Asker, reviews: ReviewServer) -> None:
    reviews.user("t", "root", "system:masters")
    assert await asker.ask(token="t") == (200, METRICS)
    assert await asker.ask("/nosuch", "t") == (404, "404 page not found\n")
    assert [review["kind"] for review in reviews.asked] == ["TokenReview"]


@pytest.mark.parametrize(
    "review",
    [
        {"authenticated": False},
        {"authenticated": False, "error": "expired"},
        Failure(403, "Forbidden", "you may not review tokens"),
        {"authenticated": "perhaps"},
    ],
)
@pytest.mark.parametrize("path", ["/metrics", "/healthz"])
async def test_an_invalid_token_is_refused_on_every_path(
    asker: Asker, reviews: ReviewServer, review: dict[str, Any] | Failure, path: str
) -> None:
    reviews.tokens["t"] = review
    assert await asker.ask(path, "t") == (401, UNAUTHORIZED)


async def test_a_request_without_a_token_is_not_reviewed_on_open_paths(
    asker: Asker, reviews: ReviewServer
) -> None:
    assert (await asker.ask("/healthz"))[0] == 200
    assert reviews.asked == []


@pytest.mark.parametrize(
    ("review", "text"),
    [
        (Failure(403, "Forbidden", "not <you>"), "not &lt;you&gt;"),
        (
            {"allowed": True, "denied": True},
            "webhook subject access review returned both allow and deny response",
        ),
    ],
)
async def test_a_failed_review_refuses_the_request(
    asker: Asker, reviews: ReviewServer, review: dict[str, Any] | Failure, text: str
) -> None:
    reviews.access["system:anonymous"] = review
    expected = f'Internal Server Error: "/metrics?x=1": {text}\n'
    assert await asker.ask("/metrics?x=1") == (500, expected)


async def test_a_failing_review_is_retried_four_times(asker: Asker, reviews: ReviewServer) -> None:
    reviews.access["system:anonymous"] = Failure(500, "InternalError", "oops")
    asked = asyncio.ensure_future(asker.ask())
    pauses = []
    while not asked.done():
        await asyncio.sleep(0.001)
        due = asker.clock.next_wake_up
        # Further away than a pause is only the end of a request's time.
        if due is not None and due - asker.clock.now() < 9.0:
            pauses.append(due - asker.clock.now())
            asker.clock.advance_nowait(pauses[-1])
    assert await asked == (500, 'Internal Server Error: "/metrics": oops\n')
    assert len(reviews.asked) == 5
    nominal = [0.5, 0.75, 1.125, 1.6875]
    assert [low <= pause <= low * 1.2 for low, pause in zip(nominal, pauses, strict=True)]


async def test_reviews_are_cached(asker: Asker, reviews: ReviewServer) -> None:
    reviews.user("t", "alice")
    reviews.access["alice"] = {"allowed": True}
    for _ in range(2):
        assert (await asker.ask(token="t"))[0] == 200
        assert (await asker.ask(token="bad"))[0] == 401
        assert (await asker.ask())[0] == 403
    assert len(reviews.asked) == 4
    asker.clock.advance_nowait(6.0)
    await asker.ask(token="t")
    assert len(reviews.asked) == 4
    await asker.ask()
    assert len(reviews.asked) == 5
    asker.clock.advance_nowait(6.0)
    await asker.ask(token="t")
    await asker.ask(token="bad")
    assert len(reviews.asked) == 8


async def test_a_token_may_be_long(asker: Asker, reviews: ReviewServer) -> None:
    token = "x" * 100_000
    reviews.user(token, "root", "system:masters")
    assert (await asker.ask(token=token))[0] == 200


async def test_a_token_that_is_no_text_is_no_good(asker: Asker, reviews: ReviewServer) -> None:
    host, port = asker.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /healthz HTTP/1.0\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.0 401 ")
    assert answer.endswith(UNAUTHORIZED.encode())
    assert reviews.asked == []


async def test_an_error_of_a_token_review_is_not_cached(
    asker: Asker, reviews: ReviewServer
) -> None:
    reviews.tokens["t"] = {"authenticated": False, "error": "not now"}
    assert (await asker.ask(token="t"))[0] == 401
    reviews.user("t", "root", "system:masters")
    assert (await asker.ask(token="t"))[0] == 200


async def test_concurrent_requests_with_one_token_are_one_review(
    asker: Asker, reviews: ReviewServer
) -> None:
    reviews.user("t", "root", "system:masters")
    answers = await asyncio.gather(*(asker.ask(token="t") for _ in range(8)))
    assert {status for status, _ in answers} == {200}
    assert len(reviews.asked) == 1


async def test_without_a_server_for_reviews_only_open_paths_are_allowed() -> None:
    clock = VirtualClock()
    access = AccessControl(
        Authenticator(None, served.NO_TRUST, cache_seconds=10.0, clock=clock),
        Authorizer(OpenPaths(["/healthz"]), None, options=AuthorizationOptions(), clock=clock),
    )
    async with _served(access, clock) as asker:
        assert await asker.ask("/healthz", "any token") == (200, "ok")
        expected = _forbidden('forbidden: User "system:anonymous" cannot get path "/metrics"')
        assert await asker.ask(token="any token") == (403, expected)


async def test_an_api_server_that_is_gone_refuses(reviews: ReviewServer) -> None:
    clock = VirtualClock()
    client = ReviewClient(connection_to("http://127.0.0.1:1"), clock=clock, rng=random.Random(1))
    async with client:
        access = AccessControl(
            Authenticator(client, served.NO_TRUST, cache_seconds=1.0, clock=clock),
            Authorizer(OpenPaths([]), client, options=AuthorizationOptions(), clock=clock),
        )
        async with _served(access, clock) as asker:
            assert (await asker.ask(token="t"))[0] == 401
            status, body = await asker.ask()
            assert status == 500
            assert "Cannot connect to host 127.0.0.1:1" in body


def test_a_star_is_allowed_at_the_end_of_a_path_alone() -> None:
    with pytest.raises(ServingError, match=r'^only trailing \* allowed in "a\*b"$'):
        OpenPaths(["/a*b"])
    paths = OpenPaths(["/a*", "/b", "/"])
    assert ["/a" in paths, "/abc" in paths, "/b" in paths, "/bc" in paths, "/" in paths] == [
        True,
        True,
        True,
        False,
        True,
    ]
