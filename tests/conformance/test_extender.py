"""The extender of a case: the answers, and the comparison of requests."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import msgspec
import pytest

from conformance.api import ApiClient, Json, Ref
from conformance.clock import RealClock
from conformance.extender import Extender, ExtenderAnswer, RunningExtender, matches
from conformance.format.expectation import Expectation
from conformance.judge.expect import unmet_by_extender


@pytest.mark.parametrize(
    ("expected", "actual", "does"),
    [
        (1, 1, True),
        (1, 2, False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1, "c": 3}, {"a": 1, "b": 2}, False),
        ({"a": 1}, [1], False),
        ([1, 2], [2, 1], True),
        ([1, 2], [1, 2, 3], False),
        ([1, 1], [1, 2], False),
        ([1], {"a": 1}, False),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}, True),
    ],
)
def test_a_request_matches_if_it_has_all_that_is_expected(
    expected: object, actual: object, does: bool
) -> None:
    assert matches(expected, actual) is does


class Server:
    """An API server that knows a pod, and notes bindings."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []

    async def bind(self, pod: Ref, node_name: str) -> None:
        self.bound.append((f"{pod.namespace}/{pod.name}", node_name))

    async def find(self, ref: Ref) -> Json | None:
        return {"metadata": {"uid": "uid-low"}} if ref.name == "low" else None


@contextlib.asynccontextmanager
async def running(server: Server, **answers: ExtenderAnswer) -> AsyncIterator[RunningExtender]:
    extender = Extender(name="e", config={}, answers=answers)
    api = cast("ApiClient", server)
    async with RunningExtender(extender, api=api, clock=RealClock()) as extending:
        yield extending


async def asked(extender: RunningExtender, verb: str, args: Json) -> Any:
    url = f"{extender.config['urlPrefix']}/{verb}"
    async with aiohttp.ClientSession() as session, session.post(url, json=args) as response:
        return await response.json()


BINDING: Json = {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "a"}


@pytest.mark.parametrize(
    ("answer", "error", "bound"),
    [
        (ExtenderAnswer(), "", [("default/p", "a")]),
        (ExtenderAnswer(error="no"), "no", []),
        (ExtenderAnswer(status=500), "", []),
    ],
)
async def test_a_binding_is_carried_out_unless_it_is_refused(
    answer: ExtenderAnswer, error: str, bound: list[tuple[str, str]]
) -> None:
    server = Server()
    async with running(server, bind=answer) as extender:
        assert await asked(extender, "bind", BINDING) == {"Error": error}
        assert extender.calls == {"bind": 1}
        assert extender.received == {"bind": BINDING}
    assert server.bound == bound


LOW: Json = {"Pods": [{"metadata": {"uid": "uid-low"}}], "NumPDBViolations": 1}
META: Json = {"Pods": [{"UID": "uid-low"}], "NumPDBViolations": 1}


@pytest.mark.parametrize(
    ("answer", "args", "victims"),
    [
        (ExtenderAnswer(), {"NodeNameToVictims": {"a": LOW}}, {"a": META}),
        (ExtenderAnswer(), {"NodeNameToMetaVictims": {"a": META}}, {"a": META}),
        (
            ExtenderAnswer(accepts=["b"]),
            {"NodeNameToMetaVictims": {"a": META, "b": META}},
            {"b": META},
        ),
        (ExtenderAnswer(), {}, {}),
        # Pods by name, and uids.
        (
            ExtenderAnswer(victims={"a": ["low", "uid-9"]}),
            {"NodeNameToMetaVictims": {"b": META}},
            {"a": {"Pods": [{"UID": "uid-low"}, {"UID": "uid-9"}]}},
        ),
    ],
)
async def test_victims_are_those_of_the_request_or_of_the_case(
    answer: ExtenderAnswer, args: Json, victims: Json
) -> None:
    async with running(Server(), preempt=answer) as extender:
        assert await asked(extender, "preempt", args) == {"NodeNameToMetaVictims": victims}


@pytest.mark.parametrize(
    ("expectation", "problem", "lines"),
    [
        ({"calls": {"filter": 2}, "received": {"filter": {"Pod": {}}}}, "", ()),
        ({"calls": {"filter": 1}}, "expected 1 calls of filter, found 2", ()),
        ({"calls": {"bind": {"at_least": 1}}}, "expected at least 1 calls of bind, found 0", ()),
        (
            {"received": {"filter": {"Pod": {"kind": "Pod"}}}},
            "expected another request of filter",
            ('{"Pod":{}}',),
        ),
        ({"received": {"bind": {}}}, "expected another request of bind", ("null",)),
    ],
)
def test_the_requests_of_an_extender_are_expected(
    expectation: dict[str, Any], problem: str, lines: tuple[str, ...]
) -> None:
    asked = SimpleNamespace(calls=Counter(filter=2), received={"filter": {"Pod": {}}})
    wanted = msgspec.convert({"extender": "e", **expectation}, Expectation)
    found = unmet_by_extender(cast("RunningExtender", asked), wanted)
    assert [(each.subject, each.problem, each.lines) for each in found] == (
        [("extender e", problem, lines)] if problem else []
    )
