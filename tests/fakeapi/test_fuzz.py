"""A slice of the fuzz program; all of it is `python -m tests.fuzz.api_server`."""

import asyncio
import time
from typing import Any

import pytest

from fakeapi.http import answers
from fakeapi.requests import dispatch
from fakeapi.store.journal import ObjectChange
from tests import thoroughness
from tests.fuzz.api_server import fuzz
from tests.fuzz.asking import Asked
from tests.fuzz.failures import SHAPES, shape_of
from tests.fuzz.served import ADMIN, ANONYMOUS, CANARY, READER, Turn, serving
from tests.fuzz.verdicts import is_beyond_budget, wrong_with
from tests.fuzz.wire import Answer, Meter, Stretch

from . import exchange as exchanges
from .test_exchanges import NAMES


def recorded_failures() -> list[exchanges.Exchange]:
    answers = [answer for name in NAMES for answer in exchanges.recorded(name)]
    return [answer["body"] for answer in answers if answer["code"] == 500]


@pytest.mark.slow
def test_no_request_breaks_the_server_or_holds_it_or_gets_past_its_authorizer() -> None:
    requests = 50_000 if thoroughness.IS_THOROUGH else 1_000
    findings = fuzz(requests=requests, seed=thoroughness.SEED)
    assert not findings.found, findings.report()


def a_turn(user: str = READER, asked: Asked | None = None, **fields: Any) -> Turn:
    one = asked or Asked("GET", "/api/v1/pods")
    observed: dict[str, Any] = {"answers": [Answer(200)], "changes": [], "stretch": Stretch()}
    return Turn(user, [one], **{**observed, "errors": [], "streamed": b"", **fields})


def a_change(**fields: str) -> ObjectChange:
    what = {"type": "ADDED", "group": "", "resource": "configmaps", "namespace": "default"}
    return ObjectChange(0, 1, **{**what, **fields}, name="a", object={})


@pytest.mark.parametrize(
    "turn",
    [
        a_turn(asked=Asked("DELETE", "/api/v1/watch/namespaces/default/configmaps/a")),
        a_turn(ANONYMOUS, Asked("POST", "/api/v1/namespaces/default/configmaps")),
        a_turn(changes=[a_change(type="DELETED")]),
        a_turn(changes=[a_change(namespace="other")]),
        a_turn(answers=[Answer(200, body=CANARY.encode())]),
        a_turn(streamed=CANARY.encode()),
        a_turn(ADMIN, answers=[Answer(500, body=b"Server got itself in trouble")]),
        a_turn(ADMIN, answers=[Answer(0)]),
        a_turn(ADMIN, errors=["RecursionError"]),
    ],
)
def test_the_fuzz_finds_a_defect(turn: Turn) -> None:
    assert list(wrong_with(turn))


def test_the_fuzz_finds_no_defect_in_what_a_user_may() -> None:
    creation = Asked("POST", "/api/v1/namespaces/default/configmaps")
    assert not list(wrong_with(a_turn(asked=creation, changes=[a_change()])))
    everything = {"changes": [a_change(type="DELETED")], "streamed": CANARY.encode()}
    assert not list(wrong_with(a_turn(ADMIN, Asked("DELETE", "/api/v1/nodes/a"), **everything)))


@pytest.mark.parametrize(
    ("mebibytes", "seconds", "is_beyond"), [(0, 0.2, False), (0, 0.3, True), (2, 0.3, False)]
)
def test_a_request_may_hold_the_loop_in_proportion_to_its_size(
    mebibytes: int, seconds: float, is_beyond: bool
) -> None:
    asked = Asked("POST", "/api/v1/nodes", body=b" " * (mebibytes << 20))
    assert is_beyond_budget(a_turn(asked=asked, stretch=Stretch(seconds))) == is_beyond


def test_the_fuzz_allows_the_recorded_failures_of_the_real_server() -> None:
    assert {shape_of(status) for status in recorded_failures()} == set(SHAPES)


@pytest.mark.parametrize(
    "status",
    [
        {"message": "KeyError('spec')", "reason": "InternalError"},
        {"message": "Internal error occurred: KeyError('spec')", "reason": "InternalError"},
        {"message": "target.name: Required value", "reason": "InternalError"},
        {"message": "target.name: Required value; and more"},
        {"message": ""},
        {},
    ],
)
def test_the_fuzz_allows_no_other_failure(status: exchanges.Exchange) -> None:
    assert shape_of(status) == ""


def test_the_fuzz_times_an_answer_that_comes_as_its_timer_fires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = iter(range(8))  # in one of them the timer fires first

    async def spin(*_: Any) -> Any:
        for _step in range(next(steps)):
            await asyncio.sleep(0)
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        return answers.success(200)

    async def times() -> list[float]:
        async with serving(meter) as served:
            monkeypatch.setitem(dispatch._VERBS, "get", spin)
            asked = Asked("GET", "/api/v1/nodes/n1", {"Host": "x"})
            turns = [await served.turn(ADMIN, [asked]) for _ in range(8)]
        return [turn.stretch.cpu_seconds for turn in turns]

    monkeypatch.setattr("tests.fuzz.served._ROUND_SECONDS", 0.0)
    meter = Meter()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(meter)) as runner:
        assert min(runner.run(times())) >= 0.02
