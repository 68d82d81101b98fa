"""Faults of the whole server: outages, restarts, compaction; and faults over HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import yaml

from fakeapi import FakeApiServer, ManualClock
from fakeapi.faults import (
    AnswerWith,
    Compact,
    Fault,
    FaultError,
    FaultOptions,
    Match,
    Outage,
    Restart,
    When,
)

from ..api_client import ApiClient, eventually
from ..objects import CONFIG_MAPS, PODS, config_map

FAULTS = "/_fakeapi/faults"
YAML = "application/yaml"
NO_BINDING = {
    "name": "no-binding",
    "match": {"verb": "create", "resource": "pods/binding"},
    "answer": {"code": 503},
}


@pytest.fixture
async def stranger(server: FakeApiServer) -> AsyncIterator[ApiClient]:
    """A client with connections of its own, each used once."""
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield ApiClient(session, server.url)


async def test_no_request_is_answered_during_an_outage(
    server: FakeApiServer, api: ApiClient, stranger: ApiClient, clock: ManualClock
) -> None:
    async with api.watch(PODS) as stream:
        server.faults.add(Fault(outage=Outage(seconds=10.0)))
        with pytest.raises(aiohttp.ClientError):
            await stream.next()
    for _ in range(2):
        with pytest.raises(aiohttp.ClientConnectorError):
            await stranger.get(PODS)
    clock.advance(10.0)
    assert (await stranger.get(PODS)).code == 200


async def test_an_outage_lasts_until_its_fault_goes(
    server: FakeApiServer, stranger: ApiClient
) -> None:
    server.faults.add(Fault(outage=Outage()))
    with pytest.raises(aiohttp.ClientConnectorError):
        await stranger.get(PODS)
    server.faults.clear()
    assert (await stranger.get(PODS)).code == 200


async def test_outages_overlap(
    server: FakeApiServer, stranger: ApiClient, clock: ManualClock
) -> None:
    server.faults.add(Fault(outage=Outage(seconds=10.0)), Fault(outage=Outage(seconds=20.0)))
    clock.advance(10.0)
    with pytest.raises(aiohttp.ClientConnectorError):
        await stranger.get(PODS)
    clock.advance(10.0)
    assert (await stranger.get(PODS)).code == 200


async def test_an_outage_begins_when_it_is_time(
    server: FakeApiServer, stranger: ApiClient, clock: ManualClock
) -> None:
    server.faults.add(Fault(when=When(from_seconds=5.0), outage=Outage(seconds=5.0)))
    assert (await stranger.get(PODS)).code == 200
    clock.advance(5.0)
    with pytest.raises(aiohttp.ClientConnectorError):
        await stranger.get(PODS)
    clock.advance(5.0)
    assert (await stranger.get(PODS)).code == 200


async def test_a_server_can_be_stopped_during_an_outage(clock: ManualClock) -> None:
    async with FakeApiServer(clock=clock, faults=[Fault(outage=Outage())]) as server:
        assert server.faults.log[0].effect == "outage"


async def test_versions_go_on_after_a_restart(server: FakeApiServer, stranger: ApiClient) -> None:
    before = await stranger.create(CONFIG_MAPS, config_map("a"))
    server.faults.add(Fault(restart=Restart()))
    listed = await stranger.get(CONFIG_MAPS)
    assert (listed.names, listed.version) == (["a"], server.resource_version)
    version = before["metadata"]["resourceVersion"]
    async with stranger.watch(CONFIG_MAPS, resourceVersion=version) as stream:
        await stranger.create(CONFIG_MAPS, config_map("b"))
        assert await stream.take(1) == [("ADDED", "b")]


@pytest.mark.parametrize("fault", [Fault(restart=Restart(compact=True)), Fault(compact=Compact())])
async def test_the_past_is_forgotten(
    server: FakeApiServer, stranger: ApiClient, fault: Fault
) -> None:
    first = await stranger.create(CONFIG_MAPS, config_map("a"))
    await stranger.create(CONFIG_MAPS, config_map("b"))
    server.faults.add(fault)
    assert (await stranger.get(CONFIG_MAPS)).names == ["a", "b"]
    version = first["metadata"]["resourceVersion"]
    async with stranger.watch(CONFIG_MAPS, resourceVersion=version) as stream:
        (event,) = await stream.rest()
    assert event["object"]["reason"] == "Expired"


async def test_a_restored_backup_is_an_older_state_whose_versions_come_again(
    server: FakeApiServer, stranger: ApiClient
) -> None:
    await stranger.create(CONFIG_MAPS, config_map("a", {"k": "old"}))
    before = server.resource_version
    await stranger.create(CONFIG_MAPS, config_map("b"))
    await stranger.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "new"}})
    server.faults.add(Fault(restart=Restart(lost_versions=2)))
    listed = await stranger.get(CONFIG_MAPS)
    assert (listed.names, listed.version) == (["a"], before)
    assert listed.body["items"][0]["data"] == {"k": "old"}
    again = await stranger.create(CONFIG_MAPS, config_map("c"))
    assert int(again["metadata"]["resourceVersion"]) == before + 1


async def test_only_as_much_is_lost_as_is_remembered(
    server: FakeApiServer, stranger: ApiClient
) -> None:
    await stranger.create(CONFIG_MAPS, config_map("a"))
    server.compact()
    kept = server.resource_version
    await stranger.create(CONFIG_MAPS, config_map("b"))
    server.faults.add(Fault(restart=Restart(lost_versions=1000)))
    assert (await stranger.get(CONFIG_MAPS)).names == ["a"]
    assert server.resource_version == kept


async def test_faults_are_set_and_taken_away_over_http(
    server: FakeApiServer, api: ApiClient
) -> None:
    added = await api.post(FAULTS, NO_BINDING)
    assert (added.code, added.body["faults"]) == (201, [NO_BINDING])
    assert (await api.post(f"{PODS}/p/binding", {})).code == 503
    listed = await api.get(FAULTS)
    assert listed.body == {"faults": [NO_BINDING], "injected": {"no-binding": 1}}
    (injection,) = (await api.get(f"{FAULTS}/log")).body["log"]
    assert (injection["number"], injection["fault"]) == (1, "no-binding")
    assert (injection["verb"], injection["path"]) == ("create", f"{PODS}/p/binding")
    assert (await api.get(f"{FAULTS}/script")).body["faults"][0]["when"]["nth"] == [1]
    assert (await api.delete(f"{FAULTS}/no-binding")).code == 200
    assert (await api.delete(f"{FAULTS}/no-binding")).code == 404
    assert server.faults.current == ()


async def test_faults_may_come_as_yaml_and_several_at_once(
    server: FakeApiServer, api: ApiClient
) -> None:
    text = yaml.safe_dump({"seed": 3, "faults": [NO_BINDING, {"compact": {}}]})
    assert (await api.post(FAULTS, text.encode(), content_type=YAML)).code == 201
    assert [fault.kind for fault in server.faults.current] == ["answer", "compact"]
    assert (await api.delete(FAULTS)).code == 200
    assert server.faults.current == ()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"answer": {"code": 1}}, "faults[0].answer: expected a code from 400 to 599, got 1"),
        (b"{", "Input data was truncated"),
        (b"[" * 2000, "exceeded max depth"),
        (NO_BINDING, "a fault called no-binding is set already"),
    ],
)
async def test_an_invalid_fault_is_refused(
    server: FakeApiServer, api: ApiClient, body: object, message: str
) -> None:
    await api.post(FAULTS, NO_BINDING)
    reply = await api.post(FAULTS, body)
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert message in reply.message
    assert len(server.faults.current) == 1


async def test_yaml_that_is_too_deep_is_refused(api: ApiClient) -> None:
    reply = await api.post(FAULTS, b"[" * 2000, content_type=YAML)
    assert (reply.code, "exceeded max depth" in reply.message) == (400, True)


@pytest.mark.parametrize(
    ("headers", "content_type", "code"),
    [
        ({}, None, 415),
        ({}, "text/plain", 415),
        ({}, "application/x-www-form-urlencoded", 415),
        ({}, "application/json; charset=utf-8", 201),
        ({"Origin": "http://example.com"}, "application/json", 403),
    ],
)
async def test_a_web_page_cannot_set_faults(
    api: ApiClient, headers: dict[str, str], content_type: str | None, code: int
) -> None:
    reply = await api.post(FAULTS, NO_BINDING, headers=headers, content_type=content_type)
    assert reply.code == code


async def test_faults_and_their_endpoint_are_no_api_requests(
    server: FakeApiServer, api: ApiClient
) -> None:
    await api.post(FAULTS, {"answer": {"code": 500}})
    before = server.statistics().requests_total
    assert (await api.get(FAULTS)).code == 200
    assert (await api.put(FAULTS, {})).code == 405
    assert server.statistics().requests_total == before


async def test_the_client_that_adds_an_outage_still_reaches_the_server(
    server: FakeApiServer, api: ApiClient, stranger: ApiClient
) -> None:
    await api.post(FAULTS, {"outage": {}})
    with pytest.raises(aiohttp.ClientConnectorError):
        await stranger.get(PODS)
    assert (await api.get(PODS)).code == 200
    await api.delete(FAULTS)
    assert (await stranger.get(PODS)).code == 200


async def test_the_endpoint_can_be_switched_off(
    clock: ManualClock, session: aiohttp.ClientSession
) -> None:
    async with FakeApiServer(clock=clock, faults=FaultOptions(admin_endpoint=False)) as server:
        assert (await ApiClient(session, server.url).get(FAULTS)).code == 404


async def test_a_server_may_begin_with_faults(
    clock: ManualClock, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("faults:\n- {match: {verb: list}, answer: {code: 503}}\n", encoding="utf-8")
    fault = Fault(match=Match(verb="get"), answer=AnswerWith(code=500))
    async with FakeApiServer(clock=clock, faults=[file, fault]) as server:
        api = ApiClient(session, server.url)
        assert [(await api.get(PODS)).code, (await api.get(f"{PODS}/p")).code] == [503, 500]


def test_a_server_does_not_begin_with_faults_that_make_no_sense(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text("faults:\n- {match: {verbs: list}, answer: {code: 503}}\n", encoding="utf-8")
    with pytest.raises(FaultError, match=r"faults\[0\].match: unknown field verbs; did you mean"):
        FakeApiServer(faults=[file])


async def test_without_faults_requests_and_events_are_not_matched(
    server: FakeApiServer, api: ApiClient
) -> None:
    server.faults.add(Fault(answer=AnswerWith(code=500)))
    server.faults.clear()
    assert not server.faults.of_requests
    async with api.watch(CONFIG_MAPS) as stream:
        await api.create(CONFIG_MAPS, config_map("a"))
        assert await stream.take(1) == [("ADDED", "a")]
    await eventually(lambda: server.statistics().watchers == 0)
    assert server.faults.log == ()
