"""Watches over real HTTP: how lines become events, and how a watch may begin and end."""

import contextlib
import json
import logging
import socket

import pytest

from scheduler.api.core import Pod
from scheduler.client import (
    PODS,
    ApiError,
    Connection,
    ConnectionFailed,
    ConnectionRefused,
    DecodeError,
    EventType,
    Expired,
    ListOptions,
    RestClient,
    TooManyRequests,
    Unauthorized,
    WatchEvent,
    connection_to,
)
from scheduler.client.errors import StreamInterrupted
from tests.client.objects import InstantClock, bookmark_json, event_json, pod, pod_json
from tests.client.scripted_server import Answer, Reset, Script, ScriptedServer, Stream, status

ADDED = event_json("ADDED", pod_json("a", "1"))
MODIFIED = event_json("MODIFIED", pod_json("a", "2"))
DELETED = event_json("DELETED", pod_json("a", "3"))


async def watch(
    *script: Script, clock: InstantClock | None = None, options: ListOptions | None = None
) -> tuple[list[WatchEvent[Pod]], Exception | None, ScriptedServer]:
    """The events of a watch, and the exception it ended with, if any."""
    events: list[WatchEvent[Pod]] = []
    failure = None
    async with (
        ScriptedServer(*script) as server,
        RestClient(
            connection_to(server.url),
            user_agent="kubesched/test",
            clock=clock or InstantClock(),
            qps=-1,
        ) as client,
    ):
        try:
            async for event in client.watch(PODS, options or ListOptions()):
                events.append(event)  # noqa: PERF401 - those before a failure count
        except (ApiError, ConnectionFailed, DecodeError) as error:
            failure = error
    return events, failure, server


def told(events: list[WatchEvent[Pod]]) -> list[tuple[str, str]]:
    return [(event.type.value, event.object.metadata.resource_version) for event in events]


async def test_a_watch_yields_typed_events_until_the_server_ends_it() -> None:
    options = ListOptions(
        resource_version="0", allow_watch_bookmarks=True, field_selector="a!=b,c=d"
    )
    stream = Stream([ADDED, MODIFIED, DELETED, bookmark_json("9")])
    events, failure, server = await watch(stream, options=options)

    assert failure is None
    assert [event.type for event in events] == [
        EventType.ADDED,
        EventType.MODIFIED,
        EventType.DELETED,
        EventType.BOOKMARK,
    ]
    assert events[0].object == pod("a", "1")
    assert events[3].object.metadata.resource_version == "9"
    assert server.asked[0].query == {
        "allowWatchBookmarks": "true",
        "fieldSelector": "a!=b,c=d",
        "resourceVersion": "0",
        "watch": "true",
    }


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
async def test_a_stream_may_be_cut_at_any_byte(size: int) -> None:
    text = b"".join(json.dumps(event).encode() + b"\n" for event in (ADDED, MODIFIED, DELETED))
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    events, failure, _ = await watch(Stream(chunks))

    assert (told(events), failure) == ([("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "3")], None)


async def test_an_event_may_be_far_longer_than_any_buffer() -> None:
    long = pod_json("a", "1")
    long["spec"] = {"nodeSelector": {"key": "x" * 600_000}}
    events, failure, _ = await watch(Stream([event_json("ADDED", long), MODIFIED]))

    assert (told(events), failure) == ([("ADDED", "1"), ("MODIFIED", "2")], None)


async def test_empty_lines_and_windows_line_ends_do_no_harm() -> None:
    lines = b"\n" + json.dumps(ADDED).encode() + b"\r\n\n" + json.dumps(MODIFIED).encode() + b"\n"
    events, failure, _ = await watch(Stream([lines]))

    assert (told(events), failure) == ([("ADDED", "1"), ("MODIFIED", "2")], None)


@pytest.mark.parametrize("then", ["end", "reset"])
async def test_half_an_event_at_the_end_interrupts_the_watch(then: str) -> None:
    half = json.dumps(MODIFIED).encode()[:-20]
    events, failure, _ = await watch(Stream([ADDED, half], then=then))

    assert told(events) == [("ADDED", "1")]
    assert isinstance(failure, StreamInterrupted)


async def test_a_last_event_needs_no_end_of_line() -> None:
    events, failure, _ = await watch(Stream([ADDED, json.dumps(MODIFIED).encode()]))

    assert (told(events), failure) == ([("ADDED", "1"), ("MODIFIED", "2")], None)


async def test_a_broken_connection_interrupts_the_watch() -> None:
    events, failure, _ = await watch(Stream([ADDED], then="reset"))

    assert told(events) == [("ADDED", "1")]
    assert isinstance(failure, StreamInterrupted)


async def test_an_error_event_ends_the_watch_with_that_error() -> None:
    gone = event_json("ERROR", status(410, "Expired", "too old resource version: 1 (5)"))
    events, failure, _ = await watch(Stream([ADDED, gone, MODIFIED]))

    assert told(events) == [("ADDED", "1")]
    assert isinstance(failure, Expired)
    assert str(failure) == "too old resource version: 1 (5)"


async def test_an_error_event_without_a_status_is_an_error_all_the_same() -> None:
    _, failure, _ = await watch(Stream([event_json("ERROR", {"kind": "Oops"})]))

    assert isinstance(failure, ApiError)
    assert failure.status == 500


async def test_an_object_of_another_kind_is_skipped_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = {"kind": "Service", "apiVersion": "v1", "metadata": {"resourceVersion": "8"}}
    with caplog.at_level(logging.ERROR):
        events, failure, _ = await watch(Stream([event_json("ADDED", service), MODIFIED]))

    assert (told(events), failure) == ([("MODIFIED", "2")], None)
    assert "expected v1 Pod, got v1 Service" in caplog.text


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b'{"type":"RENAMED","object":{"kind":"Pod","apiVersion":"v1"}}\n',
        b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","spec":{"nodeName":1}}}\n',
    ],
)
async def test_an_event_that_makes_no_sense_ends_the_watch(line: bytes) -> None:
    events, failure, _ = await watch(Stream([ADDED, line, MODIFIED]))

    assert told(events) == [("ADDED", "1")]
    assert isinstance(failure, DecodeError)


async def test_opening_a_watch_is_retried_after_the_delay_of_the_server() -> None:
    clock = InstantClock()
    busy = Answer(status(429, "TooManyRequests"), 429, {"Retry-After": "3"})
    events, failure, server = await watch(busy, busy, Stream([ADDED]), clock=clock)

    assert (told(events), failure) == ([("ADDED", "1")], None)
    assert clock.slept == [3, 3]
    assert len(server.asked) == 3


async def test_a_server_that_stays_busy_ends_the_attempts() -> None:
    clock = InstantClock()
    busy = Answer(status(429, "TooManyRequests"), 429, {"Retry-After": "3"})
    _, failure, server = await watch(*[busy] * 20, clock=clock)

    assert isinstance(failure, TooManyRequests)
    assert len(server.asked) == 11


async def test_connections_that_keep_breaking_make_an_empty_watch() -> None:
    clock = InstantClock()
    events, failure, server = await watch(*[Reset()] * 20, clock=clock)

    assert (events, failure) == ([], None)
    assert clock.slept == [1] * 10
    assert len(server.asked) == 11


async def test_a_watch_is_refused_like_any_request() -> None:
    _, failure, _ = await watch(Answer(status(422, "Invalid", "sendInitialEvents"), 422))

    assert isinstance(failure, ApiError)
    assert (failure.status, str(failure)) == (422, "sendInitialEvents")


async def test_watches_are_not_paced_and_do_not_wait_for_a_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler.client.transport._CONNECTIONS_MAX", 1)
    clock = InstantClock()
    async with (
        ScriptedServer(*[Stream([ADDED], then="hold")] * 5, Answer({})) as server,
        RestClient(
            connection_to(server.url), user_agent="kubesched/test", clock=clock, qps=1, burst=1
        ) as client,
        contextlib.AsyncExitStack() as open_watches,
    ):
        for _ in range(5):
            events = client.watch(PODS, ListOptions())
            await open_watches.enter_async_context(contextlib.aclosing(events))
            await anext(events)
        await client.get(PODS, "p", namespace="default")

    assert clock.slept == []


async def test_leaving_a_watch_drops_its_connection() -> None:
    async with (
        ScriptedServer(Stream([ADDED], then="hold")) as server,
        RestClient(
            connection_to(server.url), user_agent="kubesched/test", clock=InstantClock()
        ) as client,
    ):
        async with contextlib.aclosing(client.watch(PODS, ListOptions())) as events:
            await anext(events)
        await server.wait_for_disconnects(1)


async def test_a_watch_without_a_server_is_refused_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    clock = InstantClock()
    async with RestClient(connection_to(url), user_agent="kubesched/test", clock=clock) as client:
        with pytest.raises(ConnectionRefused):
            await anext(client.watch(PODS, ListOptions()))

    assert clock.slept == []


async def test_a_watch_that_is_unauthorized_asks_for_new_credentials() -> None:
    class Identity:
        rejections = 0

        async def authorization(self) -> str | None:
            return "Bearer old"

        def rejected(self, header: str | None) -> None:
            self.rejections += header == "Bearer old"

    identity = Identity()
    async with ScriptedServer(Answer(status(401, "Unauthorized"), 401)) as server:
        connection = Connection(base_url=server.url, credentials=identity)
        async with RestClient(
            connection, user_agent="kubesched/test", clock=InstantClock()
        ) as client:
            with pytest.raises(Unauthorized):
                await anext(client.watch(PODS, ListOptions()))

    assert identity.rejections == 1
