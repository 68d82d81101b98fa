"""Ordered requests whose answers were recorded from kube-apiserver v1.36.3 (exchange.py)."""

import asyncio
from typing import Any

import aiohttp
import pytest
import yarl

from fakeapi import FakeApiServer, ManualClock

from . import exchange as exchanges
from .api_client import ApiClient, eventually
from .objects import NAMESPACES

NAMES = sorted(path.stem for path in exchanges.DIRECTORY.glob("*.yaml"))
NAMESPACE = "x00000001"


async def _send(
    session: aiohttp.ClientSession, url: str, exchange: exchanges.Exchange, filled: Any
) -> tuple[int, str, Any]:
    method, path = filled["request"].split(" ", 1)
    body = exchanges.raw_body(filled.get("body"))
    agent = filled.get("agent", exchanges.AGENT)
    headers = {"User-Agent": agent, "Accept": exchanges.accept(filled)}
    if body is not None:
        headers["Content-Type"] = exchanges.media_type(exchange)
    target = yarl.URL(url + path, encoded=True)
    async with session.request(method, target, data=body, headers=headers) as answer:
        return answer.status, await answer.text(), answer.headers


@pytest.mark.parametrize("name", NAMES)
async def test_answers_equal_those_of_the_real_server(
    server: FakeApiServer,
    clock: ManualClock,
    api: ApiClient,
    session: aiohttp.ClientSession,
    name: str,
) -> None:
    namespace = {"metadata": {"name": NAMESPACE}}
    await api.request("POST", NAMESPACES, namespace, headers={"User-Agent": exchanges.AGENT})
    script = exchanges.Script(NAMESPACE)
    wanted = {answer["name"]: answer for answer in exchanges.recorded(name)}
    different = []
    for exchange in exchanges.read(name):
        sending = asyncio.create_task(_send(session, server.url, exchange, script.filled(exchange)))
        if "watch=" in exchange["request"]:  # it ends by the clock
            await eventually(lambda task=sending: task.done() or server.statistics().watchers > 0)
            clock.advance(2)
        answer = await sending
        found = exchanges.outcome(script, exchange, *answer)
        compared = not exchange.get("quiet") and not exchange.get("differs")
        if compared and found != wanted[exchange["name"]]:
            different.append((exchange["name"], wanted[exchange["name"]], found))
    assert not different


@pytest.mark.parametrize("name", NAMES)
def test_every_request_has_its_answer(name: str) -> None:
    asked = [exchange["name"] for exchange in exchanges.read(name) if not exchange.get("quiet")]
    assert asked == [answer["name"] for answer in exchanges.recorded(name)]
    assert len(set(asked)) == len(asked)
