"""A server and a client for each test, on a clock that stands still unless it is moved."""

import contextlib
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest

from fakeapi import FakeApiServer, ManualClock, ServerOptions

from .api_client import ApiClient


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server(clock: ManualClock) -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer(
        clock=clock, seed=1, options=ServerOptions(initial_resource_version=100)
    ) as running:
        yield running
    # Objects share parts in the store: no write may change a stored object in place.
    for collection in running._registry.store.collections():
        for revision in collection.revisions.values():
            with contextlib.suppress(TypeError):  # a test stored a value that is not JSON
                assert msgspec.json.decode(revision.json()) == revision.object


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
def api(server: FakeApiServer, session: aiohttp.ClientSession) -> ApiClient:
    return ApiClient(session, server.url)
