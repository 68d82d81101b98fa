"""Events of the core group: their content, and their retries."""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator

import pytest

from scheduler.api.core import ObjectReference
from scheduler.client import RestClient, connection_to
from scheduler.leader_election.core_events import CoreEventRecorder
from scheduler.testing import VirtualClock
from tests.client.scripted_server import Answer, Reset, Script, ScriptedServer

LEASE = ObjectReference(
    api_version="coordination.k8s.io/v1",
    kind="Lease",
    namespace="kube-system",
    name="kube-scheduler",
    uid="u",
    resource_version="7",
)
START = 1_767_225_600.0


@contextlib.asynccontextmanager
async def recording(
    clock: VirtualClock, *script: Script
) -> AsyncIterator[tuple[CoreEventRecorder, ScriptedServer]]:
    async with (
        ScriptedServer(*script) as server,
        RestClient(connection_to(server.url), user_agent="kubesched/test", clock=clock) as client,
    ):
        yield (
            CoreEventRecorder(client, "default-scheduler", clock=clock, rng=random.Random(0)),
            server,
        )


def note(recorder: CoreEventRecorder, words: str = "me became leader") -> None:
    recorder.event(LEASE, type="Normal", reason="LeaderElection", message=words)


async def written(recorder: CoreEventRecorder) -> None:
    while not recorder.is_idle:  # noqa: ASYNC110 - real HTTP takes real milliseconds
        await asyncio.sleep(0.001)


async def test_an_event_is_written_as_the_older_recorder_writes_it() -> None:
    async with recording(VirtualClock(START), Answer(status=201)) as (recorder, server):
        running = asyncio.ensure_future(recorder.run())
        note(recorder)
        await written(recorder)
        running.cancel()
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/kube-system/events")
    assert asked.json == {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {
            "name": f"kube-scheduler.{int(START * 1e9):x}",
            "namespace": "kube-system",
        },
        "involvedObject": {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "namespace": "kube-system",
            "name": "kube-scheduler",
            "uid": "u",
            "resourceVersion": "7",
        },
        "reason": "LeaderElection",
        "message": "me became leader",
        "source": {"component": "default-scheduler"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        "type": "Normal",
        "reportingComponent": "default-scheduler",
    }


async def test_a_refused_event_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async with recording(VirtualClock(), Answer(status=403)) as (recorder, server):
        running = asyncio.ensure_future(recorder.run())
        note(recorder)
        await written(recorder)
        running.cancel()
    assert len(server.asked) == 1
    assert "was refused" in caplog.text


async def test_an_event_without_an_answer_is_tried_again_twelve_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    async with recording(clock, *[Reset()] * 12) as (recorder, server):
        running = asyncio.ensure_future(recorder.run())
        note(recorder)
        with caplog.at_level(logging.ERROR):
            for number in range(1, 13):
                await server.wait_for_requests(number)
                while clock.next_wake_up is None and not recorder.is_idle:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                await clock.advance(10.0)
            await written(recorder)
        running.cancel()
    assert len(server.asked) == 12
    assert clock.monotonic() <= 12 * 10
    assert "after 12 tries" in caplog.text


async def test_events_that_wait_at_the_end_are_sent_once_more() -> None:
    clock = VirtualClock()
    async with recording(clock, Reset(), Reset(), Answer(status=201)) as (recorder, server):
        running = asyncio.ensure_future(recorder.run())
        note(recorder, "first")
        await server.wait_for_requests(1)
        running.cancel()
        note(recorder, "second")
        await recorder.flush()
        assert recorder.is_idle
    assert len(server.asked) == 3
