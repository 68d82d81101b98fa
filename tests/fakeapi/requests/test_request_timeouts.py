"""The parameter `timeout` of a request: a duration of Go's, or a refusal."""

import pytest

from fakeapi.types.durations import parse_duration

from ..api_client import ApiClient
from ..objects import CONFIG_MAPS


@pytest.mark.parametrize("timeout", ["", "0", "5s", "1h15m30.918s"])
async def test_a_duration_is_accepted(api: ApiClient, timeout: str) -> None:
    assert (await api.get(CONFIG_MAPS, timeout=timeout)).code == 200


@pytest.mark.parametrize(
    ("timeout", "why"),
    [
        ("invalid", 'time: invalid duration "invalid"'),
        ("5", 'time: missing unit in duration "5"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'),
        ("-", 'time: invalid duration "-"'),
        ("1s.", 'time: invalid duration "1s."'),
    ],
)
async def test_an_invalid_timeout_is_refused_with_the_message_of_go(
    api: ApiClient, timeout: str, why: str
) -> None:
    reply = await api.get(CONFIG_MAPS, timeout=timeout)
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert reply.message == f"invalid timeout specified in the request URL - {why}"


async def test_a_watch_has_no_deadline(api: ApiClient) -> None:
    async with api.watch(CONFIG_MAPS, timeout="invalid", timeoutSeconds=1):
        pass


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h1m1s", 3661.0),
        ("-2ms", -0.002),
        (".5s", 0.5),
        ("+1.s", 1.0),
        ("3\u00b5s", 3e-6),
        ("0", 0.0),
    ],
)
def test_a_timeout_is_a_go_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)
