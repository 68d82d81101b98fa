"""A server and a client for each test, on a clock that stands still unless it is moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock
from fakeapi.types import sharing

from .api_client import ApiClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(autouse=True, scope="module")
def nothing_shared_is_changed() -> Iterator[None]:
    """Objects have parts in common, and no write changes those of another."""
    yield
    assert sharing.spoiled() == []


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server(clock: ManualClock) -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer(clock=clock, seed=1, initial_resource_version=100) as running:
        yield running


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
def api(server: FakeApiServer, session: aiohttp.ClientSession) -> ApiClient:
    return ApiClient(session, server.url)
