"""WatchList (KEP-3157): watches that begin with the state and mark its end.

The table of combinations is RunWatchSemantics in apiserver pkg/storage/testing/watcher_tests.go.
"""

import asyncio

import pytest

from fakeapi import FakeApiServer, ManualClock

from ..api_client import ApiClient
from ..objects import CONFIG_MAPS, config_map

STATE = ["a", "b", "c"]
OLD, NOW = "old", "now"
NOTHING: list[str] = []


@pytest.mark.parametrize("bookmarks", [True, False])
@pytest.mark.parametrize(
    ("send", "version", "initial"),
    [
        (True, None, STATE),
        (True, "0", STATE),
        (True, OLD, STATE),
        (True, NOW, STATE),
        (False, None, NOTHING),
        (False, "0", NOTHING),
        (False, OLD, STATE),
        (False, NOW, NOTHING),
        (None, None, STATE),
        (None, "0", STATE),
        (None, OLD, STATE),
        (None, NOW, NOTHING),
    ],
)
async def test_what_a_watch_begins_with(
    api: ApiClient, bookmarks: bool, send: bool | None, version: str | None, initial: list[str]
) -> None:
    before = (await api.get(CONFIG_MAPS)).version
    for name in STATE:
        await api.create(CONFIG_MAPS, config_map(name))
    now = (await api.get(CONFIG_MAPS)).version
    query = {"allowWatchBookmarks": str(bookmarks).lower()}
    if send is not None:
        query |= {"sendInitialEvents": str(send).lower(), "resourceVersionMatch": "NotOlderThan"}
    if version is not None:
        query["resourceVersion"] = {OLD: str(before), NOW: str(now)}.get(version, version)
    async with api.watch(CONFIG_MAPS, **query) as stream:
        assert await stream.take(len(initial)) == [("ADDED", name) for name in initial]
        if (send or (send is None and version in (None, "0"))) and bookmarks:
            assert await stream.next() == {
                "type": "BOOKMARK",
                "object": {
                    "kind": "ConfigMap",
                    "apiVersion": "v1",
                    "metadata": {
                        "resourceVersion": str(now),
                        "annotations": {"k8s.io/initial-events-end": "true"},
                    },
                },
            }
        await api.create(CONFIG_MAPS, config_map("d"))
        assert await stream.take(1) == [("ADDED", "d")]


async def test_the_final_bookmark_has_the_version_of_the_whole_server(
    api: ApiClient, server: FakeApiServer
) -> None:
    await api.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    async with api.watch(CONFIG_MAPS, allowWatchBookmarks="true", **query) as stream:
        event = await stream.next()
    assert event is not None
    assert int(event["object"]["metadata"]["resourceVersion"]) == server.resource_version


async def test_a_selector_narrows_the_initial_events(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("a", labels={"x": "1"}))
    await api.create(CONFIG_MAPS, config_map("b"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    async with api.watch(
        CONFIG_MAPS, labelSelector="x", allowWatchBookmarks="true", **query
    ) as stream:
        assert await stream.take(2) == [("ADDED", "a"), ("BOOKMARK", "")]


async def test_a_version_that_is_not_reached_ends_the_watch_after_three_seconds(
    api: ApiClient, clock: ManualClock
) -> None:
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    async with api.watch(CONFIG_MAPS, resourceVersion=10**6, **query) as stream:
        await asyncio.sleep(0)
        clock.advance(3)
        events = await stream.rest()
    assert [event["type"] for event in events] == ["ERROR"]
    status = events[0]["object"]
    assert (status["code"], status["reason"]) == (504, "Timeout")
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_a_version_that_is_reached_in_time_is_waited_for(api: ApiClient) -> None:
    version = (await api.get(CONFIG_MAPS)).version + 1
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    async with api.watch(CONFIG_MAPS, resourceVersion=version, **query) as stream:
        await api.create(CONFIG_MAPS, config_map("a"))
        assert await stream.take(1) == [("ADDED", "a")]


FIELD = "resourceVersionMatch"
FORBIDDEN, UNSUPPORTED = "FieldValueForbidden", "FieldValueNotSupported"


@pytest.mark.parametrize(
    ("query", "causes"),
    [
        ({"sendInitialEvents": "true"}, [(FORBIDDEN, FIELD)]),
        ({"sendInitialEvents": "false"}, [(FORBIDDEN, FIELD)]),
        (
            {"sendInitialEvents": "true", FIELD: "Exact"},
            [(FORBIDDEN, FIELD), (UNSUPPORTED, FIELD)],
        ),
        ({FIELD: "NotOlderThan", "resourceVersion": "5"}, [(FORBIDDEN, FIELD)]),
        (
            {"sendInitialEvents": "true", FIELD: "NotOlderThan", "continue": "x"},
            [(FORBIDDEN, FIELD)],
        ),
    ],
)
async def test_combinations_that_mean_nothing_are_refused(
    api: ApiClient, query: dict[str, str], causes: list[tuple[str, str]]
) -> None:
    reply = await api.get(CONFIG_MAPS, watch="true", **query)
    assert (reply.code, reply.reason, reply.causes) == (422, "Invalid", causes)
    assert reply.body["details"]["kind"] == "ListOptions"


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        (
            {"resourceVersion": "abc"},
            500,
            'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": '
            "invalid syntax",
        ),
        ({"timeoutSeconds": "abc"}, 400, 'strconv.ParseInt: parsing "abc": invalid syntax'),
    ],
)
async def test_numbers_must_be_numbers(
    api: ApiClient, query: dict[str, str], code: int, message: str
) -> None:
    reply = await api.get(CONFIG_MAPS, watch="true", **query)
    assert (reply.code, reply.message) == (code, message)
