"""A history carried out at its own times, on an API server with a virtual clock."""

import asyncio
from typing import cast

import pytest

from conformance.api import ApiClient, Json, Ref
from conformance.clock import VirtualClock
from conformance.connection import Connection
from conformance.errors import RequestFailed
from conformance.format.reading import name_of
from conformance.replay.held import PODS, HeldPod
from conformance.replay.history import History, HistoryNode, Write
from conformance.replay.recording import Placement, Recorder
from conformance.replay.timed import play_in_time
from fakeapi import FakeApiServer
from tests.conformance.replay.evidence import CPU_ONLY, T4, task


async def _played(
    history: History, recorder: Recorder, clock: VirtualClock
) -> list[tuple[float, str, str]]:
    """Play a history, and return the time, the kind of each write, and the name of its object."""
    seen = []

    def note(write: Write) -> None:
        verb = "create" if write.is_creation else "delete" if write.patch is None else "patch"
        seen.append((round(clock.now() - start, 1), verb, name_of(write.object)))

    async with FakeApiServer() as server, ApiClient(Connection(server.url)) as client:
        start = clock.now()
        playing = asyncio.ensure_future(
            play_in_time(history, client, recorder, clock, on_write=note)
        )
        while not playing.done():
            await asyncio.sleep(0)
            if clock.next_wake_up is not None:
                clock.move_to(clock.next_wake_up)
        await playing
        left = (await client.listing(PODS, HeldPod)).items
    assert [pod.metadata.key for pod in left] == ["last"]
    return seen


async def test_objects_come_change_and_go_at_their_times_and_gaps_are_cut() -> None:
    first = task("first")._replace(ended_seconds=10.0)
    brief = task("brief")._replace(created_seconds=10.0, ended_seconds=10.0)
    last = task("last")._replace(created_seconds=1000.0)
    late = HistoryNode("node-t4", T4.object, 20.0)
    cordoned = Write(20.0, T4.object, patch={"spec": {"unschedulable": True}})
    history = History((CPU_ONLY, late), (first, brief, last), (), (cordoned,))
    clock = VirtualClock(0)
    recorder = Recorder((pod.name for pod in history.pods), clock)
    assert await _played(history, recorder, clock) == [
        (0, "create", "node-cpu"),
        (0, "create", "first"),
        (10, "delete", "first"),
        (10, "create", "brief"),
        (10, "delete", "brief"),
        (20, "create", "node-t4"),
        (20, "patch", "node-t4"),
        (50, "create", "last"),
    ]


async def test_a_pod_runs_from_the_moment_in_which_it_gets_a_node() -> None:
    first = task("first")._replace(run_seconds=7.0)
    last = task("last")._replace(created_seconds=20.0)
    clock = VirtualClock(0)
    recorder = Recorder(("first", "last"), clock)
    recorder.placements.append(Placement(0.0, "first", "uid", "node-cpu"))
    seen = await _played(History((CPU_ONLY,), (first, last)), recorder, clock)
    assert (7.0, "delete", "first") in seen


class Refusing:
    """A client whose changes are all refused with a status."""

    def __init__(self, status: int) -> None:
        self._status = status

    async def delete(self, _: Ref) -> None:
        raise RequestFailed("refused", status=self._status)

    async def patch(self, *_: object, **__: object) -> None:
        raise RequestFailed("refused", status=self._status)


@pytest.mark.parametrize("patch", [None, {"metadata": {"labels": {"app": "web"}}}])
async def test_an_object_that_the_scheduler_has_deleted_is_left_alone(patch: Json | None) -> None:
    clock = VirtualClock(0)
    history = History((), (), (), (Write(0.0, task("gone").object, patch=patch),))
    noted: list[Write] = []

    async def play(status: int) -> None:
        client = cast("ApiClient", Refusing(status))
        await play_in_time(history, client, Recorder((), clock), clock, on_write=noted.append)

    await play(404)
    assert noted == [*history.writes]
    with pytest.raises(RequestFailed, match="refused"):
        await play(409)


async def test_a_pod_that_is_bound_for_good_has_no_end() -> None:
    clock = VirtualClock(0)
    recorder = Recorder(("last",), clock)
    recorder.placements += [
        Placement(0.0, "last", "uid", "node-cpu"),
        Placement(0.0, "other", "uid", ""),
    ]
    seen = await _played(History((CPU_ONLY,), (task("last"),)), recorder, clock)
    assert [verb for _, verb, _ in seen] == ["create", "create"]
