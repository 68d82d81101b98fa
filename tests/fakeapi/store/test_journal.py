"""Changes and requests of a server: listeners, and the requests that it keeps."""

import json

import aiohttp
import pytest

from fakeapi import FakeApiServer, HandledRequest, ManualClock, ObjectChange, ServerOptions
from fakeapi.faults import Fault, Observe

from ..api_client import ApiClient
from ..objects import CONFIG_MAPS, PODS, config_map


def _brief(changes: list[ObjectChange]) -> list[tuple[str, str, str, str]]:
    return [(told.type, told.resource, told.namespace, told.name) for told in changes]


async def test_each_change_is_reported_at_once(
    api: ApiClient, server: FakeApiServer, clock: ManualClock
) -> None:
    told: list[ObjectChange] = []
    with server.listening(on_change=told.append):
        await api.create(CONFIG_MAPS, config_map("c", {"a": "1"}))
        clock.advance(2.5)
        await api.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "2"}})
        await api.delete(f"{CONFIG_MAPS}/c")
    assert _brief(told) == [
        (change, "configmaps", "default", "c") for change in ("ADDED", "MODIFIED", "DELETED")
    ]
    assert [change.object["data"] for change in told] == [{"a": "1"}, {"a": "2"}, {"a": "2"}]
    assert [change.seconds for change in told] == [clock.now() - 2.5, clock.now(), clock.now()]
    versions = [change.resource_version for change in told]
    assert versions == list(range(versions[0], versions[0] + 3))
    assert versions[2] == server.resource_version


async def test_a_change_has_its_group_and_namespace(api: ApiClient, server: FakeApiServer) -> None:
    told: list[ObjectChange] = []
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    with server.listening(on_change=told.append):
        await api.create(path, {"metadata": {"name": "high"}, "value": 1})
    (change,) = told
    assert (change.group, change.resource, change.namespace) == (
        "scheduling.k8s.io",
        "priorityclasses",
        "",
    )


async def test_a_change_comes_before_the_request_that_made_it(
    api: ApiClient, server: FakeApiServer
) -> None:
    told: list[ObjectChange | HandledRequest] = []
    with server.listening(on_change=told.append, on_request=told.append):
        for _ in range(2):
            await api.post(CONFIG_MAPS, config_map("c"))
    assert [type(each) for each in told] == [ObjectChange, HandledRequest, HandledRequest]
    assert [each.status for each in told if isinstance(each, HandledRequest)] == [201, 409]


@pytest.mark.parametrize("way", ["at once", "past faults"])
async def test_a_request_is_reported_with_its_body(
    api: ApiClient, server: FakeApiServer, way: str
) -> None:
    if way == "past faults":
        server.faults.add(Fault(observe=Observe()))
    told: list[HandledRequest] = []
    with server.listening(on_request=told.append):
        await api.create(CONFIG_MAPS, config_map("c"))
        await api.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "2"}})
        await api.get(f"{CONFIG_MAPS}/c")
    created, patched, read = told
    assert json.loads(created.body)["metadata"]["name"] == "c"
    assert created.content_type == "application/json"
    assert json.loads(patched.body) == {"data": {"a": "2"}}
    assert patched.content_type == "application/merge-patch+json"
    assert (read.content_type, read.body) == ("", b"")


async def test_listeners_are_not_called_after_the_block(
    api: ApiClient, server: FakeApiServer
) -> None:
    told: list[object] = []
    with server.listening(on_change=told.append, on_request=told.append):
        pass
    await api.create(CONFIG_MAPS, config_map("c"))
    assert told == []


async def test_several_may_listen(api: ApiClient, server: FakeApiServer) -> None:
    first: list[object] = []
    second: list[object] = []
    with server.listening(on_change=first.append), server.listening(on_change=second.append):
        await api.create(CONFIG_MAPS, config_map("c"))
    assert len(first) == len(second) == 1


async def test_the_newest_requests_are_remembered(session: aiohttp.ClientSession) -> None:
    clock = ManualClock()
    async with FakeApiServer(clock=clock, options=ServerOptions(requests_kept=2)) as server:
        api = ApiClient(session, server.url)
        await api.get("/healthz")
        await api.create(CONFIG_MAPS, config_map("c"))
        await api.request("GET", "/nowhere?a=b%20c", headers={"User-Agent": "me/1.0"})
        (created, lost) = server.requests
        assert (created.method, created.path, created.status) == ("POST", CONFIG_MAPS, 201)
        assert lost == HandledRequest(clock.now(), "GET", "/nowhere?a=b%20c", "me/1.0", 404)


async def test_a_watch_is_remembered_when_it_begins(session: aiohttp.ClientSession) -> None:
    async with FakeApiServer(options=ServerOptions(requests_kept=10)) as server:
        api = ApiClient(session, server.url)
        async with api.watch(PODS):
            (watch,) = server.requests
            assert (watch.method, watch.status) == ("GET", 200)
            assert watch.path.startswith(f"{PODS}?watch=")
        await api.get(PODS)
        assert len(server.requests) == 2


async def test_requests_are_kept_only_on_request(api: ApiClient, server: FakeApiServer) -> None:
    await api.get("/healthz")
    assert server.requests == ()
