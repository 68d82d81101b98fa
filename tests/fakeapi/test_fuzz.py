"""A slice of the fuzz program; all of it is `python -m tests.fuzz.api_server`."""

from __future__ import annotations

import pytest

from tests import thoroughness
from tests.fuzz.api_server import fuzz
from tests.fuzz.failures import SHAPES, shape_of

from . import exchange as exchanges
from .test_exchanges import NAMES


def recorded_failures() -> list[exchanges.Exchange]:
    answers = [answer for name in NAMES for answer in exchanges.recorded(name)]
    return [answer["body"] for answer in answers if answer["code"] == 500]


@pytest.mark.slow
def test_no_request_breaks_the_server_or_holds_it_or_gets_past_its_authorizer() -> None:
    requests = 50_000 if thoroughness.IS_THOROUGH else 2_000
    findings = fuzz(requests=requests, seed=thoroughness.SEED)
    assert not findings.found, findings.report()


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
