"""Invariants under any order of writes, over HTTP.

Replaying a watch onto the list it began with equals the list now; versions strictly grow; the watch
of a selector is the filtered log; a uid is bound at most once; pages are one snapshot.
"""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakeapi import FakeApiServer, ManualClock

from .api_client import ApiClient
from .objects import PODS, binding, pod

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
thorough = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
