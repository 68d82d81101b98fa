"""Faults of watches, over HTTP: silence, ends of every kind, events twice, lost or damaged."""

from typing import Any

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock
from fakeapi.faults import (
    Cut,
    DropWatches,
    Duplicate,
    Fault,
    Lose,
    Match,
    Observe,
    Outdated,
    Retype,
    Stall,
    Strip,
    When,
)

from ..api_client import ApiClient, brief, eventually
from ..objects import CONFIG_MAPS, PODS, config_map, pod
from .test_requests import WATCH_LIST

ADDED = Match(event="ADDED")


async def test_an_event_comes_twice(server: FakeApiServer, api: ApiClient) -> None:
    server.faults.add(Fault(match=ADDED, when=When(nth=2), duplicate=Duplicate()))
    async with api.watch(CONFIG_MAPS) as stream:
        for name in ("a", "b", "c"):
            await api.create(CONFIG_MAPS, config_map(name))
        events = [await stream.next() for _ in range(4)]
    assert [brief(event)[1] for event in events] == ["a", "b", "b", "c"]
    assert events[1] == events[2]


async def test_an_event_is_lost(server: FakeApiServer, api: ApiClient) -> None:
    server.faults.add(Fault(match=Match(event="DELETED", name="a"), lose=Lose()))
    async with api.watch(CONFIG_MAPS) as stream:
        for name in ("a", "b"):
            await api.create(CONFIG_MAPS, config_map(name))
            await api.delete(f"{CONFIG_MAPS}/{name}")
        expected = [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "b")]
        assert await stream.take(3) == expected


async def test_an_older_state_comes_after_the_newer_one(
    server: FakeApiServer, api: ApiClient
) -> None:
    server.faults.add(Fault(match=Match(event="MODIFIED"), outdated=Outdated()))
    await api.create(CONFIG_MAPS, config_map("a", {"k": "old"}))
    async with api.watch(CONFIG_MAPS, resourceVersion=server.resource_version) as stream:
        await api.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "new"}})
        newer, older = await stream.next(), await stream.next()
    assert newer is not None
    assert older is not None
    assert (newer["object"]["data"], older["object"]["data"]) == ({"k": "new"}, {"k": "old"})
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in (newer, older)]
    assert versions[0] > versions[1]


async def test_an_event_is_about_another_kind(server: FakeApiServer, api: ApiClient) -> None:
    server.faults.add(Fault(match=ADDED, retype=Retype()))
    async with api.watch(CONFIG_MAPS) as stream:
        await api.create(CONFIG_MAPS, config_map("a"))
        event = await stream.next()
    assert event is not None
    assert event["object"]["kind"] == "Unexpected"


async def test_the_end_of_initial_events_is_not_marked(
    server: FakeApiServer, api: ApiClient
) -> None:
    server.faults.add(Fault(match=Match(event="INITIAL_EVENTS_END"), strip=Strip()))
    async with api.watch(CONFIG_MAPS, **WATCH_LIST) as stream:
        event = await stream.next()
    assert event is not None
    assert event["type"] == "BOOKMARK"
    assert "annotations" not in event["object"]["metadata"]


async def test_the_end_of_initial_events_never_comes(server: FakeApiServer, api: ApiClient) -> None:
    server.faults.add(Fault(match=Match(event="INITIAL_EVENTS_END"), lose=Lose()))
    async with api.watch(CONFIG_MAPS, **WATCH_LIST) as stream:
        await api.create(CONFIG_MAPS, config_map("a"))
        assert await stream.take(1) == [("ADDED", "a")]


async def test_a_silent_watch_goes_on_when_its_fault_goes(
    server: FakeApiServer, api: ApiClient
) -> None:
    server.faults.add(Fault(match=Match(resource="configmaps", event="ADDED"), stall=Stall()))
    async with api.watch(CONFIG_MAPS) as silent, api.watch(PODS) as other:
        await api.create(CONFIG_MAPS, config_map("a"))
        await api.create(CONFIG_MAPS, config_map("b"))
        await eventually(lambda: server.statistics().watches_stalled == 1)
        assert server.statistics().undelivered_watch_events == 0
        await api.create(PODS, pod("p"))
        assert await other.take(1) == [("ADDED", "p")]
        server.faults.clear()
        assert await silent.take(2) == [("ADDED", "a"), ("ADDED", "b")]
    assert server.statistics().watches_stalled == 0


@pytest.mark.parametrize(
    "fault",
    [
        Fault(stall=Stall(seconds=20.0), when=When(times=1)),
        Fault(stall=Stall(), when=When(until_seconds=20.0)),
    ],
)
async def test_a_silent_watch_goes_on_after_a_time(
    server: FakeApiServer, api: ApiClient, clock: ManualClock, fault: Fault
) -> None:
    server.faults.add(fault)
    async with api.watch(CONFIG_MAPS) as stream:
        await api.create(CONFIG_MAPS, config_map("a"))
        await eventually(lambda: server.statistics().watches_stalled == 1)
        clock.advance(20.0)
        assert await stream.take(1) == [("ADDED", "a")]
        await api.create(CONFIG_MAPS, config_map("b"))
        assert await stream.take(1) == [("ADDED", "b")]


async def test_a_silent_watch_can_be_dropped(server: FakeApiServer, api: ApiClient) -> None:
    server.faults.add(Fault(match=ADDED, stall=Stall()))
    async with api.watch(CONFIG_MAPS) as stream:
        await api.create(CONFIG_MAPS, config_map("a"))
        await eventually(lambda: server.statistics().watches_stalled == 1)
        server.faults.add(Fault(drop_watches=DropWatches()))
        assert await stream.next() is None


async def test_half_an_event_comes_and_then_a_reset(server: FakeApiServer, api: ApiClient) -> None:
    server.faults.add(Fault(match=ADDED, when=When(nth=2), cut=Cut(how="truncate")))
    async with api.watch(CONFIG_MAPS) as stream:
        await api.create(CONFIG_MAPS, config_map("a"))
        assert await stream.take(1) == [("ADDED", "a")]
        await api.create(CONFIG_MAPS, config_map("b"))
        with pytest.raises(aiohttp.ClientError):
            await stream.next()


async def test_a_watch_breaks_off(server: FakeApiServer, api: ApiClient) -> None:
    server.faults.add(Fault(match=ADDED, cut=Cut(how="reset")))
    async with api.watch(CONFIG_MAPS) as stream:
        await api.create(CONFIG_MAPS, config_map("a"))
        with pytest.raises(aiohttp.ClientError):
            await stream.next()
    await eventually(lambda: server.statistics().watchers == 0)


@pytest.mark.parametrize("after_event", [False, True])
@pytest.mark.parametrize(
    ("how", "last"),
    [("eof", None), ("expired", (410, "Expired")), ("error", (500, "InternalError"))],
)
async def test_a_watch_ends_instead_of_an_event_or_after_it(
    server: FakeApiServer,
    api: ApiClient,
    how: str,
    last: tuple[int, str] | None,
    after_event: bool,
) -> None:
    server.faults.add(Fault(match=ADDED, cut=Cut(how=how, after_event=after_event)))
    async with api.watch(CONFIG_MAPS) as stream:
        await api.create(CONFIG_MAPS, config_map("a"))
        events = await stream.rest()
    names = [brief(event)[1] for event in events if event["type"] != "ERROR"]
    errors = [event["object"] for event in events if event["type"] == "ERROR"]
    assert names == (["a"] if after_event else [])
    assert [(error["code"], error["reason"]) for error in errors] == ([last] if last else [])
    assert server.statistics().watchers == 0


async def test_a_watch_ends_before_its_first_event(server: FakeApiServer, api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("a"))
    server.faults.add(Fault(match=Match(event="OPENED"), cut=Cut()))
    for query in ({}, WATCH_LIST):
        async with api.watch(CONFIG_MAPS, **query) as stream:
            assert await stream.next() is None


@pytest.mark.parametrize(("how", "expected"), [("eof", []), ("expired", [410]), ("error", [500])])
async def test_open_watches_end_at_once(
    server: FakeApiServer, api: ApiClient, how: str, expected: list[int]
) -> None:
    async with api.watch(CONFIG_MAPS) as dropped, api.watch(PODS) as spared:
        match = Match(resource="configmaps")
        server.faults.add(Fault(match=match, drop_watches=DropWatches(how=how)))
        assert [event["object"]["code"] for event in await dropped.rest()] == expected
        await api.create(PODS, pod("p"))
        assert await spared.take(1) == [("ADDED", "p")]


async def test_open_watches_break_off_at_once(server: FakeApiServer, api: ApiClient) -> None:
    async with api.watch(CONFIG_MAPS) as stream:
        server.faults.add(Fault(drop_watches=DropWatches(how="reset")))
        with pytest.raises(aiohttp.ClientError):
            await stream.next()


async def test_events_match_by_type_object_and_watch(server: FakeApiServer, api: ApiClient) -> None:
    matches: dict[str, Any] = {
        "all": Match(event=["ADDED", "MODIFIED", "DELETED"]),
        "added": Match(event="ADDED"),
        "of-a": Match(event=["ADDED", "MODIFIED", "DELETED"], name="a"),
        "of-pods": Match(event="ADDED", resource="pods"),
        "of-nobody": Match(event="ADDED", client="nobody"),
        "opened": Match(event="OPENED"),
    }
    for name, match in matches.items():
        server.faults.add(Fault(name=name, match=match, observe=Observe()))
    async with api.watch(CONFIG_MAPS) as stream:
        await api.create(CONFIG_MAPS, config_map("a"))
        await api.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
        await api.create(CONFIG_MAPS, config_map("b"))
        await stream.take(3)
    counts = {name: server.faults.count(name) for name in matches}
    expected = {"all": 3, "added": 2, "of-a": 2, "of-pods": 0, "of-nobody": 0, "opened": 1}
    assert counts == expected


async def test_other_events_are_sent_unchanged(server: FakeApiServer, api: ApiClient) -> None:
    for number in range(50):
        await api.create(CONFIG_MAPS, config_map(f"c{number:02}"))
    async with api.watch(CONFIG_MAPS, **WATCH_LIST) as stream:
        plain = [await stream.next() for _ in range(51)]
    server.faults.add(Fault(match=Match(name="nothing"), lose=Lose()))
    async with api.watch(CONFIG_MAPS, **WATCH_LIST) as stream:
        assert [await stream.next() for _ in range(51)] == plain


async def test_a_server_that_stops_does_not_wait_for_silent_watches(
    server: FakeApiServer, api: ApiClient
) -> None:
    server.faults.add(Fault(match=ADDED, stall=Stall()))
    async with api.watch(CONFIG_MAPS):
        await api.create(CONFIG_MAPS, config_map("a"))
        await eventually(lambda: server.statistics().watches_stalled == 1)
        await server.__aexit__(None, None, None)
        await server.__aenter__()
