"""Retries of writes after each kind of failure, with a real server.

The rule is the table in `scheduler.client.retries`; each of its rows is here, over HTTP.
"""

import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine

import pytest

from scheduler.api.core import ObjectMeta
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.client import ApiError, ConnectionFailed, ConnectionRefused, RestClient
from scheduler.client.connection import connection_to
from scheduler.framework.types import Condition
from scheduler.testing import make_pod
from tests.client.objects import InstantClock
from tests.client.scripted_server import Answer, Reset, Script, ScriptedServer, status

POD = make_pod("pod")
METADATA = ObjectMeta(name="x", namespace="default", uid="u", resource_version="7")
CONDITION = Condition("PodScheduled", "False", "Unschedulable", "no")

WRITES: dict[str, Callable[[ApiDispatcher], Coroutine[None, None, object]]] = {
    "bind": lambda dispatcher: dispatcher.bind(POD, "node"),
    "delete": lambda dispatcher: dispatcher.delete_pod(POD),
    "status": lambda dispatcher: dispatcher.patch_pod_status(
        POD, condition=CONDITION, nominating_info=None
    ),
    "volume": lambda dispatcher: dispatcher.update_persistent_volume(
        PersistentVolume(metadata=METADATA)
    ),
    "claim": lambda dispatcher: dispatcher.update_persistent_volume_claim(
        PersistentVolumeClaim(metadata=METADATA)
    ),
}
MUST_NOT_REPEAT = ["bind", "delete"]
MAY_REPEAT = ["status", "volume", "claim"]
SOON = [0.01, 0.05, 0.25]


def _refusal(code: int, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status(code, "x", "no"), code, named)


@contextlib.asynccontextmanager
async def _dispatching(
    *script: Script,
) -> AsyncIterator[tuple[ApiDispatcher, ScriptedServer, InstantClock]]:
    clock = InstantClock()
    async with (
        ScriptedServer(*script) as server,
        RestClient(
            connection_to(server.url), user_agent="kubesched/test", clock=clock, qps=-1
        ) as client,
    ):
        yield ApiDispatcher(client, clock), server, clock


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("code", [429, 500, 503, 504])
async def test_every_write_is_retried_after_the_delay_of_retry_after(write: str, code: int) -> None:
    later = _refusal(code, Retry_After="3")
    async with _dispatching(later, later, Answer({})) as (dispatcher, server, clock):
        await WRITES[write](dispatcher)
        assert len(server.asked) == 3
        assert clock.slept == [3, 3]


@pytest.mark.parametrize("write", WRITES)
async def test_every_write_is_sent_again_a_second_after_a_429_without_retry_after(
    write: str,
) -> None:
    async with _dispatching(_refusal(429), Answer({})) as (dispatcher, server, clock):
        await WRITES[write](dispatcher)
        assert len(server.asked) == 2
        assert clock.slept == [1]


@pytest.mark.parametrize("misfortune", [_refusal(500), _refusal(503), _refusal(504), Reset()])
@pytest.mark.parametrize("write", MAY_REPEAT)
async def test_a_write_that_may_repeat_is_sent_again_soon(write: str, misfortune: Script) -> None:
    script = [misfortune] * 3
    async with _dispatching(*script, Answer({})) as (dispatcher, server, clock):
        await WRITES[write](dispatcher)
        assert len({asked.body for asked in server.asked}) == 1
        assert len(server.asked) == 4
        assert clock.slept == SOON


@pytest.mark.parametrize("misfortune", [_refusal(500), Reset()])
@pytest.mark.parametrize("write", MAY_REPEAT)
async def test_four_times_is_enough(write: str, misfortune: Script) -> None:
    script = [misfortune] * 9
    async with _dispatching(*script) as (dispatcher, server, _):
        with pytest.raises((ApiError, ConnectionFailed)):
            await WRITES[write](dispatcher)
        assert len(server.asked) == 4


@pytest.mark.parametrize("misfortune", [_refusal(500), _refusal(503), _refusal(504), Reset()])
@pytest.mark.parametrize("write", MUST_NOT_REPEAT)
async def test_a_write_that_must_not_repeat_is_sent_once(write: str, misfortune: Script) -> None:
    async with _dispatching(misfortune, Answer({})) as (dispatcher, server, clock):
        with pytest.raises((ApiError, ConnectionFailed)):
            await WRITES[write](dispatcher)
        # After a binding whose answer is lost the pod is read.
        assert len([asked for asked in server.asked if asked.method != "GET"]) == 1
        assert clock.slept == []


@pytest.mark.parametrize("write", WRITES)
async def test_every_write_is_retried_after_connection_refused(write: str) -> None:
    clock = InstantClock()
    with socket.socket() as bound:
        # Bound and not listening, so that no other process gets the port.
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        async with RestClient(
            connection_to(url), user_agent="kubesched/test", clock=clock, qps=-1
        ) as client:
            with pytest.raises(ConnectionRefused):
                await WRITES[write](ApiDispatcher(client, clock))
    assert clock.slept == SOON


@pytest.mark.parametrize(("write", "times"), [("status", 4), ("volume", 1), ("bind", 1)])
async def test_only_writes_without_a_version_are_retried_after_a_conflict(
    write: str, times: int
) -> None:
    conflict = Answer(status(409, "Conflict", "changed meanwhile"), 409)
    async with _dispatching(*[conflict] * 9) as (dispatcher, server, _):
        with pytest.raises(ApiError):
            await WRITES[write](dispatcher)
        assert len(server.asked) == times


@pytest.mark.parametrize("write", WRITES)
async def test_a_refusal_for_good_is_final(write: str) -> None:
    async with _dispatching(_refusal(403, Retry_After="1")) as (dispatcher, server, _):
        with pytest.raises(ApiError):
            await WRITES[write](dispatcher)
        assert len(server.asked) == 1
