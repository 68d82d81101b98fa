"""The server as an object: life cycle, kubeconfig, statistics."""

import asyncio
import inspect
import logging
from pathlib import Path

import aiohttp
import pytest
import yaml

from fakeapi import FakeApiServer

from .api_client import ApiClient, eventually
from .objects import CONFIG_MAPS, PODS, config_map, pod


def test_it_takes_at_most_eight_keywords() -> None:
    assert len(inspect.signature(FakeApiServer).parameters) <= 8


async def test_it_listens_at_its_url(api: ApiClient, server: FakeApiServer) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}"
    assert (await api.get("/healthz")).body == "ok"


async def test_several_servers_are_independent(session: aiohttp.ClientSession) -> None:
    async with FakeApiServer() as first, FakeApiServer() as second:
        await ApiClient(session, first.url).create(CONFIG_MAPS, config_map("c"))
        assert (await ApiClient(session, second.url).get(CONFIG_MAPS)).names == []


async def test_a_stopped_server_refuses_connections(session: aiohttp.ClientSession) -> None:
    async with FakeApiServer() as server:
        url = server.url
        await session.get(f"{url}/healthz")
    with pytest.raises(aiohttp.ClientConnectionError):
        await session.get(f"{url}/healthz")


async def test_it_leaves_no_task_behind(session: aiohttp.ClientSession) -> None:
    before = asyncio.all_tasks()
    async with FakeApiServer() as server:
        api = ApiClient(session, server.url)
        async with api.watch(PODS), api.watch(CONFIG_MAPS):
            await api.create(PODS, pod("p"))
        await eventually(lambda: server.statistics().watchers == 0)
    assert asyncio.all_tasks() == before


@pytest.mark.slow
async def test_it_stops_although_a_client_does_not_read(session: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(5):
        async with FakeApiServer() as server:
            api = ApiClient(session, server.url)
            response = await session.get(f"{server.url}{CONFIG_MAPS}?watch=1")
            for index in range(40):
                await api.create(CONFIG_MAPS, config_map(f"c{index}", {"a": "x" * 500_000}))
    response.close()


def test_starting_takes_milliseconds() -> None:
    async def start_and_stop() -> None:
        async with FakeApiServer():
            pass

    async def many() -> None:
        for _ in range(20):
            await start_and_stop()

    asyncio.run(asyncio.wait_for(many(), 2))


async def test_the_kubeconfig_names_the_server(server: FakeApiServer, tmp_path: Path) -> None:
    path = server.write_kubeconfig(tmp_path / "config")
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert path.read_text(encoding="utf-8") == server.kubeconfig
    assert config["clusters"] == [{"name": "fakeapi", "cluster": {"server": server.url}}]
    (context,) = config["contexts"]
    assert context["name"] == config["current-context"]


async def test_statistics_count_objects_watchers_and_requests(
    api: ApiClient, server: FakeApiServer
) -> None:
    before = server.statistics()
    assert (before.watchers, before.requests_in_flight, before.requests_total) == (0, 0, 0)
    await api.create(PODS, pod("p"))
    async with api.watch(PODS, allowWatchBookmarks="true") as stream:
        await stream.next()
        now = server.statistics()
        assert (now.watchers, now.requests_in_flight, now.requests_total) == (1, 0, 2)
        assert now.objects == before.objects + 1
        assert now.resource_version == server.resource_version
        assert now.undelivered_watch_events == 0


async def test_statistics_count_what_watchers_have_not_been_sent(
    api: ApiClient, server: FakeApiServer
) -> None:
    now = str(server.resource_version)
    async with api.watch(PODS, allowWatchBookmarks="true", resourceVersion=now) as stream:
        server.load([{"apiVersion": "v1", "kind": "Pod", **pod("p")}])
        server.send_bookmarks()
        # The watcher's task has had no chance to run yet.
        assert server.statistics().undelivered_watch_events == 2
        assert await stream.take(2) == [("ADDED", "p"), ("BOOKMARK", "")]
        assert server.statistics().undelivered_watch_events == 0


async def test_a_request_is_in_flight_until_it_is_answered(
    api: ApiClient, server: FakeApiServer
) -> None:
    waiting = asyncio.create_task(api.get(PODS, resourceVersion=server.resource_version + 1))
    await eventually(lambda: server.statistics().requests_in_flight == 1)
    await api.create(PODS, pod("p"))
    await waiting
    assert server.statistics().requests_in_flight == 0


async def test_a_defect_of_the_server_is_a_500_and_logged(
    api: ApiClient, server: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    revision = server._registry.store.get(("", "configmaps"), "default", "c")
    assert revision is not None
    revision.object["data"] = object()  # what can never happen
    revision.forget_json()
    with caplog.at_level(logging.ERROR, logger="fakeapi"):
        reply = await api.get(f"{CONFIG_MAPS}/c")
    assert (reply.code, reply.reason) == (500, "InternalError")
    assert "GET /api/v1/namespaces/default/configmaps/c failed" in caplog.text
