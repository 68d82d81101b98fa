"""The log of faults: chance that comes out alike on a seed, and scripts that do it again."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from fakeapi import FakeApiServer, ManualClock
from fakeapi.faults import (
    AnswerWith,
    Compact,
    Cut,
    Delay,
    Fault,
    FaultError,
    FaultOptions,
    Match,
    Observe,
    Outage,
    When,
    script_from,
)

from ..api_client import ApiClient, eventually
from ..objects import CONFIG_MAPS, PODS, config_map

SOMETIMES = When(probability=0.5)
LISTS = Match(verb="list")


async def codes(
    session: aiohttp.ClientSession, server: FakeApiServer, count: int = 40
) -> list[int]:
    """The codes of so many lists."""
    api = ApiClient(session, server.url)
    return [(await api.get(PODS)).code for _ in range(count)]


async def run(session: aiohttp.ClientSession, seed: int, *faults: Fault) -> list[int]:
    """The codes of lists from a fresh server with these faults."""
    async with FakeApiServer(clock=ManualClock(), seed=seed, faults=faults) as server:
        return await codes(session, server)


async def test_chance_comes_out_alike_on_the_same_seed(session: aiohttp.ClientSession) -> None:
    fault = Fault(match=LISTS, when=SOMETIMES, answer=AnswerWith(code=503))
    first, again, other = [await run(session, seed, fault) for seed in (1, 1, 2)]
    assert first == again
    assert first != other
    assert 10 < first.count(503) < 30


async def test_one_fault_does_not_change_the_chances_of_another(
    session: aiohttp.ClientSession,
) -> None:
    fault = Fault(match=LISTS, when=SOMETIMES, answer=AnswerWith(code=503))
    later = Fault(match=LISTS, when=SOMETIMES, observe=Observe())
    assert await run(session, 1, fault) == await run(session, 1, fault, later)


async def test_a_file_may_bring_its_own_seed(session: aiohttp.ClientSession) -> None:
    fault = {"match": {"verb": "list"}, "when": {"probability": 0.5}, "answer": {"code": 503}}
    found = []
    for seed in (1, 2):
        file = {"seed": 5, "faults": [fault]}
        async with FakeApiServer(clock=ManualClock(), seed=seed, faults=[file]) as server:
            found.append(await codes(session, server))
    assert found[0] == found[1]


async def test_every_injection_has_effect_time_and_client(
    server: FakeApiServer, api: ApiClient, clock: ManualClock
) -> None:
    server.faults.add(Fault(name="busy", match=LISTS, answer=AnswerWith(code=503)))
    server.faults.add(Fault(name="ended", match=Match(event="ADDED"), cut=Cut()))
    clock.advance(5.0)
    await api.request("GET", PODS, headers={"X-Fakeapi-Client": "me"})
    async with api.watch(CONFIG_MAPS) as stream:
        created = await api.create(CONFIG_MAPS, config_map("a"))
        assert await stream.next() is None
    busy, ended = server.faults.log
    assert (busy.number, busy.fault, busy.effect, busy.match) == (1, "busy", "answer", 1)
    assert (busy.client, busy.verb, busy.path) == ("me", "list", PODS)
    assert busy.time_seconds == clock.now()
    assert (ended.number, ended.verb, ended.event, ended.object) == (
        2,
        "watch",
        "ADDED",
        "default/a",
    )
    assert ended.resource_version == created["metadata"]["resourceVersion"]


async def test_a_log_becomes_a_script_that_does_the_same_again(
    session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    log = tmp_path / "faults.jsonl"
    fault = Fault(name="busy", match=LISTS, when=SOMETIMES, answer=AnswerWith(code=503))
    async with FakeApiServer(
        clock=ManualClock(), faults=FaultOptions(faults=[fault], log=log)
    ) as server:
        first = await codes(session, server)
        (scripted,) = server.faults.script()
    numbers = [index for index, code in enumerate(first, 1) if code == 503]
    assert scripted.when == When(nth=numbers)
    assert script_from(log) == [scripted]
    async with FakeApiServer(clock=ManualClock(), faults=[log]) as server:
        assert await codes(session, server) == first


async def test_faults_from_the_start_of_a_slow_server_count_from_its_first_request() -> None:
    class SlowClock(ManualClock):
        def now(self) -> float:
            self.advance(0.01)
            return super().now()

    async with FakeApiServer(
        clock=SlowClock(), faults=[Fault(match=LISTS, answer=AnswerWith(code=503))]
    ) as server:
        async with aiohttp.ClientSession() as session:
            await ApiClient(session, server.url).get(PODS)
        (scripted,) = server.faults.script()
    assert scripted.when == When(nth=[1])


async def test_a_script_delays_for_as_long_as_chance_had_it(session: aiohttp.ClientSession) -> None:
    async def waits(*faults: Fault) -> tuple[list[float | None], list[Fault]]:
        clock = ManualClock()
        async with FakeApiServer(clock=clock, faults=faults) as server:
            api = ApiClient(session, server.url)
            for _ in range(5):
                reading = asyncio.create_task(api.get(PODS))
                await eventually(lambda: server.faults.requests_delayed == 1)
                clock.advance(10.0)
                await reading
            seconds = [injection.seconds for injection in server.faults.log]
            return seconds, server.faults.script()

    seconds, script = await waits(Fault(name="slow", match=LISTS, delay=Delay(seconds=[1.0, 9.0])))
    assert len(set(seconds)) == 5
    assert (await waits(*script))[0] == seconds


async def test_a_script_keeps_to_the_time_in_which_a_fault_was_set(
    server: FakeApiServer, api: ApiClient, clock: ManualClock
) -> None:
    await api.get(PODS)
    clock.advance(5.0)
    server.faults.add(Fault(name="busy", match=LISTS, answer=AnswerWith(code=503)))
    await api.get(PODS)
    clock.advance(5.0)
    server.faults.remove("busy")
    clock.advance(5.0)
    server.faults.add(Fault(name="busy", match=LISTS, answer=AnswerWith(code=500)))
    server.faults.add(Fault(name="never", match=Match(verb="patch"), answer=AnswerWith(code=500)))
    await api.get(PODS)
    first, second = server.faults.script()
    assert first.when == When(nth=[1], from_seconds=5.0, until_seconds=10.0)
    assert (first.name, second.name) == ("busy", "busy.2")
    assert second.when == When(nth=[1], from_seconds=15.0)


async def test_a_script_repeats_the_faults_of_the_server(
    server: FakeApiServer, clock: ManualClock
) -> None:
    clock.advance(5.0)
    server.faults.add(Fault(when=When(from_seconds=1.0), outage=Outage(seconds=2.0)))
    clock.advance(10.0)
    (scripted,) = server.faults.script()
    assert scripted.when == When(from_seconds=6.0)
    assert scripted.outage == Outage(seconds=2.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n", "line 1: Input data was truncated"),
        ('{"removed": 3}\n', "line 1: no fault has the number 3"),
        ('{"fault": {"answer": {"code": 1}}}\n', "line 1: expected a code from 400 to 599"),
    ],
)
def test_a_log_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    log = tmp_path / "faults.jsonl"
    log.write_text(text, encoding="utf-8")
    with pytest.raises(FaultError, match=message):
        script_from(log)
    with pytest.raises(FaultError, match="No such file"):
        script_from(tmp_path / "none.jsonl")


async def test_only_the_newest_injections_are_kept(session: aiohttp.ClientSession) -> None:
    fault = Fault(name="always", match=LISTS, answer=AnswerWith(code=503))
    options = FaultOptions(faults=[fault], log_size=3)
    async with FakeApiServer(clock=ManualClock(), faults=options) as server:
        await codes(session, server, 5)
        assert [injection.number for injection in server.faults.log] == [3, 4, 5]
        assert server.faults.count("always") == 5
        for number in range(5):
            server.faults.add(Fault(name=f"f{number}", compact=Compact()))
            server.faults.remove(f"f{number}")
        assert [fault.name for fault in server.faults.script()] == ["f3", "f4"]
