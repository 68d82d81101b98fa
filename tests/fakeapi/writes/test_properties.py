"""Invariants under any order of writes, over HTTP.

Replaying a watch from any version onto the list at that version equals the list now; versions
strictly grow over all kinds and are never used twice; the watch of a selector is the filtered log;
a uid is bound at most once and never comes back; a write that changes nothing makes no event; pages
are one snapshot; the answer of a write is the object that watchers get.
"""

import asyncio
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakeapi import FakeApiServer, ManualClock
from tests.thoroughness import examples

from ..api_client import JSON_PATCH, STRATEGIC, ApiClient
from ..objects import CONFIG_MAPS, PODS, binding, config_map, pod

Json = dict[str, Any]

names = st.sampled_from(["a", "b", "c", "d"])
teams = st.sampled_from(["x", "y"])
steps = st.one_of(
    st.tuples(st.just("create"), names, teams),
    st.tuples(st.just("label"), names, teams),
    st.tuples(st.just("bind"), names, st.sampled_from(["n1", "n2"])),
    st.tuples(st.just("status"), names, st.sampled_from(["Running", "Succeeded"])),
    st.tuples(st.just("delete"), names, st.just("")),
    st.tuples(st.just("force"), names, st.just("")),
    st.tuples(st.just("same"), names, st.just("")),
)
thorough = settings(max_examples=examples(40))
pytestmark = pytest.mark.slow


async def perform(api: ApiClient, step: tuple[str, str, str]) -> None:
    """One write; that it may be refused is part of the game."""
    what, name, value = step
    path = f"{PODS}/{name}"
    if what == "create":
        await api.post(PODS, pod(name, labels={"team": value}))
    elif what == "label":
        await api.patch(path, {"metadata": {"labels": {"team": value}}})
    elif what == "bind":
        await api.post(f"{path}/binding", binding(name, value))
    elif what == "status":
        await api.patch(f"{path}/status", {"status": {"phase": value}})
    elif what == "delete":
        await api.delete(path)
    elif what == "force":
        await api.delete(path, gracePeriodSeconds=0)
    else:
        await api.patch(path, {"metadata": {"name": name}})


def version_of(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])


def replayed(items: list[Json], events: list[Json]) -> list[Json]:
    """The list after the events, in the order of names."""
    state = {item["metadata"]["name"]: item for item in items}
    for event in events:
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            del state[name]
        else:
            assert (name in state) == (event["type"] == "MODIFIED")
            obj = {key: event["object"][key] for key in ("metadata", "spec", "status")}
            state[name] = obj
    return [state[name] for name in sorted(state)]


async def watched(api: ApiClient, clock: ManualClock, since: int, **query: Any) -> list[Json]:
    """All events after a version, by a watch that is ended."""
    async with api.watch(PODS, resourceVersion=since, timeoutSeconds=9, **query) as stream:
        await asyncio.sleep(0)
        clock.advance(9)
        return await stream.rest()


async def run(before: list[Any], after: list[Any], check: Any) -> None:
    clock = ManualClock()
    async with FakeApiServer(clock=clock) as server, aiohttp.ClientSession() as session:
        api = ApiClient(session, server.url)
        for step in before:
            await perform(api, step)
        await check(api, clock, after)


@thorough
@given(st.lists(steps, max_size=6), st.lists(steps, max_size=14))
def test_replaying_a_watch_onto_its_list_is_the_list_now(
    before: list[Any], after: list[Any]
) -> None:
    async def check(api: ApiClient, clock: ManualClock, after: list[Any]) -> None:
        lists = {
            selector: await api.get(PODS, labelSelector=selector) for selector in ("", "team=x")
        }
        for step in after:
            await perform(api, step)
        for selector, listed in lists.items():
            events = await watched(api, clock, listed.version, labelSelector=selector)
            versions = [version_of(event["object"]) for event in events]
            assert versions == sorted(set(versions))
            assert all(version > listed.version for version in versions)
            now = await api.get(PODS, labelSelector=selector)
            assert replayed(listed.body["items"], events) == now.body["items"]

    asyncio.run(run(before, after, check))


@thorough
@given(st.lists(steps, max_size=20))
def test_a_uid_is_bound_once_and_versions_are_never_used_twice(after: list[Any]) -> None:
    async def check(api: ApiClient, clock: ManualClock, after: list[Any]) -> None:
        start = (await api.get(PODS)).version
        for step in after:
            await perform(api, step)
        nodes: dict[str, set[str]] = {}
        seen: list[int] = []
        for event in await watched(api, clock, start):
            obj = event["object"]
            seen.append(version_of(obj))
            node = obj["spec"].get("nodeName")
            if node:
                nodes.setdefault(obj["metadata"]["uid"], set()).add(node)
        assert len(seen) == len(set(seen))
        assert all(len(found) == 1 for found in nodes.values())

    asyncio.run(run([], after, check))


@thorough
@given(st.lists(steps, max_size=8), st.lists(steps, max_size=8), st.integers(1, 3))
def test_pages_are_one_snapshot(before: list[Any], after: list[Any], limit: int) -> None:
    async def check(api: ApiClient, clock: ManualClock, after: list[Any]) -> None:
        whole = await api.get(PODS)
        page = await api.get(PODS, limit=limit)
        items = list(page.body["items"])
        for step in after:
            await perform(api, step)
        while "continue" in page.body["metadata"]:
            query = {"continue": page.body["metadata"]["continue"]}
            page = await api.get(PODS, limit=limit, **query)
            assert page.version == whole.version
            items += page.body["items"]
        assert items == whole.body["items"]

    asyncio.run(run(before, after, check))


@thorough
@given(st.lists(steps, max_size=14))
def test_the_watch_of_a_selector_is_the_filter_of_the_whole_one(after: list[Any]) -> None:
    def mine(obj: Json | None) -> bool:
        return obj is not None and obj["metadata"].get("labels", {}).get("team") == "x"

    async def check(api: ApiClient, clock: ManualClock, after: list[Any]) -> None:
        start = (await api.get(PODS)).version
        for step in after:
            await perform(api, step)
        state: dict[str, Json] = {}
        expected = []
        for event in await watched(api, clock, start):
            obj, name = event["object"], event["object"]["metadata"]["name"]
            was = mine(state.get(name))
            gone = event["type"] == "DELETED"
            state[name] = obj
            if gone:
                del state[name]
            is_now = not gone and mine(obj)
            if was or is_now:
                kind = ("MODIFIED" if was else "ADDED") if is_now else "DELETED"
                expected.append((kind, name, version_of(obj)))
        events = await watched(api, clock, start, labelSelector="team=x")
        found = [
            (e["type"], e["object"]["metadata"]["name"], version_of(e["object"])) for e in events
        ]
        assert found == expected

    asyncio.run(run([], after, check))


#: Selectors whose objects come and go with labels, phase and node.
SELECTORS: list[dict[str, str]] = [
    {},
    {"labelSelector": "team=x"},
    {"labelSelector": "team!=x"},
    {"labelSelector": "team"},
    {"fieldSelector": "spec.nodeName="},
    {"fieldSelector": "spec.nodeName!="},
    {"fieldSelector": "status.phase!=Succeeded,spec.nodeName=n1"},
    {"labelSelector": "team in (x)", "fieldSelector": "metadata.name!=a"},
]


@thorough
@given(st.lists(steps, min_size=1, max_size=16), st.sampled_from(SELECTORS), st.data())
def test_a_watch_from_any_version_leads_from_the_list_then_to_the_list_now(
    after: list[Any], selector: dict[str, str], data: st.DataObject
) -> None:
    async def check(api: ApiClient, clock: ManualClock, after: list[Any]) -> None:
        versions = [(await api.get(PODS)).version]
        for step in after:
            await perform(api, step)
            versions.append((await api.get(PODS)).version)
        version = data.draw(st.sampled_from(sorted(set(versions))))
        exact = {"resourceVersion": str(version), "resourceVersionMatch": "Exact"}
        then = await api.get(PODS, **exact, **selector)
        assert then.version == version
        events = await watched(api, clock, version, **selector)
        now = await api.get(PODS, **selector)
        assert replayed(then.body["items"], events) == now.body["items"]

    asyncio.run(run([], after, check))


@thorough
@given(st.lists(steps, max_size=14), st.sampled_from(SELECTORS))
def test_a_watch_list_is_the_list_and_then_the_watch(
    after: list[Any], selector: dict[str, str]
) -> None:
    async def check(api: ApiClient, clock: ManualClock, after: list[Any]) -> None:
        half = len(after) // 2
        for step in after[:half]:
            await perform(api, step)
        listed = await api.get(PODS, **selector)
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        async with api.watch(
            PODS, allowWatchBookmarks="true", timeoutSeconds=9, **query, **selector
        ) as stream:
            initial = []
            while (event := await stream.next()) and event["type"] == "ADDED":
                initial.append(event)
            assert event is not None
            assert event["type"] == "BOOKMARK"
            assert version_of(event["object"]) == listed.version
            assert replayed([], initial) == listed.body["items"]
            for step in after[half:]:
                await perform(api, step)
            clock.advance(9)
            events = [e for e in await stream.rest() if e["type"] != "BOOKMARK"]
        now = await api.get(PODS, **selector)
        assert replayed(listed.body["items"], events) == now.body["items"]

    asyncio.run(run([], after, check))


@thorough
@given(st.lists(st.tuples(st.booleans(), steps), max_size=14))
def test_versions_grow_over_all_kinds_and_answers_are_the_objects_that_watchers_get(
    after: list[Any],
) -> None:
    async def check(api: ApiClient, clock: ManualClock, after: list[Any]) -> None:
        start = (await api.get(PODS)).version
        answered = []
        for number, (is_pod, step) in enumerate(after):
            if is_pod:
                await perform(api, step)
            else:
                made = await api.create(CONFIG_MAPS, config_map(f"c{number}"))
                answered.append(version_of(made))
        assert answered == sorted(set(answered))
        pods = [version_of(e["object"]) for e in await watched(api, clock, start)]
        async with api.watch(CONFIG_MAPS, resourceVersion=start, timeoutSeconds=9) as stream:
            await asyncio.sleep(0)
            clock.advance(9)
            maps = [version_of(event["object"]) for event in await stream.rest()]
        assert maps == answered
        assert pods == sorted(set(pods))
        assert not set(pods) & set(maps)
        assert all(version > start for version in pods + maps)
        newest = (await api.get(PODS)).version
        assert max([start, *pods, *maps]) == newest

    asyncio.run(run([], after, check))


@thorough
@given(
    st.lists(steps, max_size=10), st.sampled_from(["put", "merge", "json", "status", "strategic"])
)
def test_a_write_that_changes_nothing_makes_no_event(after: list[Any], how: str) -> None:
    async def check(api: ApiClient, clock: ManualClock, after: list[Any]) -> None:
        for step in after:
            await perform(api, step)
        before = await api.get(PODS)
        for item in before.body["items"]:
            path = f"{PODS}/{item['metadata']['name']}"
            if how == "put":
                reply = await api.put(path, {"kind": "Pod", "apiVersion": "v1", **item})
            elif how == "merge":
                labels = item["metadata"].get("labels", {})
                reply = await api.patch(path, {"metadata": {"labels": labels}})
            elif how == "json":
                reply = await api.patch(path, [], JSON_PATCH)
            elif how == "status":
                reply = await api.patch(f"{path}/status", {"status": item["status"]})
            else:
                change = {"spec": {"containers": item["spec"]["containers"]}}
                reply = await api.patch(path, change, STRATEGIC)
            assert reply.code == 200, reply.body
            assert version_of(reply.body) == version_of(item)
        assert (await api.get(PODS)).body == before.body
        assert await watched(api, clock, before.version) == []

    asyncio.run(run([], after, check))


@thorough
@given(st.lists(steps, max_size=20))
def test_a_uid_that_is_gone_never_comes_back(after: list[Any]) -> None:
    async def check(api: ApiClient, clock: ManualClock, after: list[Any]) -> None:
        start = (await api.get(PODS)).version
        for step in after:
            await perform(api, step)
        gone: set[str] = set()
        for event in await watched(api, clock, start):
            uid = event["object"]["metadata"]["uid"]
            assert uid not in gone
            gone |= {uid} if event["type"] == "DELETED" else set()

    asyncio.run(run([], after, check))
