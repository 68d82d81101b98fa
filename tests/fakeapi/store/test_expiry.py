"""Events end after their time to live, on the server's clock."""

import copy
import gc
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock, ServerOptions
from fakeapi.store.store import Revision

from ..api_client import ApiClient
from ..objects import CORE_EVENTS, EVENTS
from ..state_files import serving

HOUR = 3600
KIND = {"apiVersion": "v1", "kind": "Event"}
OLD: dict[str, Any] = {
    "metadata": {"name": "old"},
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
}
NEW: dict[str, Any] = {
    "metadata": {"name": "new"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "a",
    "reportingInstance": "b",
    "action": "c",
    "reason": "d",
    "type": "Normal",
    "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
}


async def test_events_of_both_apis_are_deleted_an_hour_after_their_last_write(
    api: ApiClient, clock: ManualClock
) -> None:
    await api.create(CORE_EVENTS, OLD)
    await api.create(EVENTS, NEW)
    clock.advance(HOUR / 2)
    await api.patch(f"{CORE_EVENTS}/old", {"message": "again"})
    async with api.watch(EVENTS, resourceVersion=(await api.get(EVENTS)).version) as stream:
        clock.advance(HOUR / 2 - 1)
        assert (await api.get(EVENTS)).names == ["new", "old"]
        clock.advance(1)
        assert (await api.get(EVENTS)).names == ["old"]
        clock.advance(HOUR / 2)
        assert await stream.take(2) == [("DELETED", "new"), ("DELETED", "old")]


async def test_an_event_that_was_made_again_has_its_own_hour(
    api: ApiClient, clock: ManualClock
) -> None:
    await api.create(CORE_EVENTS, OLD)
    clock.advance(HOUR / 2)
    await api.delete(f"{CORE_EVENTS}/old")
    await api.create(CORE_EVENTS, copy.deepcopy(OLD))
    clock.advance(HOUR - 1)
    assert (await api.get(CORE_EVENTS)).names == ["old"]
    clock.advance(1)
    assert (await api.get(CORE_EVENTS)).names == []


@pytest.mark.parametrize(("seconds", "left"), [(60.0, []), (0.0, ["old"])])
async def test_the_time_to_live_is_an_option(
    clock: ManualClock, session: aiohttp.ClientSession, seconds: float, left: list[str]
) -> None:
    options = ServerOptions(event_ttl_seconds=seconds)
    async with FakeApiServer(clock=clock, load=[{**OLD, **KIND}], options=options) as server:
        clock.advance(100)
        assert (await ApiClient(session, server.url).get(CORE_EVENTS)).names == left


async def test_an_event_that_is_written_often_takes_no_more_memory(
    clock: ManualClock, session: aiohttp.ClientSession
) -> None:
    options = ServerOptions(event_log_size=2)
    async with FakeApiServer(clock=clock, load=[{**OLD, **KIND}], options=options) as server:
        api = ApiClient(session, server.url)
        for number in range(100):
            await api.patch(f"{CORE_EVENTS}/old", {"message": f"{number}"})
        kept = [each for each in gc.get_objects() if isinstance(each, Revision)]
        assert len([each for each in kept if each.key == "default/old"]) < 50


async def test_a_restored_event_ends_too(tmp_path: Path) -> None:
    clock = ManualClock()
    async with serving(clock, data=tmp_path / "state.db") as (_, api):
        await api.create(CORE_EVENTS, OLD)
    async with serving(clock, data=tmp_path / "state.db") as (_, api):
        clock.advance(HOUR - 1)
        assert (await api.get(CORE_EVENTS)).names == ["old"]
        clock.advance(1)
        assert (await api.get(CORE_EVENTS)).names == []
