"""Our client and lists in trouble: slow ones, and pages that expire half way (row 23)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from fakeapi import FakeApiServer
from fakeapi.faults import AnswerWith, Delay, Expire, Fault, Garble, Match, Observe, Reset, When
from scheduler.client import Expired, ListOptions, RestClient, connection_to
from scheduler.client.errors import ConnectionFailed, DecodeError
from scheduler.client.kinds import KINDS
from scheduler.client.rest import list_in_pages
from scheduler.testing import VirtualClock

NODES = KINDS["nodes"]
LISTS = Match(verb="list", resource="nodes")
COUNT = 25


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number:02}"}}
        for number in range(COUNT)
    ]
    async with FakeApiServer(load=nodes) as running:
        running.faults.add(Fault(name="lists", match=LISTS, observe=Observe()))
        yield running


@pytest.fixture
async def client(server: FakeApiServer) -> AsyncIterator[RestClient]:
    async with RestClient(
        connection_to(server.url), user_agent="kubesched/test", clock=VirtualClock(), qps=-1
    ) as opened:
        yield opened


async def listed(client: RestClient) -> list[str]:
    found = await list_in_pages(
        lambda options: client.list_page(NODES, options), ListOptions(), page_size=10
    )
    return [node.metadata.name for node in found.items]


async def test_pages_that_expire_half_way_make_one_whole_list(
    server: FakeApiServer, client: RestClient
) -> None:
    server.faults.add(Fault(match=LISTS, when=When(nth=2), expire=Expire()))
    assert len(set(await listed(client))) == COUNT
    assert server.faults.count("lists") == 3  # a page, one that has expired, all of it


async def test_a_first_page_that_has_expired_is_an_error(
    server: FakeApiServer, client: RestClient
) -> None:
    server.faults.add(Fault(match=LISTS, when=When(nth=1), expire=Expire()))
    with pytest.raises(Expired):
        await listed(client)


async def test_pages_of_a_state_that_changes_show_one_moment(
    server: FakeApiServer, client: RestClient
) -> None:
    server.faults.add(Fault(name="slow", match=LISTS, when=When(nth=2), delay=Delay()))
    listing = asyncio.create_task(listed(client))
    async with asyncio.timeout(5.0):
        while not server.statistics().requests_held:  # noqa: ASYNC110 - a socket away
            await asyncio.sleep(0.001)
    await client.delete(NODES, "n24")
    server.faults.remove("slow")
    assert (await listing)[-1] == "n24"
    assert (await listed(client))[-1] == "n23"


@pytest.mark.parametrize(
    "fault",
    [
        Fault(match=LISTS, when=When(nth=2), answer=AnswerWith(code=503, retry_after_seconds=1)),
        Fault(match=LISTS, when=When(nth=[2, 3]), reset=Reset()),
        Fault(match=LISTS, when=When(nth=[2, 3]), reset=Reset(close=True)),
    ],
)
async def test_a_page_that_fails_is_requested_again(server: FakeApiServer, fault: Fault) -> None:
    clock = VirtualClock()
    server.faults.add(fault)
    async with RestClient(
        connection_to(server.url), user_agent="kubesched/test", clock=clock, qps=-1
    ) as client:
        listing = asyncio.create_task(listed(client))
        async with asyncio.timeout(5.0):
            while not listing.done():
                await clock.advance(0.5)
                await asyncio.sleep(0.001)
        assert len(await listing) == COUNT


@pytest.mark.parametrize(
    ("how", "error"), [("truncated", ConnectionFailed), ("not_json", DecodeError)]
)
async def test_a_damaged_page_is_an_error(
    server: FakeApiServer, client: RestClient, how: str, error: type[Exception]
) -> None:
    server.faults.add(Fault(match=LISTS, when=When(nth=2), garble=Garble(how=how)))
    with pytest.raises(error):
        await listed(client)
