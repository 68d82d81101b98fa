"""Retries: the rule by itself."""

import pytest

from scheduler.client import Conflict, ConnectionFailed, ConnectionRefused, ServerError
from scheduler.client.errors import Forbidden
from scheduler.client.retries import Retry, is_retryable, retry_after_seconds, retry_delay_seconds

NOW = 1_800_000_000.4


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0),
        ("7", 7),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("Fri, 15 Jan 2027 08:00:30 GMT", 30),
        ("Fri, 15 Jan 2027 07:59:00 GMT", 0),
        ("Fri, 99 Jan 2027 07:59:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, seconds: int | None) -> None:
    assert retry_after_seconds(header, now=NOW) == seconds


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [
        (429, "3", 3),
        (429, "", 1),
        (429, "whenever", 1),
        (503, "3", 3),
        (503, "", None),
        (404, "3", None),
        (200, "3", None),
    ],
)
def test_the_delay_that_an_answer_asks_for(status: int, header: str, seconds: int | None) -> None:
    assert retry_delay_seconds(status, header, now=NOW) == seconds


REFUSED = ConnectionRefused("no server")
BROKEN = ConnectionFailed("reset by peer", reset=True)
SLOW = ConnectionFailed("no connection in time")
CONFLICT = Conflict(409, "Conflict", "changed")


def _server(code: int) -> ServerError:
    return ServerError(code, "x", "x")


@pytest.mark.parametrize(
    ("retry", "retryable"),
    [
        (Retry.ALWAYS, {REFUSED, BROKEN, CONFLICT, 500, 503, 504}),
        (Retry.IF_VERSION_CHECKED, {REFUSED, BROKEN, 500, 503, 504}),
        (Retry.IF_REFUSED, {REFUSED, 500, 503}),
        (Retry.IF_NOT_SENT, {REFUSED}),
    ],
)
def test_errors_that_allow_a_retry(retry: Retry, retryable: set[object]) -> None:
    failures = {code: _server(code) for code in (500, 501, 503, 504)} | {
        failure: failure
        for failure in (REFUSED, BROKEN, SLOW, CONFLICT, Forbidden(403, "Forbidden", "no"))
    }
    found = {name for name, error in failures.items() if is_retryable(error, retry)}
    assert found == retryable
