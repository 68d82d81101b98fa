"""Events: which are written, which are only counted, and retries while the server is away.

The series cases follow `eventseries_test.go` and `event_recorder_test.go` of client-go v0.36.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
from collections.abc import AsyncIterator
from typing import cast

import msgspec
import pytest

from scheduler.api.core import ObjectReference
from scheduler.client import EVENTS, PODS, RestClient, connection_to
from scheduler.client.errors import ClientError, ConnectionFailed, KubeconfigError
from scheduler.client.event_recorder import EventBroadcaster, EventRecorder
from scheduler.client.objects import Event
from scheduler.testing import VirtualClock
from tests.client.objects import pod
from tests.client.scripted_server import Answer, ScriptedServer
from tests.client.scripted_source import refusal

GONE = refusal(404, "NotFound")
EXISTS = refusal(409, "AlreadyExists")
INVALID = refusal(422, "Invalid")
AWAY = ConnectionFailed("no route to host")


class Desk:
    """Takes events; fails as told, once per error, then works."""

    def __init__(self) -> None:
        self.created: list[Event] = []
        self.patched: list[tuple[str, object]] = []
        self.log: list[str] = []
        self.failures: list[tuple[str, ClientError]] = []

    def fail(self, verb: str, *errors: ClientError) -> None:
        self.failures += [(verb, error) for error in errors]

    async def create(self, _: object, event: Event) -> None:
        self._note("POST")
        self.created.append(event)

    async def request(self, method: str, path: str, *, body: bytes, **_: object) -> None:
        self._note(method)
        self.patched.append((path.rpartition("/")[2], msgspec.json.decode(body)))

    def _note(self, verb: str) -> None:
        self.log.append(verb)
        for index, (failing, error) in enumerate(self.failures):
            if failing == verb:
                del self.failures[index]
                raise error


class Rig:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.desk = Desk()
        client = cast("RestClient", self.desk)
        self.broadcaster = EventBroadcaster(client, clock=self.clock, rng=random.Random(1))
        self.recorder = self.recorder_of("default-scheduler")

    def recorder_of(self, controller: str) -> EventRecorder:
        return EventRecorder(
            broadcaster=self.broadcaster,
            reporting_controller=controller,
            hostname="host",
            clock=self.clock,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Rig]:
        task = asyncio.create_task(self.broadcaster.run())
        await self.clock.advance(0)
        yield self
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def fail_scheduling(self, name: str = "p", version: str = "1", note: str = "no node") -> None:
        record(self.recorder, name, version, note)

    async def settle(self) -> None:
        await self.clock.advance(0)


def record(recorder: EventRecorder, name: str, version: str = "1", note: str = "no node") -> None:
    recorder.event(
        pod(name, version),
        type="Warning",
        reason="FailedScheduling",
        action="Scheduling",
        note=note,
    )


async def test_an_event_is_written_as_upstream_writes_it() -> None:
    rig = Rig()
    async with rig.running():
        rig.recorder.event(
            pod("victim", "7", namespace="ns"),
            related=PODS.reference(pod("preemptor", "8")),
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note="Preempted by a pod on node n1",
        )
        await rig.broadcaster.drain()

    sent = msgspec.json.decode(EVENTS.encode(rig.desk.created[0]))
    assert re.fullmatch(r"victim\.[0-9a-f]{16}", sent["metadata"].pop("name"))
    assert sent == {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "metadata": {"namespace": "ns"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host",
        "action": "Preempting",
        "reason": "Preempted",
        "regarding": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": "ns",
            "name": "victim",
            "uid": "uid-victim",
            "resourceVersion": "7",
        },
        "related": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": "default",
            "name": "preemptor",
            "uid": "uid-preemptor",
            "resourceVersion": "8",
        },
        "note": "Preempted by a pod on node n1",
        "type": "Normal",
    }


async def test_events_go_to_the_server_as_post_and_patch() -> None:
    clock = VirtualClock()
    async with (
        ScriptedServer(Answer(b"opaque", 201), Answer(b"")) as server,
        RestClient(connection_to(server.url), user_agent="kubesched/test", clock=clock) as client,
    ):
        broadcaster = EventBroadcaster(client, clock=clock, rng=random.Random(1))
        sending = asyncio.create_task(broadcaster.run())
        for _ in range(2):
            record(broadcaster.recorder("s"), "p")
            await broadcaster.drain()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    first, second = server.asked
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    assert (first.method, first.path) == ("POST", path)
    assert (second.method, second.path) == ("PATCH", f"{path}/{first.json['metadata']['name']}")  # type: ignore[index]
    assert second.headers["Content-Type"] == "application/strategic-merge-patch+json"


async def test_the_second_event_of_a_kind_makes_a_series_and_later_ones_only_count() -> None:
    """TestEventSeriesf."""
    rig = Rig()
    async with rig.running():
        for seconds in (0, 1, 1, 1):
            await rig.clock.advance(seconds)
            rig.fail_scheduling(note=f"note {rig.clock.now()}")
            await rig.settle()

    name = rig.desk.created[0].metadata.name
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    assert rig.desk.log == ["POST", "PATCH"]
    assert rig.desk.patched == [(name, {"series": series})]


@pytest.mark.parametrize(
    "change",
    [
        {"type": "Normal"},
        {"reason": "Other"},
        {"action": "Other"},
        {"regarding": PODS.reference(pod("p", "2"))},
        {"regarding": PODS.reference(pod("q"))},
        {"related": PODS.reference(pod("r"))},
    ],
)
async def test_an_event_that_differs_in_more_than_its_note_is_a_new_one(
    change: dict[str, object],
) -> None:
    rig = Rig()
    event: dict[str, object] = {
        "regarding": PODS.reference(pod("p")),
        "type": "Warning",
        "reason": "R",
        "action": "A",
        "note": "n",
    }
    async with rig.running():
        rig.recorder.event(**event)  # type: ignore[arg-type]
        rig.recorder.event(**{**event, **change})  # type: ignore[arg-type]
        await rig.broadcaster.drain()

    assert rig.desk.log == ["POST", "POST"]


async def test_two_reporters_do_not_share_a_series() -> None:
    rig = Rig()
    async with rig.running():
        record(rig.recorder, "p")
        record(rig.recorder_of("other"), "p")
        await rig.broadcaster.drain()

    assert [event.reporting_instance for event in rig.desk.created] == [
        "default-scheduler-host",
        "other-host",
    ]


async def test_an_event_the_server_has_forgotten_is_posted_again_with_its_series() -> None:
    rig = Rig()
    rig.desk.fail("PATCH", GONE)
    async with rig.running():
        rig.fail_scheduling()
        rig.fail_scheduling()
        await rig.broadcaster.drain()

    assert rig.desk.log == ["POST", "PATCH", "POST"]
    assert [event.series and event.series.count for event in rig.desk.created] == [None, 2]
    assert rig.desk.created[0].metadata.name == rig.desk.created[1].metadata.name


async def test_an_event_that_comes_into_being_meanwhile_is_patched_after_a_pause() -> None:
    """recordEvent: AlreadyExists for a series is worth another try."""
    rig = Rig()
    async with rig.running():
        rig.fail_scheduling()
        await rig.settle()
        rig.desk.fail("PATCH", GONE)
        rig.desk.fail("POST", EXISTS)
        rig.fail_scheduling()
        await rig.clock.advance(12.5)

    assert rig.desk.log == ["POST", "PATCH", "POST", "PATCH"]


@pytest.mark.parametrize("error", [INVALID, EXISTS, refusal(500, "InternalError"), GONE])
async def test_an_event_the_server_refuses_is_dropped(error: ClientError) -> None:
    rig = Rig()
    rig.desk.fail("POST", error)
    async with rig.running():
        rig.fail_scheduling()
        await rig.clock.advance(1000)

    assert rig.desk.log == ["POST"]
    assert rig.broadcaster.is_idle


@pytest.mark.parametrize("error", [AWAY, KubeconfigError("no token")])
async def test_an_event_that_finds_no_server_is_tried_twelve_times(
    error: ClientError, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig()
    rig.desk.fail("POST", *[error] * 20)
    async with rig.running():
        rig.fail_scheduling()
        await rig.clock.advance(9.9)
        assert rig.desk.log == ["POST"]
        await rig.clock.advance(2.7)
        assert rig.desk.log == ["POST"] * 2
        await rig.clock.advance(1000)

    assert rig.desk.log == ["POST"] * 12
    assert "giving up on event default/p." in caplog.text


async def test_one_event_that_finds_no_server_does_not_hold_up_the_others() -> None:
    rig = Rig()
    rig.desk.fail("POST", AWAY)
    async with rig.running():
        rig.fail_scheduling("a")
        rig.fail_scheduling("b")
        await rig.settle()

    assert [event.regarding.name for event in rig.desk.created] == ["b"]


async def test_a_full_queue_drops_and_logs_its_oldest_event(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("scheduler.client.event_recorder._QUEUE_SIZE", 3)
    rig = Rig()
    with caplog.at_level(logging.DEBUG):
        for number in range(5):
            rig.fail_scheduling(f"p{number}")
    assert caplog.text.count("is dropped: the queue is full") == 2
    async with rig.running():
        await rig.broadcaster.drain()

    assert [event.regarding.name for event in rig.desk.created] == ["p2", "p3", "p4"]


async def test_the_memory_of_events_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.client.event_recorder._REMEMBERED_MAX", 2)
    rig = Rig()
    async with rig.running():
        for name in ("a", "b", "c", "b", "a"):
            rig.fail_scheduling(name)
            await rig.settle()

    assert rig.desk.log == ["POST", "POST", "POST", "PATCH", "POST"]


async def test_a_series_that_went_quiet_is_written_a_last_time_and_forgotten() -> None:
    """TestFinishSeries."""
    rig = Rig()
    async with rig.running():
        for _ in range(5):
            rig.fail_scheduling()
        await rig.clock.advance(13 * 60)
        rig.fail_scheduling()
        await rig.settle()

    assert [patch["series"]["count"] for _, patch in rig.desk.patched] == [2, 5]  # type: ignore[index]
    assert rig.desk.log == ["POST", "PATCH", "PATCH", "POST"]


async def test_a_series_that_goes_on_is_neither_written_nor_forgotten() -> None:
    rig = Rig()
    async with rig.running():
        for _ in range(20):
            rig.fail_scheduling()
            await rig.clock.advance(60)

    assert rig.desk.log == ["POST", "PATCH"]


async def test_a_long_series_is_written_every_half_hour() -> None:
    """TestRefreshExistingEventSeries."""
    rig = Rig()
    async with rig.running():
        for _ in range(61):
            rig.fail_scheduling()
            await rig.clock.advance(60)

    assert [patch["series"]["count"] for _, patch in rig.desk.patched] == [2, 30, 60]  # type: ignore[index]


async def test_a_single_event_expires_without_a_write() -> None:
    rig = Rig()
    async with rig.running():
        rig.fail_scheduling()
        await rig.clock.advance(13 * 60)
        assert rig.desk.log == ["POST"]
        rig.fail_scheduling()
        await rig.settle()

    assert rig.desk.log == ["POST"] * 2


async def test_a_series_whose_last_count_cannot_be_written_is_kept() -> None:
    rig = Rig()
    async with rig.running():
        rig.fail_scheduling()
        rig.fail_scheduling()
        await rig.settle()
        rig.desk.fail("PATCH", AWAY)
        await rig.clock.advance(13 * 60)
        assert rig.desk.patched == [rig.desk.patched[0]]
        await rig.clock.advance(6 * 60)
        assert len(rig.desk.patched) == 2
        rig.fail_scheduling()
        await rig.settle()

    assert len(rig.desk.created) == 2


def test_names_are_unique_on_a_clock_that_stands_still() -> None:
    broadcaster = Rig().broadcaster
    names = {broadcaster.event_name("p", 1_800_000_000.0) for _ in range(100)}

    assert len(names) == 100
    assert min(names) == "p.18fae27693b40000"


@pytest.mark.parametrize("name", ["UPPER", "a:b", "x" * 250, ""])
def test_a_name_that_no_event_may_have_is_replaced(name: str) -> None:
    replaced = Rig().broadcaster.event_name(name, 1_800_000_000.0)

    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", replaced)


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("é" * 512, "é" * 512),
        ("é" * 600, "é" * 510 + " ..."),
        ("x" + "é" * 600, "x" + "é" * 509 + " ..."),
        ("\udcff", "\ufffd"),
    ],
)
async def test_a_note_fits_into_1024_bytes(note: str, expected: str) -> None:
    rig = Rig()
    async with rig.running():
        rig.fail_scheduling(note=note)
        await rig.broadcaster.drain()

    assert rig.desk.created[0].note == expected


async def test_objects_without_a_namespace_are_reported_in_default() -> None:
    rig = Rig()
    async with rig.running():
        node = ObjectReference(kind="Node", api_version="v1", name="n")
        rig.recorder.event(node, type="Normal", reason="R", action="A", note="n")
        await rig.broadcaster.drain()

    assert rig.desk.created[0].metadata.namespace == "default"


async def test_a_type_there_is_not_is_logged_and_goes_nowhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig()
    with caplog.at_level(logging.ERROR):
        rig.recorder.event(pod("p"), type="Error", reason="R", action="A", note="n")

    assert rig.broadcaster.is_idle
    assert "expected type Normal or Warning, got 'Error'" in caplog.text


async def test_the_host_is_part_of_the_instance_by_itself() -> None:
    rig = Rig()
    async with rig.running():
        record(rig.broadcaster.recorder("s"), "p")
        await rig.broadcaster.drain()

    assert re.fullmatch(r"s-.+", rig.desk.created[0].reporting_instance)
