"""The rows of the table of faults that a server alone can show: many clients at once, and the end.

The numbers are those of conformance/cases/faults/README.md.
"""

import asyncio
import contextlib

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock

from ..api_client import ApiClient, brief, eventually
from ..objects import BUDGETS, CONFIG_MAPS, PODS, config_map, pod


async def test_row_45_all_watchers_see_one_order(server: FakeApiServer, api: ApiClient) -> None:
    async with contextlib.AsyncExitStack() as stack:
        streams = []
        for _ in range(30):
            # A connection each, as many clients have.
            session = await stack.enter_async_context(aiohttp.ClientSession())
            client = ApiClient(session, server.url)
            streams.append(await stack.enter_async_context(client.watch(CONFIG_MAPS)))
        names = [f"c{number}" for number in range(20)]
        await asyncio.gather(*(api.create(CONFIG_MAPS, config_map(name)) for name in names))
        seen = [await stream.take(len(names)) for stream in streams]
    assert sorted(name for _, name in seen[0]) == sorted(names)
    assert all(order == seen[0] for order in seen)


async def test_row_46_of_concurrent_updates_one_wins(api: ApiClient) -> None:
    created = await api.create(CONFIG_MAPS, config_map("c"))
    path = f"{CONFIG_MAPS}/c"
    changed = [{**created, "data": {"who": str(number)}} for number in range(20)]
    replies = await asyncio.gather(*(api.put(path, body) for body in changed))
    assert sorted(reply.code for reply in replies) == [200, *[409] * 19]
    (winner,) = [reply for reply in replies if reply.code == 200]
    assert (await api.get(path)).body["data"] == winner.body["data"]


async def test_row_46_concurrent_patches_all_take_effect(api: ApiClient) -> None:
    await api.create(CONFIG_MAPS, config_map("c"))
    path = f"{CONFIG_MAPS}/c"
    patches = [{"data": {f"k{number}": "v"}} for number in range(20)]
    replies = await asyncio.gather(*(api.patch(path, patch) for patch in patches))
    assert {reply.code for reply in replies} == {200}
    assert len({reply.version for reply in replies}) == 20
    assert len((await api.get(path)).body["data"]) == 20


async def test_row_47_concurrent_evictions_never_overspend_a_budget(api: ApiClient) -> None:
    for number in range(10):
        name = f"p{number}"
        await api.create(PODS, pod(name, labels={"app": "a"}, spec={"nodeName": "n"}))
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await api.patch(f"{PODS}/{name}/status", {"status": ready})
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 7, "selector": {"matchLabels": {"app": "a"}}},
    }
    await api.create(BUDGETS, budget)
    status = {"observedGeneration": 1, "disruptionsAllowed": 3, "currentHealthy": 10}
    status |= {"desiredHealthy": 7, "expectedPods": 10}
    await api.patch(f"{BUDGETS}/b/status", {"status": status})

    async def evict(name: str) -> int:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        return (await api.post(f"{PODS}/{name}/eviction", body)).code

    codes = await asyncio.gather(*(evict(f"p{number}") for number in range(10)))
    assert sorted(codes) == [201] * 3 + [429] * 7
    assert (await api.get(f"{BUDGETS}/b")).body["status"]["disruptionsAllowed"] == 0


async def test_row_48_a_server_that_stops_ends_watches_and_finishes_requests(
    clock: ManualClock, session: aiohttp.ClientSession
) -> None:
    server = await FakeApiServer(clock=clock).__aenter__()
    api = ApiClient(session, server.url)
    async with api.watch(CONFIG_MAPS) as stream:
        await api.create(CONFIG_MAPS, config_map("a"))
        # A request that waits for a version is in progress when the server stops.
        future = server.resource_version + 1000
        waiting = asyncio.create_task(api.get(CONFIG_MAPS, resourceVersion=future))
        await eventually(lambda: server.statistics().requests_in_flight == 1)
        stopping = asyncio.create_task(server.__aexit__(None, None, None))
        events = await stream.rest()
        clock.advance(5.0)
        assert (await waiting).code == 504
        await stopping
    assert [brief(event) for event in events] == [("ADDED", "a")]
    with pytest.raises(aiohttp.ClientError):
        await api.get(CONFIG_MAPS)
