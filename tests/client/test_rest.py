"""The REST client against a real server that follows a script."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine

import msgspec
import pytest

from scheduler.api.core import ObjectMeta
from scheduler.client import (
    LEASES,
    MERGE_PATCH,
    NODES,
    PODS,
    AlreadyExists,
    ApiError,
    Conflict,
    Connection,
    ConnectionFailed,
    ConnectionRefused,
    DecodeError,
    Lease,
    LeaseSpec,
    ListOptions,
    NotFound,
    RestClient,
    ServerError,
    TooManyRequests,
    Unauthorized,
    connection_to,
)
from scheduler.clock import Clock
from scheduler.metrics import SchedulerMetrics
from scheduler.testing import VirtualClock
from tests.client.objects import InstantClock, pod, pod_json, pod_list_json
from tests.client.scripted_server import (
    Answer,
    Reset,
    Script,
    ScriptedServer,
    Silence,
    Stream,
    status,
)

SUCCESS = {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}


@contextlib.asynccontextmanager
async def talking(
    *script: Script, clock: Clock | None = None, **options: float
) -> AsyncIterator[tuple[RestClient, ScriptedServer]]:
    async with ScriptedServer(*script) as server:
        settings: dict[str, float] = {"qps": -1, **options}
        client = RestClient(
            connection_to(server.url),
            clock=clock or InstantClock(),
            user_agent="kubesched/test",
            **settings,  # type: ignore[arg-type]
        )
        async with client:
            yield client, server


async def test_an_object_is_fetched_by_name() -> None:
    async with talking(Answer(pod_json("p"))) as (client, server):
        found = await client.get(PODS, "p", namespace="default")

    assert found == pod("p")
    assert server.asked[0].path == "/api/v1/namespaces/default/pods/p"
    assert server.asked[0].headers["Accept"] == "application/json"
    assert server.asked[0].headers["User-Agent"] == "kubesched/test"
    assert "Authorization" not in server.asked[0].headers


async def test_a_list_is_fetched_in_pages() -> None:
    pages = (
        Answer(pod_list_json("7", "a", "b", continue_token="next")),
        Answer(pod_list_json("7", "c")),
    )
    async with talking(*pages) as (client, server):
        listing = await client.list_all(PODS)

    assert [item.metadata.name for item in listing.items] == ["a", "b", "c"]
    assert listing.resource_version == "7"
    assert server.asked[0].query == {"limit": "500"}
    assert server.asked[1].query == {"limit": "500", "continue": "next"}


async def test_a_cluster_behind_a_path_is_reached() -> None:
    async with ScriptedServer(Answer(pod_list_json("1")), Answer(SUCCESS, 201)) as server:
        connection = connection_to(f"{server.url}/k8s/clusters/c-1/")
        async with RestClient(
            connection, user_agent="kubesched/test", clock=InstantClock(), qps=-1
        ) as client:
            await client.list_page(PODS, ListOptions(limit=1))
            await client.bind(pod("p"), "n")

    assert [asked.path for asked in server.asked] == [
        "/k8s/clusters/c-1/api/v1/pods",
        "/k8s/clusters/c-1/api/v1/namespaces/default/pods/p/binding",
    ]


async def test_a_binding_names_pod_uid_and_node() -> None:
    async with talking(Answer(SUCCESS, 201)) as (client, server):
        await client.bind(pod("p"), "n1")

    assert server.asked[0].method == "POST"
    assert server.asked[0].path == "/api/v1/namespaces/default/pods/p/binding"
    assert server.asked[0].headers["Content-Type"] == "application/json"
    assert server.asked[0].json == {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": "p", "namespace": "default", "uid": "uid-p"},
        "target": {"kind": "Node", "name": "n1"},
    }


async def test_writes_carry_kind_and_version() -> None:
    lease = Lease(
        metadata=ObjectMeta(name="l", namespace="kube-system", resource_version="3"),
        spec=LeaseSpec(holder_identity="", lease_duration_seconds=1),
    )
    answer = {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "l", "namespace": "kube-system", "resourceVersion": "4"},
    }
    async with talking(Answer(answer, 201)) as (client, server):
        created = await client.create(LEASES, lease)

    assert msgspec.json.decode(created) == answer
    (asked,) = server.asked
    assert (asked.method, asked.path) == (
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
    )
    assert asked.json == {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "l", "namespace": "kube-system", "resourceVersion": "3"},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
    }


async def test_a_patch_has_its_content_type() -> None:
    async with talking(Answer(pod_json("p")), Answer(pod_json("p"))) as (client, server):
        await client.patch(PODS, "p", {"a": 1}, namespace="default", subresource="status")
        await client.patch(PODS, "p", {"b": 2}, namespace="default", content_type=MERGE_PATCH)

    assert [(a.path, a.headers["Content-Type"], a.json) for a in server.asked] == [
        (
            "/api/v1/namespaces/default/pods/p/status",
            "application/strategic-merge-patch+json",
            {"a": 1},
        ),
        ("/api/v1/namespaces/default/pods/p", "application/merge-patch+json", {"b": 2}),
    ]


async def test_a_delete_sends_empty_options() -> None:
    async with talking(Answer(SUCCESS)) as (client, server):
        await client.delete(PODS, "p", namespace="default")

    assert server.asked[0].method == "DELETE"
    assert server.asked[0].json == {"kind": "DeleteOptions", "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (401, "Unauthorized", Unauthorized),
        (500, "InternalError", ServerError),
        (503, "ServiceUnavailable", ServerError),
    ],
)
async def test_a_refusal_is_an_error_of_its_class(
    code: int, reason: str, expected: type[ApiError]
) -> None:
    async with talking(Answer(status(code, reason, "no"), code)) as (client, server):
        with pytest.raises(expected, match=r"^no\b") as caught:
            await client.bind(pod("p"), "n")

    assert (caught.value.status, caught.value.reason) == (code, reason)
    # Without Retry-After nothing is tried again.
    assert len(server.asked) == 1


CALLS: dict[str, Callable[[RestClient], Coroutine[None, None, object]]] = {
    "GET": lambda client: client.get(NODES, "n"),
    "POST": lambda client: client.bind(pod("p"), "n"),
    "PUT": lambda client: client.request("PUT", "/api/v1/namespaces/default/pods/p"),
    "PATCH": lambda client: client.patch(PODS, "p", {}, namespace="default"),
    "DELETE": lambda client: client.delete(PODS, "p", namespace="default"),
}


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_request_is_retried_after_the_delay_of_the_server(method: str, code: int) -> None:
    clock = InstantClock()
    later = Answer(status(code, "x"), code, {"Retry-After": "7"})
    async with talking(later, later, Answer({}), clock=clock) as (client, server):
        await CALLS[method](client)

    assert server.methods() == [method] * 3
    assert clock.slept == [7, 7]


@pytest.mark.parametrize("method", CALLS)
async def test_too_many_requests_without_retry_after_means_a_second(method: str) -> None:
    clock = InstantClock()
    busy = Answer(status(429, "TooManyRequests"), 429)
    async with talking(busy, Answer({}), clock=clock) as (client, server):
        await CALLS[method](client)

    assert server.methods() == [method] * 2
    assert clock.slept == [1]


async def test_retry_after_may_be_a_date() -> None:
    clock = InstantClock()
    later = Answer({}, 503, {"Retry-After": "Fri, 15 Jan 2027 08:01:00 GMT"})
    async with talking(later, Answer({}), clock=clock) as (client, _):
        await client.get(NODES, "n")

    assert clock.slept == [60]


async def test_retries_end_after_ten() -> None:
    clock = InstantClock()
    later = Answer(status(429, "TooManyRequests", "busy"), 429, {"Retry-After": "2"})
    async with talking(*[later] * 20, clock=clock) as (client, server):
        with pytest.raises(TooManyRequests) as caught:
            await client.bind(pod("p"), "n")

    assert len(server.asked) == 11
    assert clock.slept == [2] * 10
    assert caught.value.retry_after_seconds == 2


async def test_a_client_of_a_lease_retries_by_its_own_clock_and_other_writes_wait_for_it() -> None:
    order: list[str] = []

    class Clock(InstantClock):
        async def sleep(self, seconds: float) -> None:
            """Let the other client write now."""
            order.append(f"slept {seconds}")
            other = asyncio.ensure_future(write())
            others.append(other)
            await asyncio.sleep(0)
            assert not other.done()

    async def write() -> None:
        await second.bind(pod("p"), "n")
        order.append("bound")

    others: list[asyncio.Future[None]] = []
    later = Answer(status(429, "TooManyRequests", "busy"), 429, {"Retry-After": "2"})
    async with (
        talking(*[later] * 12, Answer({}), clock=Clock(), retry_seconds=0.1) as (first, _),
        ScriptedServer(*[Answer(SUCCESS)] * 12) as server,
        RestClient(
            connection_to(server.url),
            clock=InstantClock(),
            user_agent="kubesched/test",
            yields_to=first.retries_end,
        ) as second,
    ):
        await first.request("PUT", "/lease")
        order.append("renewed")
        await asyncio.gather(*others)
    assert order == ["slept 0.1"] * 12 + ["renewed"] + ["bound"] * 12


@pytest.mark.parametrize("code", [400, 404, 409])
async def test_retry_after_means_nothing_on_a_client_error(code: int) -> None:
    async with talking(Answer(status(code, "x"), code, {"Retry-After": "1"})) as (client, server):
        with pytest.raises(ApiError):
            await client.get(NODES, "n")

    assert len(server.asked) == 1


async def test_a_get_whose_connection_breaks_is_sent_again_a_second_later() -> None:
    clock = InstantClock()
    async with talking(Reset(), Reset(), Answer({}), clock=clock) as (client, server):
        await client.get(NODES, "n")

    assert server.methods() == ["GET"] * 3
    assert clock.slept == [1, 1]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_write_whose_connection_breaks_is_never_sent_again(method: str) -> None:
    # The second write goes over a connection that has been used before, where HTTP libraries like
    # to try again by themselves.
    async with talking(Answer({}), Reset(), Answer({})) as (client, server):
        await CALLS[method](client)
        with pytest.raises(ConnectionFailed, match=rf'^{method} "http://127') as caught:
            await CALLS[method](client)

    assert server.methods() == [method] * 2
    assert caught.value.reset


async def test_a_refused_connection_differs_from_a_broken_one() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    clock = InstantClock()
    async with RestClient(
        connection_to(url), user_agent="kubesched/test", clock=clock, qps=-1
    ) as client:
        with pytest.raises(ConnectionRefused):
            await client.get(NODES, "n")

    assert clock.slept == []


async def test_a_truncated_answer_is_no_answer_and_is_not_retried() -> None:
    async with talking(Stream([b'{"kind"'], then="reset")) as (client, server):
        with pytest.raises(ConnectionFailed):
            await client.get(NODES, "n")

    assert len(server.asked) == 1


async def test_garbage_is_an_error_that_names_the_url() -> None:
    async with talking(Answer(b"<html>")) as (client, server):
        with pytest.raises(DecodeError, match=f"^{server.url}/api/v1/nodes/n: not a valid Node: "):
            await client.get(NODES, "n")


async def test_an_answer_that_is_no_object_names_url_kind_and_field() -> None:
    bad = {"kind": "Pod", "apiVersion": "v1", "spec": {"nodeName": 5}}
    async with talking(Answer(bad)) as (client, server):
        with pytest.raises(DecodeError) as caught:
            await client.get(PODS, "p", namespace="default")

    assert str(caught.value) == (
        f"{server.url}/api/v1/namespaces/default/pods/p: not a valid Pod: "
        "Expected `str`, got `int` - at `$.spec.nodeName`"
    )


async def test_the_client_paces_itself() -> None:
    clock = InstantClock()
    async with talking(*[Answer({})] * 5, clock=clock, qps=2, burst=3) as (client, _):
        for _ in range(5):
            await client.get(NODES, "n")

    assert clock.slept == [0.5, 0.5]


async def test_a_timeout_is_kept_and_sent_to_the_server() -> None:
    clock = VirtualClock()
    async with talking(Silence(), clock=clock, timeout_seconds=5) as (client, server):
        asking = asyncio.create_task(client.get(NODES, "n"))
        await server.wait_for_requests(1)
        await clock.advance(4.9)
        assert not asking.done()
        await clock.advance(0.2)
        with pytest.raises(ConnectionFailed, match=r"no answer within 5 s$"):
            await asking

    assert server.asked[0].query == {"timeout": "5s"}


async def test_an_answer_in_time_disarms_the_time_limit() -> None:
    clock = VirtualClock()
    async with talking(Answer({}), clock=clock, timeout_seconds=5) as (client, _):
        await client.get(NODES, "n")

    assert clock.next_wake_up is None


class FlakyIdentity:
    """Has a new token after each rejection."""

    def __init__(self) -> None:
        self.generation = 1
        self.rejections: list[str | None] = []

    async def authorization(self) -> str | None:
        return f"Bearer {self.generation}"

    def rejected(self, header: str | None) -> None:
        self.rejections.append(header)
        self.generation += 1


async def test_a_rejected_token_is_replaced_for_the_next_request() -> None:
    identity = FlakyIdentity()
    script = (Answer(status(401, "Unauthorized"), 401), Answer({}))
    async with ScriptedServer(*script) as server:
        connection = Connection(base_url=server.url, credentials=identity)
        async with RestClient(
            connection, user_agent="kubesched/test", clock=InstantClock()
        ) as client:
            with pytest.raises(Unauthorized):
                await client.get(NODES, "n")
            await client.get(NODES, "n")

    assert identity.rejections == ["Bearer 1"]
    assert [a.headers["Authorization"] for a in server.asked] == ["Bearer 1", "Bearer 2"]


async def test_impersonation_goes_with_every_request() -> None:
    headers = (("Impersonate-User", "u"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    async with ScriptedServer(Answer({})) as server:
        connection = Connection(base_url=server.url, headers=headers)
        async with RestClient(
            connection, user_agent="kubesched/test", clock=InstantClock()
        ) as client:
            await client.get(NODES, "n")

    got = [(k, v) for k, v in server.asked[0].headers.items() if k.startswith("Impersonate")]
    assert got == [*headers]


async def test_many_binds_share_a_few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.client.transport._CONNECTIONS_MAX", 4)
    async with talking(*[Answer(SUCCESS, 201)] * 50) as (client, server):
        await asyncio.gather(*(client.bind(pod(f"p{i}"), "n") for i in range(50)))

    assert sorted(a.path.split("/")[6] for a in server.asked) == sorted(f"p{i}" for i in range(50))


async def test_a_client_that_is_not_open_is_an_error() -> None:
    client = RestClient(
        connection_to("http://127.0.0.1:1"), user_agent="kubesched/test", clock=InstantClock()
    )
    with pytest.raises(RuntimeError, match="async context manager"):
        await client.get(NODES, "n")


async def test_requests_are_counted_and_measured() -> None:
    clock, metrics = InstantClock(), SchedulerMetrics()
    script = (Answer({}, 429, headers={"Retry-After": "2"}), Answer(pod_json("p")))
    async with ScriptedServer(*script) as server:
        host = server.url.removeprefix("http://")
        async with RestClient(
            connection_to(server.url), clock=clock, user_agent="x", qps=-1, metrics=metrics
        ) as client:
            await client.get(PODS, "p", namespace="default")
    assert metrics.rest_client_requests == {("429", host, "GET"): 1, ("200", host, "GET"): 1}
    assert metrics.rest_client_request_retries == {("429", host, "GET"): 1}
    assert metrics.rest_client_request_duration.of(host, "GET").total == 1
    assert metrics.rest_client_request_duration.of(host, "GET").sum == 2.0
    assert metrics.rest_client_rate_limiter_duration.of(host, "GET").total == 2
    assert metrics.rest_client_response_size.of(host, "GET").total == 2


async def test_a_request_without_an_answer_is_counted_as_an_error() -> None:
    metrics = SchedulerMetrics()
    async with RestClient(
        connection_to("http://127.0.0.1:1"), clock=InstantClock(), user_agent="x", metrics=metrics
    ) as client:
        with pytest.raises(ConnectionFailed):
            await client.request("POST", "/x")
    assert metrics.rest_client_requests == {("<error>", "127.0.0.1:1", "POST"): 1}


async def test_a_refused_user_learns_the_server() -> None:
    async with talking(Answer({}, 401)) as (client, server):
        with pytest.raises(Unauthorized) as raised:
            await client.get(PODS, "p", namespace="default")
    assert str(raised.value).endswith(f"(by {server.url})")
