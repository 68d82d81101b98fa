"""Watches: order, starting points, transitions, bookmarks, deadlines, the end of the log."""

import asyncio

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock, ServerOptions

from ..api_client import ApiClient, brief, eventually
from ..objects import ALL_PODS, CONFIG_MAPS, NAMESPACES, PODS, binding, config_map, pod


async def settle() -> None:
    """Let the server's tasks run; everything is in one event loop."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_list_and_a_watch_from_its_version_leave_no_gap(api: ApiClient) -> None:
    await api.create(PODS, pod("before"))
    listed = await api.get(PODS)
    await api.create(PODS, pod("between"))
    async with api.watch(PODS, resourceVersion=listed.version) as stream:
        await api.create(PODS, pod("after"))
        assert await stream.take(2) == [("ADDED", "between"), ("ADDED", "after")]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_a_watch_without_a_version_begins_with_the_present_objects(
    api: ApiClient, query: dict[str, str]
) -> None:
    for name in ("b", "a"):
        await api.create(PODS, pod(name))
    async with api.watch(PODS, **query) as stream:
        assert await stream.take(2) == [("ADDED", "a"), ("ADDED", "b")]
        await api.create(PODS, pod("c"))
        assert await stream.take(1) == [("ADDED", "c")]


async def test_headers_come_before_the_first_event(api: ApiClient) -> None:
    async with api.watch(PODS) as stream:
        assert stream.headers["Content-Type"] == "application/json"


async def test_events_have_kind_and_api_version(api: ApiClient) -> None:
    async with api.watch(PODS) as stream:
        await api.create(PODS, pod("p"))
        event = await stream.next()
    assert event is not None
    assert (event["object"]["kind"], event["object"]["apiVersion"]) == ("Pod", "v1")


async def test_every_write_is_one_event_with_a_growing_version(api: ApiClient) -> None:
    async with api.watch(PODS) as stream:
        await api.create(PODS, pod("p"))
        await api.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
        await api.post(f"{PODS}/p/binding", binding("p"))
        await api.delete(f"{PODS}/p", gracePeriodSeconds=0)
        events = [await stream.next() for _ in range(5)]
    types = [event["type"] for event in events if event]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events if event]
    assert types == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]
    assert versions == sorted(set(versions))


async def test_a_deleted_event_carries_the_version_of_the_deletion(api: ApiClient) -> None:
    created = await api.create(CONFIG_MAPS, config_map("c"))
    async with api.watch(CONFIG_MAPS) as stream:
        await stream.next()
        await api.delete(f"{CONFIG_MAPS}/c")
        event = await stream.next()
        assert event is not None
    listed = await api.get(CONFIG_MAPS)
    deleted = int(event["object"]["metadata"]["resourceVersion"])
    assert int(created["metadata"]["resourceVersion"]) < deleted == listed.version


async def test_a_write_that_changes_nothing_makes_no_event(api: ApiClient) -> None:
    created = await api.create(CONFIG_MAPS, config_map("c", {"a": "1"}))
    async with api.watch(CONFIG_MAPS, resourceVersion=created["metadata"]["resourceVersion"]) as s:
        again = await api.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "1"}})
        put = await api.put(f"{CONFIG_MAPS}/c", created)
        await api.create(CONFIG_MAPS, config_map("d"))
        assert await s.take(1) == [("ADDED", "d")]
    version = created["metadata"]["resourceVersion"]
    assert [r.body["metadata"]["resourceVersion"] for r in (again, put)] == [version, version]


async def test_an_object_that_enters_a_label_selector_is_added(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    async with api.watch(CONFIG_MAPS, labelSelector="team in (a,b)") as stream:
        await api.patch(f"{CONFIG_MAPS}/c", {"metadata": {"labels": {"team": "a"}}})
        assert await stream.take(1) == [("ADDED", "c")]
        await api.patch(f"{CONFIG_MAPS}/c", {"metadata": {"labels": {"team": "b"}}})
        assert await stream.take(1) == [("MODIFIED", "c")]


async def test_an_object_that_leaves_a_selector_is_deleted_with_its_old_content(
    api: ApiClient,
) -> None:
    await api.create(CONFIG_MAPS, config_map("c", {"a": "old"}, labels={"team": "a"}))
    async with api.watch(CONFIG_MAPS, labelSelector="team=a") as stream:
        await stream.next()
        change = {"data": {"a": "new"}, "metadata": {"labels": {"team": "z"}}}
        changed = await api.patch(f"{CONFIG_MAPS}/c", change)
        event = await stream.next()
    assert event is not None
    assert event["type"] == "DELETED"
    assert event["object"]["data"] == {"a": "old"}
    assert event["object"]["metadata"]["labels"] == {"team": "a"}
    assert int(event["object"]["metadata"]["resourceVersion"]) == changed.version


async def test_a_pod_leaves_the_unscheduled_when_it_is_bound(api: ApiClient) -> None:
    async with api.watch(ALL_PODS, fieldSelector="spec.nodeName=") as stream:
        await api.create(PODS, pod("p"))
        await api.post(f"{PODS}/p/binding", binding("p"))
        assert await stream.take(2) == [("ADDED", "p"), ("DELETED", "p")]


async def test_objects_that_never_match_make_no_event(api: ApiClient) -> None:
    async with api.watch(CONFIG_MAPS, labelSelector="a=1") as stream:
        await api.create(CONFIG_MAPS, config_map("other", labels={"a": "2"}))
        await api.delete(f"{CONFIG_MAPS}/other")
        await api.create(CONFIG_MAPS, config_map("mine", labels={"a": "1"}))
        assert await stream.take(1) == [("ADDED", "mine")]


async def test_a_namespace_sees_only_its_own(api: ApiClient) -> None:
    await api.create(NAMESPACES, {"metadata": {"name": "default-2"}})
    async with api.watch(CONFIG_MAPS) as stream:
        await api.create("/api/v1/namespaces/default-2/configmaps", config_map("elsewhere"))
        await api.create(CONFIG_MAPS, config_map("here"))
        assert await stream.take(1) == [("ADDED", "here")]


async def test_all_watchers_see_the_same_order(api: ApiClient) -> None:
    async with api.watch(PODS) as first, api.watch(ALL_PODS) as second:
        for index in range(10):
            await api.create(PODS, pod(f"p{index}"))
        assert await first.take(10) == await second.take(10)


async def test_a_watch_from_a_future_version_is_silent_until_then(api: ApiClient) -> None:
    future = (await api.get(PODS)).version + 2
    async with api.watch(PODS, resourceVersion=future) as stream:
        for name in ("a", "b", "c"):
            await api.create(PODS, pod(name))
        assert await stream.take(1) == [("ADDED", "c")]


async def test_the_timeout_ends_the_stream(api: ApiClient, clock: ManualClock) -> None:
    async with api.watch(PODS, timeoutSeconds=30) as stream:
        await api.create(PODS, pod("p"))
        await settle()
        clock.advance(30)
        assert [brief(event) for event in await stream.rest()] == [("ADDED", "p")]


async def test_without_a_timeout_a_watch_lasts_half_an_hour_to_an_hour(
    api: ApiClient, clock: ManualClock, server: FakeApiServer
) -> None:
    async with api.watch(PODS) as stream:
        await settle()
        clock.advance(1799)
        await settle()
        assert server.statistics().watchers == 1
        clock.advance(1801)
        assert await stream.rest() == []


async def test_bookmarks_come_every_minute_if_the_client_allows_them(
    api: ApiClient, clock: ManualClock, server: FakeApiServer
) -> None:
    async with (
        api.watch(PODS, allowWatchBookmarks="true", timeoutSeconds=150) as stream,
        api.watch(PODS, timeoutSeconds=150) as without,
    ):
        await api.create(CONFIG_MAPS, config_map("c"))  # moves the version of the whole server
        assert await stream.take(1) == [("BOOKMARK", "")]  # the end of the initial events
        clock.advance(60)
        event = await stream.next()
        metadata = {"resourceVersion": str(server.resource_version)}
        assert event == {
            "type": "BOOKMARK",
            "object": {"kind": "Pod", "apiVersion": "v1", "metadata": metadata},
        }
        clock.advance(60)
        assert await stream.take(1) == [("BOOKMARK", "")]
        clock.advance(30)
        assert await stream.take(1) == [("BOOKMARK", "")]  # two seconds before the end
        assert await stream.next() is None
        assert await without.rest() == []


async def test_a_bookmark_precedes_the_deadline_by_two_seconds(
    api: ApiClient, clock: ManualClock
) -> None:
    async with api.watch(PODS, allowWatchBookmarks="true", timeoutSeconds=10) as stream:
        assert await stream.take(1) == [("BOOKMARK", "")]  # the end of the initial events
        clock.advance(8)
        event = await stream.next()
        assert event is not None
        assert event["type"] == "BOOKMARK"
        clock.advance(2)
        assert await stream.rest() == []


async def test_a_time_limit_below_zero_is_over_at_once(api: ApiClient) -> None:
    await api.create(PODS, pod("p"))
    async with api.watch(PODS, timeoutSeconds=-1) as stream:
        assert len(await stream.rest()) <= 1


async def test_bookmarks_can_be_pushed_and_follow_everything_before_them(
    api: ApiClient, server: FakeApiServer
) -> None:
    async with api.watch(PODS, allowWatchBookmarks="true") as stream, api.watch(PODS) as without:
        assert await stream.take(1) == [("BOOKMARK", "")]  # the end of the initial events
        await api.create(PODS, pod("p"))
        version = server.send_bookmarks()
        assert await stream.take(1) == [("ADDED", "p")]
        event = await stream.next()
        assert event is not None
        assert event["type"] == "BOOKMARK"
        assert int(event["object"]["metadata"]["resourceVersion"]) == version
        await api.create(PODS, pod("q"))
        assert await without.take(2) == [("ADDED", "p"), ("ADDED", "q")]


async def test_a_pushed_bookmark_waits_until_all_that_is_due_is_sent(
    api: ApiClient, server: FakeApiServer
) -> None:
    async with api.watch(CONFIG_MAPS, allowWatchBookmarks="true") as stream:
        assert await stream.take(1) == [("BOOKMARK", "")]  # the end of the initial events
        # More than is written at one go, stored without a pause for the watcher's task.
        big = [{"apiVersion": "v1", "kind": "ConfigMap", **config_map(f"c{i}")} for i in range(9)]
        server.load([{**item, "data": {"big": "x" * 50_000}} for item in big])
        server.send_bookmarks()
        types = [name for name, _ in await stream.take(10)]
    assert types == ["ADDED"] * 9 + ["BOOKMARK"]


async def test_a_watch_older_than_the_log_gets_410_in_the_stream(
    api: ApiClient, server: FakeApiServer
) -> None:
    old = (await api.get(PODS)).version
    await api.create(PODS, pod("p"))
    server.compact()
    async with api.watch(PODS, resourceVersion=old) as stream:
        events = await stream.rest()
    assert [event["type"] for event in events] == ["ERROR"]
    status = events[0]["object"]
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert status["message"] == f"too old resource version: {old} ({server.resource_version})"


async def test_the_log_holds_as_many_changes_as_configured(
    session: aiohttp.ClientSession,
) -> None:
    async with FakeApiServer(options=ServerOptions(event_log_size=3)) as server:
        api = ApiClient(session, server.url)
        versions = [
            int((await api.create(CONFIG_MAPS, config_map(f"c{i}")))["metadata"]["resourceVersion"])
            for i in range(5)
        ]
        async with api.watch(CONFIG_MAPS, resourceVersion=versions[1]) as stream:
            assert await stream.take(3) == [("ADDED", "c2"), ("ADDED", "c3"), ("ADDED", "c4")]
        async with api.watch(CONFIG_MAPS, resourceVersion=versions[0]) as stream:
            assert await stream.take(1) == [("ERROR", "")]


async def test_a_watcher_behind_the_log_expires_before_the_log_is_trimmed(
    session: aiohttp.ClientSession,
) -> None:
    async with FakeApiServer(options=ServerOptions(event_log_size=5)) as server:
        api = ApiClient(session, server.url)
        async with api.watch(CONFIG_MAPS) as stream:
            await settle()
            server.load(
                [{"apiVersion": "v1", "kind": "ConfigMap", **config_map(f"c{i}")} for i in range(6)]
            )
            assert await stream.take(1) == [("ERROR", "")]


async def test_a_version_from_before_the_server_started_has_expired(api: ApiClient) -> None:
    async with api.watch(PODS, resourceVersion=5) as stream:
        assert await stream.take(1) == [("ERROR", "")]


@pytest.mark.slow
async def test_a_watcher_that_reads_too_slowly_gets_an_expired_error(
    session: aiohttp.ClientSession,
) -> None:
    async with FakeApiServer(options=ServerOptions(event_log_size=5)) as server:
        api = ApiClient(session, server.url)
        await api.create(CONFIG_MAPS, config_map("c"))
        async with api.watch(CONFIG_MAPS) as stream:
            assert await stream.take(1) == [("ADDED", "c")]
            for index in range(80):  # more than the buffers of both sides hold
                change = {"data": {"big": f"{index}" * 60_000}}
                await api.patch(f"{CONFIG_MAPS}/c", change)
            events = await stream.rest()
    types = [event["type"] for event in events]
    assert types[-1] == "ERROR"
    assert events[-1]["object"]["code"] == 410
    assert set(types[:-1]) == {"MODIFIED"}
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events[:-1]]
    # Nothing in the middle is missing: what was sent is unbroken.
    assert versions == list(range(versions[0], versions[0] + len(versions)))


async def test_a_watch_ends_with_the_server(session: aiohttp.ClientSession) -> None:
    async with FakeApiServer() as server:
        response = await session.get(f"{server.url}{PODS}?watch=true")
        assert response.status == 200
    assert await response.content.read() == b""


async def test_a_client_that_goes_away_is_forgotten(server: FakeApiServer, api: ApiClient) -> None:
    async with api.watch(PODS):
        assert server.statistics().watchers == 1
    await eventually(lambda: server.statistics().watchers == 0)


async def test_the_deprecated_path_watches_too(api: ApiClient, clock: ManualClock) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    await api.create(CONFIG_MAPS, config_map("d"))
    path = "/api/v1/watch/namespaces/default/configmaps"
    async with api.watch(path) as stream:
        assert await stream.take(2) == [("ADDED", "c"), ("ADDED", "d")]
    async with api.watch(f"{path}/d", timeoutSeconds=5) as stream:
        await settle()
        clock.advance(5)
        assert [brief(event) for event in await stream.rest()] == [("ADDED", "d")]


async def test_get_of_one_object_is_never_a_watch(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    reply = await api.get(f"{CONFIG_MAPS}/c", watch="1")
    assert reply.body["kind"] == "ConfigMap"


@pytest.mark.parametrize("value", ["true", "True", "1", "", "yes"])
async def test_anything_but_0_and_false_asks_for_a_watch(api: ApiClient, value: str) -> None:
    async with api.watch(PODS, watch=value) as stream:
        await api.create(PODS, pod("p"))
        assert await stream.take(1) == [("ADDED", "p")]


@pytest.mark.parametrize("value", ["0", "false", "False"])
async def test_0_and_false_ask_for_a_list(api: ApiClient, value: str) -> None:
    assert (await api.get(PODS, watch=value)).body["kind"] == "PodList"
