"""Faults of requests, over HTTP: delays, failures, broken connections, stale lists, damage."""

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest

from fakeapi import FakeApiServer, ManualClock
from fakeapi.faults import (
    AnswerWith,
    Delay,
    Expire,
    Fault,
    Garble,
    Match,
    Observe,
    RefuseWatchList,
    Reset,
    Stale,
    When,
)

from ..api_client import ApiClient, eventually
from ..objects import CONFIG_MAPS, NODES, PODS, binding, config_map, pod

BINDINGS = Match(verb="create", resource="pods/binding")
WATCH_LIST = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (401, "Unauthorized", "Unauthorized"),
        (404, "NotFound", 'pods "p" not found'),
        (
            409,
            "Conflict",
            'Operation cannot be fulfilled on pods/binding "p": the object has been modified; '
            "please apply your changes to the latest version and try again",
        ),
        (429, "TooManyRequests", "Too many requests, please try again later."),
        (500, "InternalError", "Internal error occurred: etcdserver: request timed out"),
        (503, "ServiceUnavailable", "the server is currently unable to handle the request"),
        (
            504,
            "Timeout",
            "Timeout: request did not complete within requested timeout - context deadline "
            "exceeded",
        ),
    ],
)
async def test_a_failure_has_the_message_of_upstream(
    server: FakeApiServer, api: ApiClient, code: int, reason: str, message: str
) -> None:
    await api.create(PODS, pod("p"))
    server.faults.add(Fault(match=BINDINGS, answer=AnswerWith(code=code)))
    reply = await api.post(f"{PODS}/p/binding", binding("p"))
    assert (reply.code, reply.reason, reply.message) == (code, reason, message)
    assert reply.body["code"] == code
    assert "Retry-After" not in reply.headers
    assert "nodeName" not in (await api.get(f"{PODS}/p")).body["spec"]


async def test_a_failure_may_ask_to_try_again_later(server: FakeApiServer, api: ApiClient) -> None:
    server.faults.add(
        Fault(match=Match(verb="list"), answer=AnswerWith(code=429, retry_after_seconds=7))
    )
    reply = await api.get(PODS)
    assert (reply.code, reply.headers["Retry-After"]) == (429, "7")
    assert reply.body["details"] == {"retryAfterSeconds": 7}
    assert reply.message == "storage is (re)initializing"


async def test_a_failure_may_have_a_message_of_its_own(
    server: FakeApiServer, api: ApiClient
) -> None:
    server.faults.add(
        Fault(match=Match(verb="get"), answer=AnswerWith(code=418, reason="Tea", message="no"))
    )
    reply = await api.get(f"{PODS}/p")
    assert (reply.code, reply.reason, reply.message) == (418, "Tea", "no")


async def test_a_version_may_be_too_large(server: FakeApiServer, api: ApiClient) -> None:
    fault = AnswerWith(code=504, too_large_resource_version=True)
    server.faults.add(Fault(match=Match(verb="list"), answer=fault))
    reply = await api.get(PODS, resourceVersion="100")
    assert (reply.code, reply.reason) == (504, "Timeout")
    assert reply.causes == [("ResourceVersionTooLarge", "")]
    assert reply.headers["Retry-After"] == "1"


@pytest.mark.parametrize("how", ["answer", "reset"])
async def test_a_write_takes_place_though_its_answer_is_lost(
    server: FakeApiServer, api: ApiClient, how: str
) -> None:
    await api.create(PODS, pod("p"))
    effect: dict[str, Any] = {
        "answer": {"answer": AnswerWith(code=500, after_write=True)},
        "reset": {"reset": Reset(after_write=True)},
    }[how]
    server.faults.add(Fault(match=BINDINGS, **effect))
    if how == "reset":
        with pytest.raises(aiohttp.ClientError):
            await api.post(f"{PODS}/p/binding", binding("p", node="n"))
    else:
        assert (await api.post(f"{PODS}/p/binding", binding("p", node="n"))).code == 500
    assert (await api.get(f"{PODS}/p")).body["spec"]["nodeName"] == "n"


@pytest.mark.parametrize("close", [False, True])
async def test_a_connection_breaks_before_the_write_takes_place(
    server: FakeApiServer, api: ApiClient, close: bool
) -> None:
    server.faults.add(Fault(match=Match(verb="create"), reset=Reset(close=close)))
    with pytest.raises(aiohttp.ClientError):
        await api.post(PODS, pod("p"))
    assert (await api.get(PODS)).names == []


async def test_a_delayed_request_is_carried_out_when_time_has_passed(
    server: FakeApiServer, api: ApiClient, clock: ManualClock
) -> None:
    server.faults.add(Fault(match=Match(verb="create"), delay=Delay(seconds=5.0)))
    writing = asyncio.create_task(api.post(PODS, pod("p")))
    await eventually(lambda: server.faults.requests_delayed == 1)
    assert server.statistics().requests_in_flight == 1
    assert (await api.get(PODS)).names == []
    clock.advance(5.0)
    assert (await writing).code == 201
    assert server.statistics().requests_in_flight == 0


async def test_a_delay_after_the_write_holds_only_the_answer_back(
    server: FakeApiServer, api: ApiClient, clock: ManualClock
) -> None:
    delay = Delay(seconds=5.0, after_write=True)
    server.faults.add(Fault(match=Match(verb="create"), delay=delay))
    writing = asyncio.create_task(api.post(PODS, pod("p")))
    await eventually(lambda: server.faults.requests_delayed == 1)
    assert (await api.get(PODS)).names == ["p"]
    clock.advance(5.0)
    assert (await writing).code == 201


async def test_a_held_request_waits_for_its_fault_to_go(
    server: FakeApiServer, api: ApiClient
) -> None:
    server.faults.add(Fault(name="hold", match=Match(verb="create"), delay=Delay()))
    writing = asyncio.create_task(api.post(PODS, pod("p")))
    await eventually(lambda: server.statistics().requests_held == 1)
    assert server.statistics().requests_in_flight == 0
    assert server.faults.remove("hold")
    assert (await writing).code == 201


async def test_a_held_request_waits_for_the_time_of_its_fault_to_end(
    server: FakeApiServer, api: ApiClient, clock: ManualClock
) -> None:
    server.faults.add(Fault(when=When(until_seconds=20.0), delay=Delay()))
    reading = asyncio.create_task(api.get(PODS))
    await eventually(lambda: server.statistics().requests_held == 1)
    clock.advance(20.0)
    assert (await reading).code == 200
    assert (await api.get(PODS)).code == 200


async def test_a_delay_goes_together_with_another_fault(
    server: FakeApiServer, api: ApiClient, clock: ManualClock
) -> None:
    server.faults.add(Fault(delay=Delay(seconds=1.0)), Fault(answer=AnswerWith(code=503)))
    reading = asyncio.create_task(api.get(PODS))
    await eventually(lambda: server.faults.requests_delayed == 1)
    clock.advance(1.0)
    assert (await reading).code == 503


async def test_a_client_that_hangs_up_is_not_waited_for(
    server: FakeApiServer, api: ApiClient
) -> None:
    server.faults.add(Fault(delay=Delay()))
    reading = asyncio.create_task(api.get(PODS))
    await eventually(lambda: server.statistics().requests_held == 1)
    reading.cancel()
    await eventually(lambda: server.statistics().requests_held == 0)


async def test_a_damaged_answer_breaks_off(server: FakeApiServer, api: ApiClient) -> None:
    server.faults.add(Fault(match=Match(verb="list"), garble=Garble(how="truncated")))
    with pytest.raises(aiohttp.ClientError):
        await api.get(PODS)


async def test_a_damaged_answer_is_no_json(server: FakeApiServer, api: ApiClient) -> None:
    server.faults.add(Fault(match=Match(verb="list"), garble=Garble(how="not_json")))
    with pytest.raises(msgspec.DecodeError):
        await api.get(PODS)


async def test_a_stale_list_is_an_older_state_with_its_old_version(
    server: FakeApiServer, api: ApiClient
) -> None:
    await api.create(CONFIG_MAPS, config_map("a"))
    before = await api.get(CONFIG_MAPS)
    server.faults.add(Fault(name="frozen", match=Match(verb="list"), stale=Stale()))
    await api.create(CONFIG_MAPS, config_map("b"))
    for query in ({}, {"resourceVersion": "0"}, {"resourceVersion": "0", "limit": "1"}):
        stale = await api.get(CONFIG_MAPS, **query)
        assert (stale.names, stale.version) == (["a"], before.version)
    server.faults.clear()
    assert (await api.get(CONFIG_MAPS)).names == ["a", "b"]


async def test_a_stale_list_is_so_many_changes_behind(
    server: FakeApiServer, api: ApiClient
) -> None:
    for name in ("a", "b", "c"):
        await api.create(CONFIG_MAPS, config_map(name))
    await api.create(NODES, {"metadata": {"name": "n"}})  # of another resource: does not count
    server.faults.add(
        Fault(match=Match(resource="configmaps"), stale=Stale(changes=2), when=When(times=1))
    )
    assert (await api.get(CONFIG_MAPS)).names == ["a"]
    assert (await api.get(CONFIG_MAPS)).names == ["a", "b", "c"]


async def test_a_stale_server_does_not_serve_a_version_that_the_client_has_seen(
    server: FakeApiServer, api: ApiClient
) -> None:
    server.faults.add(Fault(match=Match(verb="list"), stale=Stale()))
    created = await api.create(CONFIG_MAPS, config_map("a"))
    version = created["metadata"]["resourceVersion"]
    reply = await api.get(CONFIG_MAPS, resourceVersion=version)
    assert (reply.code, reply.causes) == (504, [("ResourceVersionTooLarge", "")])


async def test_a_stale_watch_list_begins_with_an_older_state_and_catches_up(
    server: FakeApiServer, api: ApiClient
) -> None:
    await api.create(CONFIG_MAPS, config_map("a"))
    server.faults.add(Fault(match=Match(verb="watch"), stale=Stale()))
    version = server.resource_version
    await api.create(CONFIG_MAPS, config_map("b"))
    async with api.watch(CONFIG_MAPS, **WATCH_LIST) as stream:
        assert await stream.take(1) == [("ADDED", "a")]
        end = await stream.next()
        assert end is not None
        assert end["type"] == "BOOKMARK"
        assert end["object"]["metadata"]["resourceVersion"] == str(version)
        assert await stream.take(1) == [("ADDED", "b")]


async def test_a_list_may_have_expired(server: FakeApiServer, api: ApiClient) -> None:
    server.faults.add(Fault(expire=Expire()))
    reply = await api.get(PODS, resourceVersion="100")
    assert (reply.code, reply.reason) == (410, "Expired")


@pytest.mark.parametrize("as_answer", [False, True])
async def test_a_watch_may_have_expired_when_it_begins(
    server: FakeApiServer, api: ApiClient, as_answer: bool
) -> None:
    server.faults.add(Fault(expire=Expire(as_answer=as_answer)))
    if as_answer:
        assert (await api.get(PODS, watch="true")).code == 410
        return
    async with api.watch(PODS, resourceVersion="100") as stream:
        (event,) = await stream.rest()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert event["object"]["message"].startswith("too old resource version: 100 (")


async def test_watch_lists_are_refused_as_by_a_server_without_them(
    server: FakeApiServer, api: ApiClient
) -> None:
    server.faults.add(Fault(refuse_watch_list=RefuseWatchList()))
    reply = await api.get(PODS, watch="true", **WATCH_LIST)
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert reply.causes == [("FieldValueForbidden", "sendInitialEvents")]
    async with api.watch(PODS):
        pass


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (Match(), "xxxxxx"),
        (Match(verb="create"), "xx    "),
        (Match(verb=["get", "list"]), "  xxx "),
        (Match(verb="deletecollection"), "     x"),
        (Match(resource="pods"), "x x   "),
        (Match(resource=["configmaps", "pods/binding"]), " x x x"),
        (Match(resource="*"), "xxxx x"),
        (Match(path="/version"), "    x "),
        (Match(name="p"), "x x   "),
        (Match(name="q*"), " x    "),
        (Match(namespace="default"), "xxxx x"),
        (Match(namespace="other"), "      "),
        (Match(client="Python*"), "xxxxxx"),
        (Match(except_client="Python*"), "      "),
    ],
)
async def test_a_match_names_verbs_resources_objects_and_clients(
    server: FakeApiServer, api: ApiClient, match: Match, expected: str
) -> None:
    server.faults.add(Fault(name="seen", match=match, observe=Observe()))
    seen = ""
    for method, path, body in (
        ("POST", PODS, pod("p")),
        ("POST", CONFIG_MAPS, config_map("q")),
        ("GET", f"{PODS}/p", None),
        ("GET", CONFIG_MAPS, None),
        ("GET", "/version", None),
        ("DELETE", CONFIG_MAPS, None),
    ):
        before = server.faults.count("seen")
        assert (await api.request(method, path, body)).code < 300
        seen += "x" if server.faults.count("seen") > before else " "
    assert seen == expected


async def test_a_group_may_be_named_with_its_resource(
    server: FakeApiServer, api: ApiClient
) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    server.faults.add(Fault(name="a", match=Match(resource="leases"), observe=Observe()))
    server.faults.add(Fault(name="b", match=Match(resource="*.coordination*"), observe=Observe()))
    await api.get(leases)
    assert (server.faults.count("a"), server.faults.count("b")) == (1, 1)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(match=Match(name="p"), observe=Observe()),
        Fault(match=Match(verb="create"), answer=AnswerWith(code=503)),
    ],
)
async def test_requests_that_the_server_refuses_are_refused_despite_faults(
    server: FakeApiServer, api: ApiClient, fault: Fault
) -> None:
    server.faults.add(fault)
    assert (await api.post(CONFIG_MAPS, b'"' + b"x" * (4 << 20) + b'"')).code == 413
    server.faults.clear()
    server.faults.add(Fault(match=Match(verb="watch"), stale=Stale()))
    bad = {**WATCH_LIST, "resourceVersionMatch": "Exact"}
    assert (await api.get(CONFIG_MAPS, watch="true", **bad)).code == 422


async def test_a_header_distinguishes_clients(server: FakeApiServer, api: ApiClient) -> None:
    server.faults.add(Fault(match=Match(client="second"), answer=AnswerWith(code=503)))
    first = await api.request("GET", PODS, headers={"X-Fakeapi-Client": "first"})
    second = await api.request("GET", PODS, headers={"X-Fakeapi-Client": "second"})
    assert (first.code, second.code) == (200, 503)


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (When(), "xxxxxx"),
        (When(nth=2), " x    "),
        (When(nth=[1, 5]), "x   x "),
        (When(skip=2), "  xxxx"),
        (When(skip=1, times=2), " xx   "),
        (When(probability=0.0), "      "),
        (When(from_seconds=2.0), "  xxxx"),
        (When(from_seconds=1.0, until_seconds=3.0), " xx   "),
        (When(from_seconds=1.0, nth=2), "  x   "),
    ],
)
async def test_a_schedule_names_matches_and_moments(
    server: FakeApiServer, api: ApiClient, clock: ManualClock, when: When, expected: str
) -> None:
    server.faults.add(Fault(match=Match(verb="list"), when=when, answer=AnswerWith(code=503)))
    seen = ""
    for _ in range(6):
        seen += "x" if (await api.get(PODS)).code == 503 else " "
        clock.advance(1.0)
    assert seen == expected


async def test_of_several_faults_the_first_strikes_and_all_count(
    server: FakeApiServer, api: ApiClient
) -> None:
    server.faults.add(
        Fault(name="a", when=When(nth=1), answer=AnswerWith(code=500)),
        Fault(name="b", when=When(nth=[1, 2]), answer=AnswerWith(code=503)),
    )
    assert [(await api.get(PODS)).code for _ in range(3)] == [500, 503, 200]
    assert [injection.match for injection in server.faults.log] == [1, 2]


@pytest.mark.parametrize(
    "effect",
    [{"stale": Stale()}, {"answer": AnswerWith(too_large_resource_version=True, code=504)}],
)
async def test_a_fault_reads_a_version_of_very_many_digits(
    api: ApiClient, server: FakeApiServer, effect: dict[str, Any]
) -> None:
    server.faults.add(Fault(match=Match(verb="list"), **effect))
    reply = await api.get(CONFIG_MAPS, resourceVersion="9" * 5000)
    assert reply.code in (200, 400, 504)


async def test_the_admin_endpoint_reads_its_path_without_the_query(api: ApiClient) -> None:
    assert (await api.get("/_fakeapi/faults/log", x="1")).body == {"log": []}
