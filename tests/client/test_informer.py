"""The promises of an informer to its handlers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
from collections.abc import AsyncIterator
from typing import NoReturn

import msgspec
import pytest

from scheduler.api.core import Pod
from scheduler.client import PODS, InformerFactory, RestClient, connection_to
from scheduler.client.decoding import EventType, WatchEvent
from scheduler.client.errors import ClientError
from scheduler.client.informer import Informer, Required
from scheduler.client.kinds import resource_named
from scheduler.metrics import SchedulerMetrics
from scheduler.testing import VirtualClock
from tests.client.objects import bookmark_json, event_json, pod, pod_json
from tests.client.scripted_server import ScriptedServer, Stream
from tests.client.scripted_source import (
    EXPIRED,
    TOO_LARGE,
    Listed,
    ScriptedSource,
    Watched,
    added,
    bookmark,
    deleted,
    end_of_initial_events,
    modified,
)


class Listener:
    """Records the calls of its handlers."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_add(self, obj: Pod, /, *, is_initial: bool) -> None:
        self.heard.append(f"add {shown(obj)}{' initial' if is_initial else ''}")

    def on_update(self, old: Pod, new: Pod) -> None:
        self.heard.append(f"update {shown(old)} to {shown(new)}")

    def on_delete(self, obj: Pod, /, *, final_state_unknown: bool) -> None:
        self.heard.append(f"delete {shown(obj)}{' unseen' if final_state_unknown else ''}")

    def listen(self, informer: Informer[Pod]) -> Listener:
        informer.add_event_handler(
            on_add=self.on_add, on_update=self.on_update, on_delete=self.on_delete
        )
        return self


def shown(obj: Pod) -> str:
    return f"{obj.metadata.name}@{obj.metadata.resource_version}"


class Rig:
    def __init__(self, *script: Listed | Watched, **options: object) -> None:
        self.clock = VirtualClock()
        self.source = ScriptedSource(*script, clock=self.clock)
        self.informer: Informer[Pod] = Informer(
            self.source,
            name="pods",
            clock=self.clock,
            rng=random.Random(1),
            **options,  # type: ignore[arg-type]
        )

    @contextlib.asynccontextmanager
    async def running(self, seconds: float = 0) -> AsyncIterator[Informer[Pod]]:
        task = asyncio.create_task(self.informer.run())
        await self.clock.advance(seconds)
        yield self.informer
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def full(
    version: str, *pods: tuple[str, str], then: tuple[WatchEvent[Pod], ...] = (), end: object = ""
) -> Watched:
    initial = [added(*each) for each in pods]
    ending: ClientError | str = end or "hold"  # type: ignore[assignment]
    return Watched((*initial, end_of_initial_events(version), *then), then=ending)


async def test_handlers_are_called_for_everything_in_order() -> None:
    events = (modified("a", "3"), added("c", "4"), deleted("b", "5"), bookmark("9"))
    rig = Rig(full("2", ("a", "1"), ("b", "2"), then=events))
    first, second = Listener().listen(rig.informer), Listener().listen(rig.informer)
    async with rig.running() as informer:
        assert informer.has_synced
        assert informer.last_resource_version == "9"
        assert informer.lister.list() == [pod("a", "3"), pod("c", "4")]

    assert first.heard == second.heard
    assert first.heard == [
        "add a@1 initial",
        "add b@2 initial",
        "update a@1 to a@3",
        "add c@4",
        "delete b@5",
    ]


async def test_it_has_synced_once_the_first_list_has_been_delivered() -> None:
    rig = Rig(full("1", ("a", "1")))
    synced_when_told: list[bool] = []
    rig.informer.add_event_handler(
        on_add=lambda _, *, is_initial: synced_when_told.append(rig.informer.has_synced)
    )
    waiting = asyncio.create_task(rig.informer.wait_for_sync())
    synced = [rig.informer.has_synced]
    async with rig.running():
        synced.append(rig.informer.has_synced)
        assert waiting.done()

    assert (synced, synced_when_told) == ([False, True], [False])


async def test_a_first_list_without_anything_is_a_first_list() -> None:
    async with Rig(full("1")).running() as informer:
        assert informer.has_synced


async def test_the_store_is_never_behind_the_handlers() -> None:
    rig = Rig(full("1", ("a", "1"), ("b", "1"), then=(modified("a", "3"),)))
    seen: list[object] = []
    rig.informer.add_event_handler(
        on_add=lambda obj, *, is_initial: seen.append(len(rig.informer.lister.list())),
        on_update=lambda old, new: seen.append(rig.informer.lister.get("a", "default") == new),
    )
    async with rig.running():
        pass

    assert seen == [2, 2, True]


async def test_a_repeated_event_is_handled_once() -> None:
    """A watch that repeats itself, and the list after a pause, bring the same versions again."""
    again = (added("a", "1"), modified("a", "1"), modified("a", "2"), modified("a", "2"))
    rig = Rig(full("1", ("a", "1"), then=again, end=EXPIRED), full("2", ("a", "2")))
    listener = Listener().listen(rig.informer)
    async with rig.running(2):
        pass

    assert listener.heard == ["add a@1 initial", "update a@1 to a@2"]


async def test_objects_that_vanished_between_lists_are_deleted_first() -> None:
    rig = Rig(
        full("5", ("a", "1"), ("b", "2"), ("c", "3"), end=EXPIRED),
        full("9", ("b", "2"), ("c", "8"), ("d", "9")),
    )
    listener = Listener().listen(rig.informer)
    async with rig.running(2):
        pass

    assert listener.heard[3:] == ["delete a@1 unseen", "update c@3 to c@8", "add d@9"]


async def test_after_the_server_lost_its_history_every_object_is_updated() -> None:
    """Version 2 of before and version 2 of now may be two different things."""
    rig = Rig(
        full("500", ("a", "2"), ("b", "400"), end=EXPIRED),
        Watched(then=TOO_LARGE),
        full("3", ("a", "2")),
    )
    listener = Listener().listen(rig.informer)
    async with rig.running(2):
        pass

    assert listener.heard[2:] == ["delete b@400 unseen", "update a@2 to a@2"]


async def test_a_deletion_of_an_unknown_object_is_not_handled() -> None:
    rig = Rig(full("1", then=(deleted("x", "2"), deleted("x", "3"))))
    listener = Listener().listen(rig.informer)
    async with rig.running():
        pass

    assert listener.heard == []


async def test_another_object_of_the_same_name_is_an_update_if_the_deletion_was_missed() -> None:
    reborn = WatchEvent(EventType.ADDED, pod("a", "9", uid="other"))
    again = Watched((reborn, end_of_initial_events("9")), then="hold")
    rig = Rig(full("5", ("a", "1"), end=EXPIRED), again)
    uids: list[tuple[str, str]] = []
    rig.informer.add_event_handler(
        on_update=lambda old, new: uids.append((old.metadata.uid, new.metadata.uid))
    )
    async with rig.running(2):
        pass

    assert uids == [("uid-a", "other")]


async def test_a_failing_handler_does_not_affect_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise LookupError("bug in a handler")

    rig = Rig(full("1", ("a", "1"), then=(modified("a", "2"), deleted("a", "3"))))
    rig.informer.add_event_handler(on_add=fail, on_update=fail, on_delete=fail)
    listener = Listener().listen(rig.informer)
    with caplog.at_level(logging.ERROR):
        async with rig.running() as informer:
            assert informer.has_synced

    assert listener.heard == ["add a@1 initial", "update a@1 to a@2", "delete a@3"]
    assert [record.message for record in caplog.records] == [
        f"pods: a handler's {callback} failed on default/a"
        for callback in ("on_add", "on_update", "on_delete")
    ]


@pytest.mark.parametrize(
    ("required", "waits_for_absent", "waits_for_forbidden"),
    [(Required.NO, False, False), (Required.IF_SERVED, False, True), (Required.YES, True, True)],
)
async def test_a_kind_is_waited_for_as_it_is_required(
    required: Required, *, waits_for_absent: bool, waits_for_forbidden: bool
) -> None:
    for is_served, waits in ((False, waits_for_absent), (True, waits_for_forbidden)):
        informer = Rig().informer
        informer.required = required
        informer.unavailable(is_served=is_served)
        assert not informer.is_available
        assert informer.may_start is not waits


async def test_other_tasks_get_their_turn_during_a_long_delivery() -> None:
    rig = Rig(full("1", *((f"p{number}", "1") for number in range(2000))))
    told = 0
    told_at_turn: list[int] = []

    def count(obj: Pod, /, *, is_initial: bool) -> None:
        nonlocal told
        told += 1

    async def watch_the_clock() -> None:
        while told < 2000:
            told_at_turn.append(told)
            await asyncio.sleep(0)

    rig.informer.add_event_handler(on_add=count)
    watcher = asyncio.create_task(watch_the_clock())
    async with rig.running():
        await watcher

    assert {500, 1000, 1500} <= set(told_at_turn)


async def test_a_transform_is_applied_before_an_object_is_stored() -> None:
    def without_uid(obj: Pod) -> Pod:
        return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, uid=""))

    events = (modified("a", "2"), added("b", "3"), deleted("a", "4"))
    rig = Rig(full("1", ("a", "1"), then=events), transform=without_uid)
    uids: list[str] = []
    rig.informer.add_event_handler(
        on_add=lambda obj, *, is_initial: uids.append(obj.metadata.uid),
        on_update=lambda old, new: uids.append(new.metadata.uid),
        on_delete=lambda obj, *, final_state_unknown: uids.append(obj.metadata.uid),
    )
    async with rig.running() as informer:
        assert [obj.metadata.uid for obj in informer.lister.list()] == [""]

    assert uids == [""] * 4


# --- the factory ---

POD_WATCH = Stream(
    [event_json("ADDED", pod_json("a")), bookmark_json("1", initial_events_end=True)], then="hold"
)


@contextlib.asynccontextmanager
async def factory(*script: Stream) -> AsyncIterator[tuple[InformerFactory, ScriptedServer]]:
    clock = VirtualClock()
    async with (
        ScriptedServer(*script) as server,
        RestClient(connection_to(server.url), user_agent="kubesched/test", clock=clock) as client,
    ):
        yield InformerFactory(client, clock=clock, rng=random.Random(1)), server


async def test_a_factory_runs_its_informers_until_their_owner_ends() -> None:
    async with factory(POD_WATCH) as (informers, server):
        pods = informers.informer(PODS, field_selector="status.phase!=Failed")
        assert pods.name == "pods where status.phase!=Failed"
        assert not informers.has_synced

        async def own() -> None:
            async with asyncio.TaskGroup() as group:
                informers.start(group)

        owner = asyncio.create_task(own())
        await informers.wait_for_sync()
        assert informers.has_synced
        owner.cancel()
        await asyncio.gather(owner, return_exceptions=True)

        assert pods.lister.list("default") == [pod("a")]
        assert server.asked[0].path == "/api/v1/pods"
        assert server.asked[0].query["fieldSelector"] == "status.phase!=Failed"


async def test_a_factory_with_metrics_measures_each_list_and_each_change() -> None:
    seconds = itertools.count()
    metrics = SchedulerMetrics(lambda: next(seconds))
    async with factory(POD_WATCH) as (informers, _):
        pods = informers.informer(PODS)
        informers.informer(resource_named("storageclasses"))
        informers.measure(metrics)
        runs = asyncio.create_task(pods.run())
        await pods.wait_for_sync()
        pods.put(pod("b"))
        pods.delete(pod("b"))
        runs.cancel()
        of_pods = ("kube-scheduler", "", "v1", "pods")
        of_classes = ("kube-scheduler", "storage.k8s.io", "v1", "storageclasss")
        latency = metrics.informer_processing_latency.by_labels
        assert {key: (times.total, times.sum) for key, times in latency.items()} == {
            of_pods: (3, 3.0),
            of_classes: (0, 0.0),
        }
        assert metrics.informer_queued_items.read() == [(of_pods, 0), (of_classes, 0)]
        assert metrics.informer_store_resource_version.read() == [(of_pods, 1)]


async def test_a_bug_in_an_informer_reaches_its_owner() -> None:
    def fail(obj: Pod) -> NoReturn:
        raise LookupError("bug in a transform")

    async def own() -> None:
        async with factory(POD_WATCH) as (informers, _), asyncio.TaskGroup() as group:
            informers.informer(PODS, transform=fail)
            informers.start(group)
            await informers.wait_for_sync()

    with pytest.raises(ExceptionGroup) as caught:
        await own()

    assert caught.group_contains(LookupError, match="bug in a transform")
