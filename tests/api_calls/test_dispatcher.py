"""Writes: merged while they wait, bounded, made once or a few times."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler.api.core import ObjectMeta, Pod
from scheduler.api.pod_groups import PodGroup
from scheduler.api_calls import PodStatusPatchCall
from scheduler.api_calls.dispatcher import ApiDispatcher
from scheduler.client import (
    ApiError,
    ClientError,
    Conflict,
    ConnectionFailed,
    ConnectionRefused,
    Forbidden,
    NotFound,
    ServerError,
)
from scheduler.framework.types import Condition, NominatingInfo, NominatingMode
from scheduler.testing import VirtualClock, make_pod

Outcome = asyncio.Future[object]


POD = make_pod("pod")
CONDITION = Condition("PodScheduled", "False", "Unschedulable", "no")


class ScriptedClient:
    """Answers writes from a list of failures, None for success; then succeeds."""

    def __init__(self, clock: VirtualClock, *failures: Exception | None) -> None:
        self._clock = clock
        self._failures = list(failures)
        self.patches: list[tuple[str, Any, dict[str, str]]] = []
        self.bound: list[str] = []
        self.deleted: list[object] = []
        #: What a look at the pod shows.
        self.pod: Pod | Exception = NotFound(404, "NotFound", "gone")
        self.seconds: list[float] = []
        self.hold: asyncio.Event | None = None
        self.hold_patches: asyncio.Event | None = None
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

    async def get(self, resource: object, name: str, **options: str) -> Pod:
        if isinstance(self.pod, Exception):
            raise self.pod
        return self.pod

    async def patch(self, resource: object, name: str, patch: Any, **options: str) -> None:
        self.patches.append((name, patch, options))
        if self.hold_patches is not None:
            await self.hold_patches.wait()
        self._answer()

    async def delete(self, resource: object, name: str, **options: str) -> None:
        self.deleted.append((name, options))
        self._answer()

    def _answer(self) -> None:
        self.seconds.append(round(self._clock.monotonic(), 3))
        failure = self._failures.pop(0) if self._failures else None
        if failure is not None:
            raise failure


def _nomination(node_name: str) -> NominatingInfo:
    return NominatingInfo(node_name, NominatingMode.OVERRIDE)


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
    ("failure", "reasons"),
    [(None, ["Scheduled"]), (Forbidden(403, "Forbidden", "no"), ["Scheduled", "Unschedulable"])],
)
async def test_a_group_reported_as_scheduled_stays_so_before_the_informer_shows_it(
    failure: Exception | None, reasons: list[str]
) -> None:
    dispatcher, client, clock = _dispatcher(failure)
    group = PodGroup(metadata=ObjectMeta(name="g", namespace="default", uid="1"))
    for status, reason in (("True", "Scheduled"), ("False", "Unschedulable")):
        condition = Condition("PodGroupScheduled", status, reason, "")
        work = asyncio.ensure_future(dispatcher.patch_pod_group_status(group, condition=condition))
        await clock.advance(10)
        with contextlib.suppress(ClientError):
            await work
    sent = [patch["status"]["conditions"][0]["reason"] for _, patch, _ in client.patches]
    assert sent == reasons


PASSING = [
    _server_error(500),
    _server_error(503),
    _server_error(504),
    ConnectionRefused("nobody there"),
    ConnectionFailed("reset", reset=True),
]


async def test_a_patch_returns_false_if_the_pod_is_gone() -> None:
    dispatcher, client, clock = _dispatcher(None, NotFound(404, "NotFound", "gone"))
    assert await _patched(dispatcher, clock)
    assert not await _patched(dispatcher, clock)
    assert len(client.patches) == 2


async def test_a_pod_is_deleted_by_its_name_and_with_the_grace_it_asks_for() -> None:
    dispatcher, client, _ = _dispatcher()
    assert await dispatcher.delete_pod(POD)
    assert client.deleted == [("pod", {"namespace": "default"})]


async def test_a_deletion_returns_false_if_the_pod_is_gone_and_is_not_retried() -> None:
    dispatcher, client, _ = _dispatcher(NotFound(404, "NotFound", "gone"), _server_error(503))
    assert not await dispatcher.delete_pod(POD)
    with pytest.raises(ServerError):
        await dispatcher.delete_pod(POD)
    assert len(client.deleted) == 2


@pytest.mark.parametrize("failure", PASSING[:3] + PASSING[4:])
async def test_a_binding_whose_answer_is_lost_has_succeeded_if_the_pod_is_bound(
    failure: Exception,
) -> None:
    dispatcher, client, _ = _dispatcher(failure)
    client.pod = make_pod("pod", node_name="node")
    await dispatcher.bind(POD, "node")
    assert len(client.seconds) == 1


@pytest.mark.parametrize(
    "found",
    [
        make_pod("pod"),
        make_pod("pod", node_name="another"),
        make_pod("pod", node_name="node", uid="another"),
        ConnectionRefused("nobody there"),
    ],
)
async def test_a_binding_whose_answer_is_lost_has_failed_if_the_pod_is_not_bound(
    found: Pod | Exception,
) -> None:
    dispatcher, client, _ = _dispatcher(_server_error(500))
    client.pod = found
    with pytest.raises(ServerError):
        await dispatcher.bind(POD, "node")


async def test_a_binding_that_was_refused_has_failed_even_if_the_pod_is_bound() -> None:
    dispatcher, client, _ = _dispatcher(Conflict(409, "Conflict", "already assigned"))
    client.pod = make_pod("pod", node_name="node")
    with pytest.raises(Conflict):
        await dispatcher.bind(POD, "node")


@pytest.mark.parametrize(
    "failure", [Conflict(409, "Conflict", "already assigned"), _server_error(500)]
)
async def test_a_pod_that_is_bound_after_a_failed_binding_is_not_reported_as_not_scheduled(
    failure: Exception,
) -> None:
    dispatcher, client, clock = _dispatcher(failure)
    client.pod = ConnectionRefused("it restarts")
    with pytest.raises(type(failure)):
        await dispatcher.bind(POD, "node")
    client.pod = make_pod("pod", node_name="node")
    assert await _patched(dispatcher, clock)
    assert client.patches == []


async def test_a_pod_whose_binding_failed_is_reported_in_the_version_that_was_read() -> None:
    dispatcher, client, clock = _dispatcher(_server_error(500), Conflict(409, "Conflict", "late"))
    client.pod = make_pod("pod", resource_version="7")
    with pytest.raises(ServerError):
        await dispatcher.bind(POD, "node")
    with pytest.raises(Conflict):
        await _patched(dispatcher, clock)
    ((_, patch, _),) = client.patches
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert patch["status"]["conditions"][0]["status"] == "False"


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def _binds(dispatcher: ApiDispatcher, count: int) -> list[asyncio.Future[None]]:
    """Bindings of so many pods, pod-0 first."""
    pods = [make_pod(f"pod-{i}") for i in range(count)]
    return [asyncio.ensure_future(dispatcher.bind(pod, "node")) for pod in pods]


async def test_the_loop_holds_back_while_the_backlog_is_long() -> None:
    dispatcher, client, _ = _dispatcher()
    client.hold = asyncio.Event()
    binds = _binds(dispatcher, 500)
    await asyncio.sleep(0)
    room = asyncio.ensure_future(dispatcher.wait_for_room())
    await asyncio.sleep(0)
    assert dispatcher.backlog == 500
    assert not room.done()
    client.hold.set()
    await asyncio.gather(*binds, room)
    assert (len(client.bound), dispatcher.backlog) == (500, 0)


async def test_only_so_many_writes_are_under_way_at_once_and_they_are_made_in_order() -> None:
    dispatcher, client, _ = _dispatcher()
    client.hold = asyncio.Event()
    binds = _binds(dispatcher, 150)
    await _settle()
    client.hold.set()
    await asyncio.gather(*binds)
    assert client.most_at_once == 32
    assert client.bound == [f"pod-{i}" for i in range(150)]


@contextlib.asynccontextmanager
async def _no_places() -> AsyncIterator[tuple[ApiDispatcher, ScriptedClient, list[Outcome]]]:
    """All places are taken until the block ends; what the calls begun in it came to."""
    dispatcher, client, _ = _dispatcher()
    client.hold = asyncio.Event()
    binds = _binds(dispatcher, 32)
    await _settle()
    work: list[Outcome] = []
    yield dispatcher, client, work
    await _settle()
    client.hold.set()
    await asyncio.gather(*binds)
    await asyncio.gather(*work, return_exceptions=True)
    assert dispatcher.backlog == 0


def _patch(dispatcher: ApiDispatcher, **wishes: object) -> Outcome:
    wishes = {"condition": None, "nominating_info": None, **wishes}
    return asyncio.ensure_future(dispatcher.patch_pod_status(POD, **wishes))


async def test_status_patches_that_wait_become_one() -> None:
    async with _no_places() as (dispatcher, client, work):
        work += [
            _patch(dispatcher, condition=CONDITION, nominating_info=_nomination("a")),
            _patch(dispatcher, nominating_info=_nomination("b")),
            _patch(dispatcher, condition=CONDITION._replace(message="newer")),
        ]
    ((_, patch, _),) = client.patches
    assert patch["status"]["nominatedNodeName"] == "b"
    assert patch["status"]["conditions"][0]["message"] == "newer"
    assert [w.result() for w in work] == [True, True, True]


async def test_a_binding_takes_the_place_of_a_status_patch_that_waits() -> None:
    async with _no_places() as (dispatcher, client, work):
        work.append(_patch(dispatcher, condition=CONDITION))
        await _settle()
        work.append(asyncio.ensure_future(dispatcher.bind(POD, "node")))
    assert (client.patches, client.bound[-1]) == ([], "pod")
    assert work[0].result() is True


async def test_a_status_patch_is_needless_once_a_binding_waits() -> None:
    async with _no_places() as (dispatcher, client, work):
        work.append(asyncio.ensure_future(dispatcher.bind(POD, "node")))
        await _settle()
        assert await _patch(dispatcher, condition=CONDITION)
    assert (client.patches, client.bound[-1]) == ([], "pod")


async def test_a_victim_is_deleted_while_its_binding_is_under_way() -> None:
    dispatcher, client, _ = _dispatcher()
    client.hold = asyncio.Event()
    bind = asyncio.ensure_future(dispatcher.bind(POD, "node"))
    await _settle()
    assert await dispatcher.delete_pod(POD)
    assert ([name for name, _ in client.deleted], bind.done()) == (["pod"], False)
    client.hold.set()
    await bind


async def test_a_condition_of_another_sort_gives_way_to_nothing() -> None:
    async with _no_places() as (dispatcher, client, work):
        work.append(asyncio.ensure_future(dispatcher.bind(POD, "node")))
        await _settle()
        work.append(_patch(dispatcher, condition=CONDITION._replace(type="DisruptionTarget")))
    assert client.bound[-1] == "pod"
    assert client.patches[0][1]["status"]["conditions"][0]["type"] == "DisruptionTarget"


async def test_calls_for_one_pod_are_made_one_after_the_other() -> None:
    dispatcher, client, _ = _dispatcher()
    client.hold_patches = asyncio.Event()
    patch = _patch(dispatcher, condition=CONDITION)
    await _settle()
    bind = asyncio.ensure_future(dispatcher.bind(POD, "node"))
    await _settle()
    assert (len(client.patches), client.bound) == (1, [])
    client.hold_patches.set()
    await asyncio.gather(patch, bind)
    assert client.bound == ["pod"]


async def test_a_pod_made_again_is_bound_after_the_status_patches_for_the_old_one() -> None:
    """The patches name no uid, so a late one would be shown for the new pod."""
    dispatcher, client, _ = _dispatcher()
    client.hold_patches = asyncio.Event()
    patches = [
        _patch(dispatcher, condition=CONDITION),
        _patch(dispatcher, nominating_info=_nomination("a")),
    ]
    await _settle()
    bind = asyncio.ensure_future(dispatcher.bind(make_pod("pod", uid="new"), "node"))
    other = asyncio.ensure_future(dispatcher.bind(make_pod("other"), "node"))
    await _settle()
    assert client.bound == ["other"]
    client.hold_patches.set()
    await asyncio.gather(*patches, bind, other)
    assert client.bound == ["other", "pod"]


async def test_changes_of_the_patch_in_flight_are_not_sent_again() -> None:
    dispatcher, client, _ = _dispatcher()
    client.hold_patches = asyncio.Event()
    first = _patch(dispatcher, condition=CONDITION, nominating_info=_nomination("a"))
    await _settle()
    same = _patch(dispatcher, condition=CONDITION)
    await _settle()
    cleared = _patch(dispatcher, nominating_info=_nomination(""))
    await _settle()
    client.hold_patches.set()
    assert await asyncio.gather(first, same, cleared) == [True, True, True]
    assert [patch for _, patch, _ in client.patches][1:] == [
        {"status": {"nominatedNodeName": None}}
    ]


async def test_the_next_patch_contains_the_changes_of_a_failed_patch() -> None:
    dispatcher, client, _ = _dispatcher(Forbidden(403, "Forbidden", "no"))
    client.hold_patches = asyncio.Event()
    first = _patch(dispatcher, condition=CONDITION)
    await _settle()
    second = _patch(dispatcher, nominating_info=_nomination("a"))
    await _settle()
    client.hold_patches.set()
    with pytest.raises(Forbidden):
        await first
    assert await second
    assert client.patches[1][1]["status"].keys() == {"conditions", "nominatedNodeName"}


async def test_a_call_whose_caller_is_cancelled_is_not_made() -> None:
    async with _no_places() as (dispatcher, client, work):
        patch = _patch(dispatcher, condition=CONDITION)
        await _settle()
        patch.cancel()
        work.append(patch)
    assert client.patches == []


async def test_a_caller_cancelled_under_way_makes_room_for_the_next() -> None:
    dispatcher, client, _ = _dispatcher()
    client.hold_patches = asyncio.Event()
    patch = _patch(dispatcher, condition=CONDITION)
    await _settle()
    bind = asyncio.ensure_future(dispatcher.bind(POD, "node"))
    await _settle()
    patch.cancel()
    await bind
    assert dispatcher.backlog == 0


async def test_callers_cancelled_all_together_leave_nothing_behind() -> None:
    dispatcher, client, _ = _dispatcher()
    client.hold = asyncio.Event()
    binds = _binds(dispatcher, 150)
    await _settle()
    for bind in binds:
        bind.cancel()
    await asyncio.gather(*binds, return_exceptions=True)
    assert dispatcher.backlog == 0
    client.hold.set()
    await dispatcher.bind(POD, "node")
    assert client.bound == ["pod"]


async def test_a_patch_that_waits_is_dropped_once_the_pod_is_as_it_wants_it() -> None:
    async with _no_places() as (dispatcher, client, work):
        work += [_patch(dispatcher, condition=CONDITION)]
        await _settle()
        said = PodStatusPatchCall(POD, CONDITION, None).applied_to(POD)
        dispatcher.on_pod_update(POD, said)
    assert client.patches == []
    assert work[0].result() is True
