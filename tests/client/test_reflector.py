"""The reflector's state machine, step by step, on a virtual clock.

The cases follow `reflector_test.go` and `reflector_watchlist_test.go` of client-go v0.36.3; each
names the one whose outcome it restates.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator

import pytest

from scheduler.api.core import Pod
from scheduler.client.decoding import WatchEvent
from scheduler.client.errors import ClientError, ConnectionRefused, StreamInterrupted
from scheduler.client.kinds import object_key
from scheduler.client.reflector import Reflector
from scheduler.testing import VirtualClock
from tests.client.scripted_source import (
    BROKEN,
    BUSY,
    EXPIRED,
    INVALID,
    TOO_LARGE,
    Listed,
    ScriptedSource,
    Watched,
    added,
    bookmark,
    deleted,
    end_of_initial_events,
    modified,
    refusal,
)

Events = tuple[WatchEvent[Pod], ...]


REFUSED = ConnectionRefused("connection refused")
INTERRUPTED = StreamInterrupted("reset", reset=True)
HOLD = Watched(then="hold")


class RecordingStore:
    """The objects by key, and everything that was done to them."""

    def __init__(self) -> None:
        self.pods: dict[str, str] = {}
        self.log: list[str] = []

    async def replace(self, objects: list[Pod], *, restarted: bool) -> None:
        self.pods = {object_key(obj): obj.metadata.resource_version for obj in objects}
        anew = " anew" if restarted else ""
        self.log.append(f"replace {len(objects)}{anew}")

    def put(self, obj: Pod) -> None:
        self.pods[object_key(obj)] = obj.metadata.resource_version
        self.log.append(f"put {obj.metadata.name} {obj.metadata.resource_version}")

    def delete(self, obj: Pod) -> None:
        self.pods.pop(object_key(obj), None)
        self.log.append(f"delete {obj.metadata.name}")

    def unavailable(self, *, is_served: bool) -> None:
        self.log.append("unavailable")


class NoJitter(random.Random):
    """Draws 0 only: pauses are 0.8 s, 1.6 s, 3.2 s ... exactly."""

    def random(self) -> float:
        return 0.0


class Rig:
    """A reflector over a script, running."""

    def __init__(
        self,
        *script: Listed | Watched,
        store: RecordingStore | None = None,
        watch_list: bool = True,
    ) -> None:
        self.clock = VirtualClock()
        self.source = ScriptedSource(*script, clock=self.clock, watch_list=watch_list)
        self.store = store or RecordingStore()
        self.reflector: Reflector[Pod] = Reflector(
            self.source,
            self.store,
            name="pods",
            clock=self.clock,
            rng=NoJitter(),
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Rig]:
        task = asyncio.create_task(self.reflector.run())
        await self.clock.advance(0)
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert self.source.open_watches == 0

    async def after(self, seconds: float) -> list[str]:
        """Return the requests after some more time."""
        async with self.running():
            await self.clock.advance(seconds)
            return self.source.requests


def full(version: str, *events: object, then: ClientError | str = "hold") -> Watched:
    """A watch-list of one pod `a`, and what follows."""
    head = (added("a", "1"), end_of_initial_events(version))
    return Watched((*head, *events), then=then)  # type: ignore[arg-type]


# --- filling the store ---


async def test_initial_events_fill_the_store_at_their_bookmark_and_the_watch_goes_on() -> None:
    """TestWatchList: "prove that the reflector is synced after receiving a bookmark event"."""
    events = (added("a", "1"), added("b", "2"), end_of_initial_events("2"), modified("a", "3"))
    rig = Rig(Watched((*events, added("c", "4")), then="hold"))

    assert await rig.after(0) == ["WATCH-LIST"]
    assert rig.store.log == ["replace 2", "put a 3", "put c 4"]
    assert rig.reflector.last_resource_version == "4"
    _, options = rig.source.asked[0]
    assert options.allow_watch_bookmarks
    assert options.resource_version_match == "NotOlderThan"
    assert options.timeout_seconds is not None
    assert 300 <= options.timeout_seconds < 600


async def test_changes_among_the_initial_events_count() -> None:
    """TestWatchList: "check if Updates and Deletes events are propagated during streaming"."""
    initial = (
        added("a", "1"),
        added("b", "2"),
        modified("a", "3"),
        added("c", "4"),
        deleted("c", "5"),
        end_of_initial_events("5"),
    )
    rig = Rig(Watched(initial, then="hold"))
    await rig.after(0)

    assert rig.store.pods == {"default/a": "3", "default/b": "2"}
    assert rig.store.log == ["replace 2"]


@pytest.mark.parametrize("annotation", ["", "false"])
async def test_only_the_right_bookmark_ends_the_initial_events(annotation: str) -> None:
    """TestWatchList: "checking the value of the initialEventsEnd annotation"."""
    not_the_end = bookmark("2", ends_initial_events=annotation)
    rig = Rig(Watched((added("a", "1"), not_the_end), then="hold"))

    assert await rig.after(3600) == ["WATCH-LIST"]
    assert rig.store.log == []
    assert rig.reflector.last_resource_version == ""


async def test_waiting_for_the_bookmark_is_complained_about_every_ten_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """TestInitialEventsEndBookmarkTicker."""
    rig = Rig(Watched((added("a", "1"),), then="hold"))
    with caplog.at_level(logging.WARNING):
        await rig.after(35)

    waited = [record.message.split()[-2] for record in caplog.records]
    assert waited == ["10", "20", "30"]


async def test_nothing_is_complained_about_once_the_bookmark_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig(full("1"))
    with caplog.at_level(logging.WARNING):
        await rig.after(3600)

    assert caplog.records == []


@pytest.mark.parametrize("error", [INVALID, BROKEN, ClientError("odd")])
async def test_a_server_without_watch_list_is_listed_and_watched(error: ClientError) -> None:
    """TestWatchList: "can fall back to old LIST/WATCH", "any other error ... forces fallback"."""
    listed = Listed("5", [("a", "1")])
    rig = Rig(Watched(then=error), listed, Watched((added("b", "6"),), then="hold"))

    assert await rig.after(0) == ["WATCH-LIST", "LIST 0 limit=500", "WATCH 5"]
    assert rig.store.log == ["replace 1", "put b 6"]


async def test_a_server_may_refuse_every_watch_list() -> None:
    """TestWatchList: "uses the old LIST/WATCH semantics if the UseWatchList is turned off"."""
    rig = Rig(Listed("1", [("a", "1")]), HOLD, watch_list=False)

    assert await rig.after(0) == ["LIST 0 limit=500", "WATCH 1"]


async def test_a_watch_list_that_ends_early_is_repeated() -> None:
    """TestWatchList: "stopping a watcher before sync results in creating a new watch-list"."""
    rig = Rig(Watched((added("gone", "1"),)), full("2"))

    assert await rig.after(2) == ["WATCH-LIST", "WATCH-LIST"]
    assert rig.store.pods == {"default/a": "1"}


async def test_a_server_that_ends_every_watch_list_is_not_hammered() -> None:
    rig = Rig(*[Watched((added("a", "1"),), lasting_seconds=0)] * 100)

    assert len(await rig.after(10)) <= 6


async def test_a_watch_list_that_ends_at_once_without_events_causes_a_list() -> None:
    rig = Rig(Watched(lasting_seconds=0), Listed("5"), HOLD)

    assert await rig.after(0) == ["WATCH-LIST", "LIST 0 limit=500", "WATCH 5"]


async def test_a_watch_list_that_is_expired_without_a_version_is_no_reason_to_ask_again() -> None:
    """client-go would, without end and without a pause."""
    rig = Rig(Watched(then=EXPIRED), Listed("5"), HOLD)

    assert await rig.after(0) == ["WATCH-LIST", "LIST 0 limit=500", "WATCH 5"]


async def test_a_broken_watch_list_leaves_the_store_as_it_was() -> None:
    """A half-filled state never reaches the store."""
    rig = Rig(full("1", then=EXPIRED), Watched((added("b", "2"),), then=BROKEN), Listed("9"), HOLD)

    assert await rig.after(1) == ["WATCH-LIST", "WATCH-LIST 1", "LIST 1", "WATCH 9"]
    assert rig.store.log == ["replace 1", "replace 0"]


# --- the server is busy, or not there ---


async def test_the_watch_list_of_a_busy_server_is_repeated_later() -> None:
    """TestWatchList: "checks if the reflector retries 429"."""
    rig = Rig(Watched(then=BUSY), Watched(then=REFUSED), full("2"))
    async with rig.running():
        assert rig.source.requests == ["WATCH-LIST"]
        await rig.clock.advance(0.8)
        assert len(rig.source.requests) == 2
        await rig.clock.advance(1.5)
        assert len(rig.source.requests) == 2
        await rig.clock.advance(0.1)

    assert rig.source.requests == ["WATCH-LIST"] * 3
    assert rig.store.log == ["replace 1"]


@pytest.mark.parametrize("error", [BUSY, REFUSED])
async def test_a_watch_goes_on_after_a_pause_without_a_list(error: ClientError) -> None:
    """TestBackoffOnTooManyRequests, TestNoRelistOnTooManyRequests, ...InitConnBackoff."""
    failing = [Watched(then=error)] * 5
    rig = Rig(Listed("1"), *failing, Watched((added("a", "2"),), then="hold"), watch_list=False)
    requests = await rig.after(0.8 + 1.6 + 3.2 + 6.4 + 12.8)

    assert requests == ["LIST 0 limit=500", *["WATCH 1"] * 6]
    assert rig.store.log == ["replace 0", "put a 2"]


async def test_a_watch_throttled_in_the_stream_goes_on_from_where_it_was() -> None:
    rig = Rig(full("5", added("b", "6"), then=BUSY), HOLD)

    assert await rig.after(0.8) == ["WATCH-LIST", "WATCH 6"]


async def test_a_server_that_is_away_for_an_hour_gets_two_requests_a_minute() -> None:
    rig = Rig(full("5", then=REFUSED), *[Watched(then=REFUSED)] * 1000)

    assert 115 <= len(await rig.after(3600)) <= 130


# --- watches end ---


async def test_a_watch_that_ends_is_resumed_at_once_from_the_last_version() -> None:
    """TestWatchList: "stopping a watcher after synchronization results in a new watch"."""
    rig = Rig(full("5", added("b", "7"), then="end"), Watched((added("c", "8"),), then="hold"))

    assert await rig.after(2) == ["WATCH-LIST", "WATCH 7"]
    assert rig.store.log == ["replace 1", "put b 7", "put c 8"]


async def test_a_bookmark_moves_on_where_a_watch_is_resumed_from() -> None:
    """TestReflectorResourceVersionUpdate."""
    rig = Rig(full("5", bookmark("50"), then="end"), HOLD)

    assert await rig.after(2) == ["WATCH-LIST", "WATCH 50"]
    assert rig.store.log == ["replace 1"]


async def test_an_interrupted_watch_is_resumed_from_the_last_whole_event() -> None:
    rig = Rig(full("5", added("b", "7"), then=INTERRUPTED), HOLD)

    assert await rig.after(0) == ["WATCH-LIST", "WATCH 7"]


async def test_a_very_short_watch_makes_it_pause_and_list_again() -> None:
    """TestReflectorHandleWatchResultChanClosedBefore/After."""
    rig = Rig(full("5", then="end"), Watched(lasting_seconds=0.5), full("6"))
    async with rig.running():
        await rig.clock.advance(2.5)
        assert rig.source.requests == ["WATCH-LIST", "WATCH 5"]
        await rig.clock.advance(0.8)

    assert rig.source.requests == ["WATCH-LIST", "WATCH 5", "WATCH-LIST 5"]


async def test_a_short_watch_with_an_event_is_none_too_short() -> None:
    rig = Rig(full("5", then="end"), Watched((added("b", "6"),), lasting_seconds=0), HOLD)

    assert await rig.after(2) == ["WATCH-LIST", "WATCH 5", "WATCH 6"]


# --- the version is gone, or not there yet ---


async def test_an_expired_watch_is_followed_by_a_list_from_the_last_version() -> None:
    """TestWatchList: "expiring an established watcher results in returning an error"."""
    rig = Rig(full("5", added("b", "7"), then=EXPIRED), full("9"))

    assert await rig.after(1) == ["WATCH-LIST", "WATCH-LIST 7"]
    assert rig.store.pods == {"default/a": "1"}


async def test_a_list_that_is_expired_as_well_asks_for_the_newest_state() -> None:
    rig = Rig(full("5", then=EXPIRED), Watched(then=EXPIRED), full("9"))

    assert await rig.after(1) == ["WATCH-LIST", "WATCH-LIST 5", "WATCH-LIST"]


@pytest.mark.parametrize("error", [EXPIRED, TOO_LARGE])
async def test_without_watch_list_the_newest_state_is_listed(error: ClientError) -> None:
    """TestReflectorExpiredExactResourceVersion, TestReflectorFullListIfTooLarge."""
    script = (Listed("10"), Watched(then=EXPIRED), Listed(error=error), Listed("11"), HOLD)
    rig = Rig(*script, watch_list=False)
    requests = await rig.after(1)

    assert requests == ["LIST 0 limit=500", "WATCH 10", "LIST 10", "LIST", "WATCH 11"]


async def test_a_version_is_trusted_again_after_a_list_without_one() -> None:
    script = (full("5", then=EXPIRED), Watched(then=TOO_LARGE), full("9", then=EXPIRED), full("9"))
    rig = Rig(*script)

    assert await rig.after(3) == ["WATCH-LIST", "WATCH-LIST 5", "WATCH-LIST", "WATCH-LIST 9"]


async def test_a_list_again_is_for_the_last_version_and_in_one_piece() -> None:
    """TestReflectorResyncWithResourceVersion, TestReflectorNotPaginatingNotConsistentReads."""
    script = (Listed("10"), Watched(then=EXPIRED), Listed("11"), HOLD)

    assert await Rig(*script, watch_list=False).after(1) == [
        "LIST 0 limit=500",
        "WATCH 10",
        "LIST 10",
        "WATCH 11",
    ]


async def test_a_server_that_pages_from_the_start_is_always_listed_in_pages() -> None:
    """TestReflectorPaginatingNonConsistentReadsIfWatchCacheDisabled."""
    pages = (Listed("10", continue_token="C"), Listed("10"))
    rig = Rig(*pages, Watched(then=EXPIRED), *pages, HOLD, watch_list=False)

    assert await rig.after(1) == [
        "LIST 0 limit=500",
        "LIST limit=500 continue=C",
        "WATCH 10",
        "LIST 10 limit=500",
        "LIST limit=500 continue=C",
        "WATCH 10",
    ]


async def test_a_watch_from_no_version_counts_none_until_its_additions_are_over() -> None:
    """The additions at the start of such a watch come in no order of versions."""
    events = (added("b", "9"), added("a", "3"))
    rig = Rig(Listed(""), Watched(events), Watched((modified("a", "12"),)), HOLD, watch_list=False)

    assert await rig.after(4) == ["LIST 0 limit=500", "WATCH", "WATCH", "WATCH 12"]


# --- errors ---


@pytest.mark.parametrize("error", [BROKEN, ClientError("bad event")])
async def test_any_other_error_makes_it_pause_and_list(error: ClientError) -> None:
    """TestReflectorListAndWatchWithErrors, TestRetryInternalError ("retries off")."""
    rig = Rig(full("5", added("b", "6"), then=error), full("7"))
    async with rig.running():
        assert rig.source.requests == ["WATCH-LIST"]
        await rig.clock.advance(0.8)

    assert rig.source.requests == ["WATCH-LIST", "WATCH-LIST 6"]


async def test_a_kind_that_is_not_served_is_listed_ever_more_rarely() -> None:
    script: list[Listed | Watched] = [Watched(then=BROKEN), Listed(error=BROKEN)]
    rig = Rig(*script * 1000)
    async with rig.running():
        await rig.clock.advance(0.8 + 1.6 + 3.2)
        assert len(rig.source.requests) == 8
        await rig.clock.advance(3600)

    assert 230 <= len(rig.source.requests) <= 260


async def test_a_bug_in_the_store_is_not_survived() -> None:
    class BrokenStore(RecordingStore):
        def put(self, obj: Pod) -> None:
            raise LookupError("bug")

    rig = Rig(full("5", added("b", "6")), store=BrokenStore())
    with pytest.raises(LookupError, match="bug"):
        await rig.reflector.run()


# --- the server goes back in time ---


async def test_a_list_of_an_older_version_replaces_the_store(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig(full("500", then=EXPIRED), Watched(then=TOO_LARGE), full("3", added("b", "4")))
    with caplog.at_level(logging.WARNING):
        await rig.after(1)

    assert rig.store.log == ["replace 1", "replace 1 anew", "put b 4"]
    assert rig.reflector.last_resource_version == "4"
    assert "began anew (version 500, then 3)" in caplog.text


async def test_a_bookmark_from_the_past_makes_it_list_the_newest_state() -> None:
    """client-go would go on from there, and miss what happened between."""
    rig = Rig(full("500", bookmark("3")), full("700"))

    assert await rig.after(1) == ["WATCH-LIST", "WATCH-LIST"]
    # The counter has passed the old version meanwhile, but it counts something else now.
    assert rig.store.log == ["replace 1", "replace 1 anew"]


async def test_a_long_watch_without_even_a_bookmark_makes_it_list() -> None:
    """A server whose versions went back takes a watch from its future, and is silent."""
    rig = Rig(full("500", then="end"), Watched(lasting_seconds=300), full("3"))

    assert await rig.after(304) == ["WATCH-LIST", "WATCH 500", "WATCH-LIST 500"]
    assert rig.store.log == ["replace 1", "replace 1 anew"]


@pytest.mark.parametrize("events", [(bookmark("600"),), (added("b", "501"),)])
async def test_a_long_watch_with_any_event_is_resumed(events: Events) -> None:
    rig = Rig(full("500", then="end"), Watched(events, lasting_seconds=300), HOLD)
    requests = await rig.after(304)

    assert requests[:2] == ["WATCH-LIST", "WATCH 500"]
    assert requests[2].startswith("WATCH ")


async def test_a_server_that_sends_no_bookmarks_may_be_silent() -> None:
    rig = Rig(Listed("5"), Watched(lasting_seconds=300), HOLD, watch_list=False)

    assert await rig.after(301) == ["LIST 0 limit=500", "WATCH 5", "WATCH 5"]


async def test_versions_that_are_no_numbers_never_go_back() -> None:
    rig = Rig(full("b", then=EXPIRED), full("a"))
    await rig.after(1)

    assert rig.store.log == ["replace 1", "replace 1"]


@pytest.mark.parametrize("late", [added("b", "32"), modified("a", "54"), deleted("a", "54")])
async def test_an_event_from_the_past_is_followed_by_a_list(
    late: WatchEvent[Pod],
) -> None:
    """Unlike TestReflectorWatchHandler, where the store applies every event."""
    rig = Rig(full("50", modified("a", "55"), late), full("56", modified("a", "57")))

    assert await rig.after(2) == ["WATCH-LIST", "WATCH-LIST 55"]
    assert rig.store.log == ["replace 1", "put a 55", "replace 1", "put a 57"]


async def test_a_repeated_event_is_no_event_from_the_past() -> None:
    rig = Rig(full("50", modified("a", "55"), modified("a", "55"), then="end"), HOLD)

    assert await rig.after(2) == ["WATCH-LIST", "WATCH 55"]
    assert rig.store.pods == {"default/a": "55"}


FORBIDDEN = refusal(403, "Forbidden", 'pods is forbidden: User "us" cannot list resource "pods"')
MISSING = refusal(404, "NotFound", "the server could not find the requested resource")


async def test_a_forbidden_kind_is_logged_once_with_the_rule_to_grant(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = Listed(error=FORBIDDEN)
    rig = Rig(refused, refused, refused, Listed("1"), watch_list=False)
    async with rig.running():
        await rig.after(300)
    assert rig.store.log == ["unavailable"] * 3 + ["replace 0"]
    lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert lines == [
        f"pods: {FORBIDDEN}; grant the scheduler a role with the rule "
        '{apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"]}'
    ]


async def test_a_missing_kind_is_logged_once_until_it_was_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    missing = Listed(error=MISSING)
    gone = Watched(then=MISSING)
    rig = Rig(missing, missing, Listed("1"), gone, missing, missing, watch_list=False)
    async with rig.running():
        await rig.after(300)
    lines = [r.getMessage() for r in caplog.records if "trying again until" in r.getMessage()]
    assert len(lines) == 2


async def test_equal_errors_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(*[Watched(then=REFUSED)] * 30, HOLD)
    with caplog.at_level(logging.WARNING):
        requests = await rig.after(150)
    assert len(requests) > 6
    assert len(caplog.records) == 3
