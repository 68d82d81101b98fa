"""Writes: bounded, made once or a few times, as upstream makes them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from scheduler.client import (
    ApiError,
    Conflict,
    ConnectionFailed,
    ConnectionRefused,
    Forbidden,
    NotFound,
    ServerError,
)
from scheduler.dispatcher import ApiDispatcher
from scheduler.framework.pod_status import Condition
from scheduler.testing import VirtualClock, make_pod

if TYPE_CHECKING:
    from scheduler.api.core import Pod

POD = make_pod("pod")
CONDITION = Condition("PodScheduled", "False", "Unschedulable", "no")


class ScriptedClient:
    """Answers writes from a list of failures, None for success; then succeeds."""

    def __init__(self, clock: VirtualClock, *failures: Exception | None) -> None:
        self._clock = clock
        self._failures = list(failures)
        self.patches: list[object] = []
        self.bound: list[str] = []
        self.deleted: list[object] = []
        self.seconds: list[float] = []
        self.hold: asyncio.Event | None = None
        self.under_way = 0
        self.most_at_once = 0

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        if self.hold is not None:
            await self.hold.wait()
        self.under_way -= 1
        self._answer()
        self.bound.append(pod.metadata.name)

    async def patch(self, resource: object, name: str, patch: object, **options: str) -> None:
        self.patches.append((name, patch, options))
        self._answer()

    async def delete(self, resource: object, name: str, **options: str) -> None:
        self.deleted.append((name, options))
        self._answer()

    def _answer(self) -> None:
        self.seconds.append(round(self._clock.monotonic(), 3))
        failure = self._failures.pop(0) if self._failures else None
        if failure is not None:
            raise failure


def _server_error(status: int) -> ApiError:
    return ServerError(status, "InternalError", "a bad moment")


def _dispatcher(*failures: Exception | None) -> tuple[ApiDispatcher, ScriptedClient, VirtualClock]:
    clock = VirtualClock()
    client = ScriptedClient(clock, *failures)
    return ApiDispatcher(client, clock), client, clock


async def _patched(dispatcher: ApiDispatcher, clock: VirtualClock) -> bool:
    work = asyncio.ensure_future(
        dispatcher.patch_pod_status(POD, condition=CONDITION, nominating_info=None)
    )
    await clock.advance(10)
    return await work


async def test_a_condition_goes_to_the_status_as_a_strategic_merge() -> None:
    dispatcher, client, clock = _dispatcher()
    await _patched(dispatcher, clock)
    ((name, patch, options),) = client.patches
    assert (name, options["subresource"], options["namespace"]) == ("pod", "status", "default")
    assert options["content_type"] == "application/strategic-merge-patch+json"
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "failure",
    [
        _server_error(500),
        _server_error(503),
        Conflict(409, "Conflict", "changed meanwhile"),
        ConnectionRefused("nobody there"),
    ],
)
async def test_a_status_patch_is_made_four_times_while_the_server_has_a_bad_moment(
    failure: Exception,
) -> None:
    dispatcher, client, clock = _dispatcher(failure, failure, failure, failure)
    with pytest.raises(type(failure)):
        await _patched(dispatcher, clock)
    assert client.seconds == [0.0, 0.01, 0.06, 0.31]


async def test_a_passing_failure_is_forgotten() -> None:
    dispatcher, client, clock = _dispatcher(_server_error(503))
    await _patched(dispatcher, clock)
    assert len(client.patches) == 2


@pytest.mark.parametrize(
    "failure",
    [Forbidden(403, "Forbidden", "no"), _server_error(504), ConnectionFailed("reset", reset=True)],
)
async def test_any_other_failure_is_not_tried_again(failure: Exception) -> None:
    dispatcher, client, clock = _dispatcher(failure)
    with pytest.raises(type(failure)):
        await _patched(dispatcher, clock)
    assert len(client.patches) == 1


async def test_a_patch_tells_whether_the_pod_is_still_there() -> None:
    dispatcher, client, clock = _dispatcher(None, NotFound(404, "NotFound", "gone"))
    assert await _patched(dispatcher, clock)
    assert not await _patched(dispatcher, clock)
    assert len(client.patches) == 2


async def test_a_pod_is_deleted_by_its_name_and_with_the_grace_it_asks_for() -> None:
    dispatcher, client, _ = _dispatcher()
    assert await dispatcher.delete_pod(POD)
    assert client.deleted == [("pod", {"namespace": "default"})]


async def test_a_deletion_tells_whether_the_pod_was_still_there_and_is_not_repeated() -> None:
    dispatcher, client, _ = _dispatcher(NotFound(404, "NotFound", "gone"), _server_error(503))
    assert not await dispatcher.delete_pod(POD)
    with pytest.raises(ServerError):
        await dispatcher.delete_pod(POD)
    assert len(client.deleted) == 2


async def test_a_binding_is_never_repeated() -> None:
    dispatcher, client, _ = _dispatcher(_server_error(503))
    with pytest.raises(ServerError):
        await dispatcher.bind(POD, "node")
    assert len(client.seconds) == 1


async def test_the_loop_holds_back_while_the_backlog_is_long() -> None:
    dispatcher, client, _ = _dispatcher()
    client.hold = asyncio.Event()
    binds = [asyncio.ensure_future(dispatcher.bind(POD, "node")) for _ in range(500)]
    await asyncio.sleep(0)
    room = asyncio.ensure_future(dispatcher.wait_for_room())
    await asyncio.sleep(0)
    assert dispatcher.statistics().backlog == 500
    assert not room.done()
    client.hold.set()
    await asyncio.gather(*binds, room)
    assert dispatcher.statistics() == (500, 0)


async def test_only_so_many_writes_are_under_way_at_once() -> None:
    dispatcher, client, _ = _dispatcher()
    client.hold = asyncio.Event()
    binds = [asyncio.ensure_future(dispatcher.bind(POD, "node")) for _ in range(150)]
    for _ in range(5):
        await asyncio.sleep(0)
    client.hold.set()
    await asyncio.gather(*binds)
    assert (client.most_at_once, len(client.bound)) == (100, 150)
