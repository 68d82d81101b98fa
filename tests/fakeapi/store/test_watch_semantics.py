"""Events of a watch: upstream's tables of combinations, transitions and refusals, over HTTP.

Sources: apiserver pkg/storage/testing/watcher_tests.go of v0.36.3 (RunWatchSemantics,
RunWatchSemanticInitialEventsExtended, testWatch, RunTestWatchDeleteEventObjectHaveLatestRV) and
apimachinery pkg/apis/meta/internalversion/validation. The rows carry upstream's names.
"""

import asyncio
import itertools
from typing import Any

import pytest

from fakeapi import FakeApiServer, ManualClock
from tests.fakeapi.api_client import ApiClient
from tests.fakeapi.objects import CONFIG_MAPS, NAMESPACES, NODES, PODS, binding, config_map, pod

Json = dict[str, Any]

BEFORE, AFTER = ["1", "2", "3"], ["4", "5"]
CURRENT = "useCurrentRV"
COMBINATIONS = list(
    itertools.product(("true", "false"), ("true", "false"), ("unset", "0", "1", CURRENT))
)


@pytest.mark.parametrize(
    ("bookmarks", "send", "version"),
    COMBINATIONS,
    ids=[f"allowWatchBookmarks={b}, sendInitialEvents={s}, RV={v}" for b, s, v in COMBINATIONS],
)
async def test_watch_semantics(
    api: ApiClient, server: FakeApiServer, bookmarks: str, send: str, version: str
) -> None:
    """RunWatchSemantics. `RV=1` is still in the log, as in upstream's test."""
    first = server.resource_version
    for name in BEFORE:
        await api.create(CONFIG_MAPS, config_map(name))
    query: Json = {"allowWatchBookmarks": bookmarks, "sendInitialEvents": send}
    query["resourceVersionMatch"] = "NotOlderThan"
    versions = {"0": 0, "1": first, CURRENT: server.resource_version}
    if version != "unset":
        query["resourceVersion"] = versions[version]
    initial = BEFORE if send == "true" or version == "1" else []
    async with api.watch(CONFIG_MAPS, **query) as stream:
        assert await stream.take(len(initial)) == [("ADDED", name) for name in initial]
        if send == bookmarks == "true":
            end = await stream.next()
            assert end is not None
            metadata = end["object"].pop("metadata")
            assert end == {"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1"}}
            assert metadata.pop("annotations") == {"k8s.io/initial-events-end": "true"}
            assert metadata == {"resourceVersion": str(server.resource_version)}
        for name in AFTER:
            await api.create(CONFIG_MAPS, config_map(name))
        assert await stream.take(2) == [("ADDED", name) for name in AFTER]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}], ids=["RV=unset", "RV=0"])
async def test_legacy_watch_begins_with_the_state(api: ApiClient, query: dict[str, str]) -> None:
    """The handler makes it a WatchList before the storage sees it: SetListOptionsDefaults."""
    for name in BEFORE:
        await api.create(CONFIG_MAPS, config_map(name))
    async with api.watch(CONFIG_MAPS, allowWatchBookmarks="true", **query) as stream:
        assert await stream.take(3) == [("ADDED", name) for name in BEFORE]
        end = await stream.next()
        assert end is not None
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await api.create(CONFIG_MAPS, config_map("4"))
        assert await stream.take(1) == [("ADDED", "4")]


async def test_the_end_of_initial_events_has_the_version_of_the_whole_server(
    api: ApiClient, server: FakeApiServer
) -> None:
    """RunWatchSemanticInitialEventsExtended: written elsewhere, but written."""
    await api.create(CONFIG_MAPS, config_map("1"))
    await api.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    async with api.watch(CONFIG_MAPS, allowWatchBookmarks="true", **query) as stream:
        await stream.take(1)
        end = await stream.next()
    assert end is not None
    assert end["object"]["metadata"]["resourceVersion"] == str(server.resource_version)


#: Name: the selector; then writes to the pod `foo`, each with the event it makes, if any.
#: testWatch: labels and node of the pod as written, None deletes it.
TRANSITIONS: dict[str, tuple[dict[str, str], list[tuple[Json | None, str]]]] = {
    "create a key": ({}, [({}, "ADDED")]),
    "key updated to match predicate": (
        {"fieldSelector": "spec.nodeName=bar"},
        [({}, ""), ({"node": "bar"}, "ADDED")],
    ),
    "update": ({}, [({}, "ADDED"), ({"node": "bar"}, "MODIFIED")]),
    "delete because of being filtered": (
        {"fieldSelector": "spec.nodeName!=bar"},
        [({}, "ADDED"), ({"node": "bar"}, "DELETED")],
    ),
    "filtering": (
        {"labelSelector": "select=true"},
        [
            ({"select": "true"}, "ADDED"),
            ({}, "DELETED"),
            ({"select": "true"}, "ADDED"),
            ({"select": "true", "node": "bar"}, "MODIFIED"),
            (None, "DELETED"),
        ],
    ),
    "both selectors": (
        {"labelSelector": "select", "fieldSelector": "status.phase=Running"},
        [
            ({"select": "a"}, ""),
            ({"select": "a", "phase": "Running"}, "ADDED"),
            ({"phase": "Running"}, "DELETED"),
            ({"phase": "Failed"}, ""),
            (None, ""),
        ],
    ),
}


async def _write(api: ApiClient, state: Json | None, *, exists: bool) -> None:
    """Bring the pod into a state: one write, whatever differs."""
    path = f"{PODS}/foo"
    if state is None:
        await api.delete(path, gracePeriodSeconds=0)
        return
    labels = {"select": state["select"]} if "select" in state else {}
    if not exists:
        await api.create(PODS, pod("foo", labels=labels))
        return
    now = (await api.get(path)).body
    if state.get("node") and "nodeName" not in now["spec"]:
        await api.post(f"{path}/binding", binding("foo", state["node"]))
    elif state.get("phase") != now["status"].get("phase") and "phase" in state:
        await api.patch(
            f"{path}/status", {"status": {"phase": state["phase"]}, **_labelled(labels)}
        )
    else:
        await api.patch(path, _labelled(labels))


def _labelled(labels: dict[str, str]) -> Json:
    return {"metadata": {"labels": {"select": labels.get("select")}}}


@pytest.mark.parametrize(("query", "writes"), TRANSITIONS.values(), ids=TRANSITIONS.keys())
async def test_a_watch_gets_the_event_of_each_transition(
    api: ApiClient, query: dict[str, str], writes: list[tuple[Json | None, str]]
) -> None:
    """A pod that enters is ADDED; one that leaves is DELETED: its old content, the new version."""
    start = (await api.get(PODS)).version
    seen: list[tuple[Json, str]] = []  # the object after each write
    async with (
        api.watch(PODS, resourceVersion=start) as everything,
        api.watch(PODS, resourceVersion=start, **query) as stream,
    ):
        before: Json | None = None
        for state, expected in writes:
            await _write(api, state, exists=before is not None)
            event = await everything.next()
            assert event is not None
            if event["type"] == "MODIFIED" and state is None:  # the mark that precedes a deletion
                if expected:
                    assert (await stream.next()) == event
                before = event["object"]
                event = await everything.next()
                assert event is not None
            now = event["object"]
            seen.append((now, expected))
            if expected:
                got = await stream.next()
                assert got is not None
                assert got["type"] == expected
                if expected != "DELETED":
                    assert got["object"] == now
                else:
                    assert before is not None
                    version = now["metadata"]["resourceVersion"]
                    old = {**before, "metadata": {**before["metadata"], "resourceVersion": version}}
                    assert got["object"] == old
            before = now
        await api.create(PODS, pod("last", labels={"select": "true"}))
    versions = [int(obj["metadata"]["resourceVersion"]) for obj, _ in seen]
    assert versions == sorted(set(versions))


#: The query; then the causes of the 422.
FORBIDDEN = ("FieldValueForbidden", "resourceVersionMatch")
UNSUPPORTED = ("FieldValueNotSupported", "resourceVersionMatch")
REFUSALS: dict[str, tuple[dict[str, str], list[tuple[str, str]]]] = {
    "sendInitialEvents without match": ({"sendInitialEvents": "true"}, [FORBIDDEN]),
    "sendInitialEvents=false without match": ({"sendInitialEvents": "false"}, [FORBIDDEN]),
    "sendInitialEvents with Exact": (
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        [FORBIDDEN, UNSUPPORTED],
    ),
    "match without sendInitialEvents": (
        {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "5"},
        [FORBIDDEN],
    ),
    "match=Exact without sendInitialEvents": (
        {"resourceVersionMatch": "Exact", "resourceVersion": "5"},
        [FORBIDDEN, UNSUPPORTED],
    ),
    "continue with match": (
        {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "continue": "x"},
        [FORBIDDEN],
    ),
}


@pytest.mark.parametrize(("query", "causes"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_watch_with_bad_options_is_refused(
    api: ApiClient, query: dict[str, str], causes: list[tuple[str, str]]
) -> None:
    refused = await api.get(CONFIG_MAPS, watch="true", **query)
    assert (refused.code, refused.reason, refused.causes) == (422, "Invalid", causes)


async def test_a_version_that_is_no_number_is_an_error_without_a_reason(api: ApiClient) -> None:
    refused = await api.get(CONFIG_MAPS, watch="true", resourceVersion="abc")
    assert (refused.code, refused.reason) == (500, "")


@pytest.mark.parametrize("bookmarks", ["true", "false"])
async def test_a_deletion_has_a_version_newer_than_all_before(
    api: ApiClient, bookmarks: str
) -> None:
    """RunTestWatchDeleteEventObjectHaveLatestRV."""
    made = await api.create(CONFIG_MAPS, config_map("c"))
    version = int(made["metadata"]["resourceVersion"])
    async with api.watch(
        CONFIG_MAPS, resourceVersion=version, allowWatchBookmarks=bookmarks
    ) as stream:
        await api.delete(f"{CONFIG_MAPS}/c")
        event = await stream.next()
    assert event is not None
    assert event["type"] == "DELETED"
    assert int(event["object"]["metadata"]["resourceVersion"]) > version


@pytest.mark.parametrize(
    ("version", "first"),
    [("before", "ERROR"), ("now", "ADDED"), ("none", "ADDED")],
)
async def test_after_compaction(
    api: ApiClient, server: FakeApiServer, version: str, first: str
) -> None:
    """A watch older than the log gets an error in the stream; other watches do not change."""
    await api.create(CONFIG_MAPS, config_map("a"))
    before = server.resource_version - 1
    await api.create(NODES, {"metadata": {"name": "n"}})
    server.compact()
    query = {"before": {"resourceVersion": before}, "now": {}, "none": {"resourceVersion": 0}}
    query["now"] = {"resourceVersion": server.resource_version}
    async with api.watch(CONFIG_MAPS, **query[version]) as stream:
        if version == "now":
            await api.create(CONFIG_MAPS, config_map("b"))
        event = await stream.next()
        assert event is not None
        assert event["type"] == first
        if first == "ERROR":
            assert event["object"]["code"] == 410
            assert event["object"]["reason"] == "Expired"
            assert await stream.next() is None


async def test_a_future_version_is_waited_for_by_watch_list_only(
    api: ApiClient, server: FakeApiServer, clock: ManualClock
) -> None:
    future = server.resource_version + 2
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    async with (
        api.watch(CONFIG_MAPS, resourceVersion=future) as silent,
        api.watch(CONFIG_MAPS, resourceVersion=future, **query) as waiting,
    ):
        task = asyncio.create_task(waiting.next())
        while not task.done():
            clock.advance(0.5)
            await asyncio.sleep(0)
        error = await task
        assert error is not None
        assert (error["type"], error["object"]["code"]) == ("ERROR", 504)
        cause = error["object"]["details"]["causes"][0]
        assert cause["reason"] == "ResourceVersionTooLarge"
        assert await waiting.next() is None
        for name in ("before-it", "it", "after-it"):
            await api.create(CONFIG_MAPS, config_map(name))
        assert await silent.take(1) == [("ADDED", "after-it")]
