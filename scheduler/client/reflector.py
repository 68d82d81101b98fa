"""Keeps a store equal to what the API server has of one kind: list, watch, resume, list again.

    start
      |
      v           1
    WATCH-LIST <-----+     1  refused or 429: pause; 410 or version too large: forget the version;
      |      |       |        ended before its last bookmark: at once, then with pauses
      |      |  -----+
      |      | 2           2  anything else: 422, 404, 5xx, a bad event, ended at once
      |      v
      |    LIST --- 4 --+  3  the store holds exactly what was found
    3 |      | 3        |  4  any error; but after 410 or version too large, once more without one
      v      v          |
    WATCH <---------+   |  5  ended or broke off: at once, from the last version;
      |     |   5   |   |     refused or 429: the same after a pause. No list in either case.
      |     +-------+   |
      | 6               |  6  410, 5xx, a bad event; ended within a second without a word; silent
      v                 |     for minutes; an event or a bookmark from the past
    PAUSE <-------------+
      |
      +---> WATCH-LIST

PAUSE grows from 0.8 s to 30 s, each time up to doubled by chance, and starts small again after two
quiet minutes. A watch is never followed by a list if going on from the last version may do.

Which version is asked for:

    WATCH-LIST, first time      none: the newest state
    WATCH-LIST, later           the last one seen ("not older than")
    LIST, first time            "0": any state will do, and is cheap for the server
    LIST, later                 the last one seen, in one piece (pages would bypass the cache)
    either, after 410 or 504    none: the newest state, whatever it costs

A server must never go back in time. One that has (restored from a backup, say) answers a list or a
bookmark with a version lower than the last one seen; then everything is listed afresh, and the
store is told that versions from before mean nothing now. Until there is a list, such a server is
merely silent: it takes a watch from its future and waits. So a long watch without a single event
or bookmark, from a server that sends bookmarks, is followed by a list as well. client-go looks at
neither, and misses changes until the server has caught up.

An event with a version lower than the one before may be a state that was overtaken long ago, or the
first sign of such a server. It is not applied; a list can tell. client-go takes whatever comes
last, and kube-scheduler ends if a pod loses its node that way.

Source: client-go `tools/cache/reflector.go`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, NoReturn, Protocol, TypeVar

from scheduler.client.decoding import EventType
from scheduler.client.errors import (
    ClientError,
    ConnectionRefused,
    Expired,
    ResourceVersionTooLarge,
    StreamInterrupted,
    TooManyRequests,
)
from scheduler.client.pacing import Backoff
from scheduler.client.paging import list_in_pages
from scheduler.client.resources import ApiObject, ListOptions, object_key

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncGenerator

    from scheduler.client.decoding import Page, WatchEvent
    from scheduler.clock import Clock

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=ApiObject)

#: The annotation of the bookmark that ends the initial events of a watch-list.
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

_PAGE_SIZE: Final = 500

#: A watch that ends sooner than this without a word is a fault, not the end of a watch.
_VERY_SHORT_SECONDS: Final = 1.0

#: A watch that says nothing for this long should at least have brought bookmarks, one a minute.
_SILENT_SECONDS: Final = 150.0

#: How often to complain that initial events do not come to their end.
_BOOKMARK_SECONDS: Final = 10.0

#: A watch is asked to last this long to twice as long, so that not all end together.
_WATCH_SECONDS_MIN: Final = 300.0


class Source(Protocol[T]):
    """Where objects of one kind come from: lists and watches, selectors already decided on."""

    async def list(self, options: ListOptions) -> Page[T]:
        """One page. Raises ClientError."""
        ...

    def watch(self, options: ListOptions) -> AsyncGenerator[WatchEvent[T], None]:
        """A watch, opened when first read. Raises ClientError while being read."""
        ...


class ReflectorStore(Protocol[T]):
    """What a reflector keeps up to date."""

    async def replace(self, objects: list[T], resource_version: str, *, restarted: bool) -> None:
        """These objects, and no others, exist.

        `restarted` says that the server's history began anew: an object whose resource version
        looks unchanged may have changed all the same.
        """
        ...

    def put(self, obj: T) -> None:
        """An object was added or changed."""
        ...

    def delete(self, obj: T) -> None:
        """An object is gone; `obj` is its last state."""
        ...

    def bookmark(self, resource_version: str) -> None:
        """Nothing more has happened up to this version."""
        ...


@dataclass(frozen=True)
class ReflectorStatistics:
    """What a reflector has been through."""

    lists: int
    watches: int
    events: int
    failures: int
    restarts: int


class _VeryShortWatch(ClientError):
    """A watch that ended at once and told nothing."""


class _SilentWatch(ClientError):
    """A watch that told nothing for longer than a sound server would."""


class _LateEvent(ClientError):
    """An event from the past."""


class _HistoryRestarted(ClientError):
    """The server's resource versions went back."""


class Reflector(Generic[T]):
    """Runs the machine drawn above for one kind, forever.

    `name` is for the log. `watch_list=False` goes straight to LIST. `page_size` forces pages of
    that size on every list; None means 500 where the server would not answer from its cache anyway.
    """

    def __init__(
        self,
        source: Source[T],
        store: ReflectorStore[T],
        *,
        name: str,
        clock: Clock,
        rng: random.Random,
        watch_list: bool = True,
        page_size: int | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self._source = source
        self._store = store
        self._name = name
        self._clock = clock
        self._rng = rng
        self._watch_list = watch_list
        self._page_size = page_size
        self._backoff = backoff or Backoff(clock=clock, rng=rng)
        self._version = ""
        # The last version could not be served: ask without one.
        self._version_unavailable = False
        # A bookmark came from the past: what we know belongs to another history.
        self._history_lost = False
        self._sends_bookmarks = False
        # The server paged a list it could have served whole from a cache: it has no cache.
        self._paginated = False
        self._lists = self._watches = self._events = self._failures = self._restarts = 0

    @property
    def last_resource_version(self) -> str:
        """The version everything up to which has reached the store; bookmarks count."""
        return self._version

    def statistics(self) -> ReflectorStatistics:
        """What this reflector has been through."""
        return ReflectorStatistics(
            lists=self._lists,
            watches=self._watches,
            events=self._events,
            failures=self._failures,
            restarts=self._restarts,
        )

    async def run(self) -> NoReturn:
        """Reflect until cancelled. What the server does wrong is logged and survived."""
        while True:
            try:
                await self.list_and_watch()
            except Expired as error:
                logger.info("%s: %s; listing again", self._name, error)
            except ClientError as error:
                self._failures += 1
                logger.warning("%s: %s", self._name, error)
            await self._backoff.pause()

    async def list_and_watch(self) -> NoReturn:
        """Fill the store and follow the changes, until something forces a new list.

        Raises the ClientError that does.
        """
        stream: AsyncGenerator[WatchEvent[T], None] | None = None
        if self._watch_list:
            try:
                stream = await self._fill_by_watch_list()
            except ClientError as error:
                logger.debug("%s: no watch-list, listing instead: %s", self._name, error)
        if stream is None:
            await self._fill_by_list()
        await self._follow(stream)

    async def _fill_by_watch_list(self) -> AsyncGenerator[WatchEvent[T], None]:
        """Replace the store by initial events; the watch goes on with what happens next."""
        attempts_in_vain = 0
        while True:
            options = self._watch_list_options()
            stream = self._source.watch(options)
            self._watches += 1
            async with contextlib.AsyncExitStack() as unless_complete:
                await unless_complete.enter_async_context(contextlib.aclosing(stream))
                try:
                    objects = await self._collect(stream)
                except (ConnectionRefused, TooManyRequests) as error:
                    await self._pause(error)
                    continue
                except (Expired, ResourceVersionTooLarge) as error:
                    if not options.resource_version:
                        raise
                    self._forget_version(error)
                    continue
                if objects is not None:
                    await self._replace(*objects)
                    unless_complete.pop_all()
                    return stream
            # The server may be going down; but one that ends every watch must not be hammered.
            attempts_in_vain += 1
            if attempts_in_vain > 1:
                await self._backoff.pause()

    async def _collect(
        self, stream: AsyncGenerator[WatchEvent[T], None]
    ) -> tuple[list[T], str] | None:
        """The objects of the initial events and their version; None if the watch ended early."""
        found: dict[str, T] = {}
        waiting = _InitialEvents(self._name, self._clock)
        warner = asyncio.create_task(waiting.warn())
        try:
            async for event in stream:
                waiting.seen()
                self._events += 1
                obj = event.object
                if event.type is EventType.DELETED:
                    found.pop(object_key(obj), None)
                elif event.type is not EventType.BOOKMARK:
                    found[object_key(obj)] = obj
                elif obj.metadata.annotations.get(_INITIAL_EVENTS_END) == "true":
                    self._sends_bookmarks = True
                    return list(found.values()), obj.metadata.resource_version
        except StreamInterrupted as error:
            logger.debug("%s: the watch-list broke off: %s", self._name, error)
        finally:
            warner.cancel()
        waiting.check_ended()
        return None

    async def _fill_by_list(self) -> None:
        """Replace the store by a list."""
        asked = "" if self._version_unavailable else self._version or "0"
        page_size = self._page_size
        if page_size is None:
            # The server answers from its cache, and in one piece, if asked for a version.
            page_size = _PAGE_SIZE if self._paginated or asked in {"", "0"} else 0
        self._lists += 1
        try:
            listing = await list_in_pages(
                self._source.list, ListOptions(resource_version=asked), page_size=page_size
            )
        except (Expired, ResourceVersionTooLarge) as error:
            self._forget_version(error)
            listing = await list_in_pages(self._source.list, ListOptions(), page_size=page_size)
        if asked == "0" and listing.paginated:
            self._paginated = True
        await self._replace(listing.items, listing.resource_version)

    async def _replace(self, objects: list[T], version: str) -> None:
        restarted = self._history_lost or _goes_back(self._version, version)
        if restarted:
            self._restarts += 1
            logger.warning(
                "%s: the server's history began anew (version %s, then %s): taking it all again",
                self._name,
                self._version,
                version,
            )
        await self._store.replace(objects, version, restarted=restarted)
        self._version = version
        self._version_unavailable = self._history_lost = False

    async def _follow(self, stream: AsyncGenerator[WatchEvent[T], None] | None) -> NoReturn:
        """Apply what happens, watch after watch. `stream` is a watch that is already under way."""
        while True:
            # A watch from no version begins with the whole state, in no order of versions.
            in_order = stream is not None or self._version not in {"", "0"}
            if stream is None:
                stream = self._source.watch(self._watch_options())
                self._watches += 1
            try:
                async with contextlib.aclosing(stream):
                    await self._apply_all(stream, in_order=in_order)
            except (ConnectionRefused, TooManyRequests) as error:
                await self._pause(error)
            except _HistoryRestarted as error:
                self._forget_version(error)
                raise
            stream = None

    async def _apply_all(
        self, stream: AsyncGenerator[WatchEvent[T], None], *, in_order: bool
    ) -> None:
        started, before = self._clock.monotonic(), self._events
        try:
            async for event in stream:
                in_order = self._apply(event, in_order=in_order)
        except StreamInterrupted as error:
            logger.debug("%s: the watch broke off: %s", self._name, error)
        if self._events > before:
            return
        seconds = self._clock.monotonic() - started
        if seconds < _VERY_SHORT_SECONDS:
            raise _VeryShortWatch("the watch ended within a second and told nothing")
        if self._sends_bookmarks and seconds > _SILENT_SECONDS:
            raise _SilentWatch(f"a watch of {seconds:.0f} s brought not even a bookmark")

    def _apply(self, event: WatchEvent[T], *, in_order: bool) -> bool:
        """One event to the store; whether versions can be relied on to grow from here."""
        kind, obj = event.type, event.object
        version = obj.metadata.resource_version
        if in_order and kind is not EventType.BOOKMARK and _goes_back(self._version, version):
            raise _LateEvent(f"{object_key(obj)} of {version} came after {self._version}")
        if kind is EventType.ADDED:
            self._store.put(obj)
        else:
            # Whatever else comes, the synthetic additions at the start are over.
            in_order = True
            if kind is EventType.MODIFIED:
                self._store.put(obj)
            elif kind is EventType.DELETED:
                self._store.delete(obj)
            else:
                self._sends_bookmarks = True
                self._check_bookmark(version)
                self._store.bookmark(version)
        if in_order:
            self._version = version
        self._events += 1
        return in_order

    def _check_bookmark(self, version: str) -> None:
        if _goes_back(self._version, version):
            self._history_lost = True
            raise _HistoryRestarted(
                f"a bookmark says {version} after {self._version}: the server lost its history"
            )

    def _watch_list_options(self) -> ListOptions:
        return ListOptions(
            allow_watch_bookmarks=True,
            resource_version="" if self._version_unavailable else self._version,
            resource_version_match="NotOlderThan",
            send_initial_events=True,
            timeout_seconds=self._watch_seconds(),
        )

    def _watch_options(self) -> ListOptions:
        return ListOptions(
            allow_watch_bookmarks=True,
            resource_version=self._version,
            timeout_seconds=self._watch_seconds(),
        )

    def _watch_seconds(self) -> int:
        return int(_WATCH_SECONDS_MIN * (1 + self._rng.random()))

    def _forget_version(self, error: ClientError) -> None:
        logger.info("%s: %s; asking for the newest state", self._name, error)
        self._version_unavailable = True

    async def _pause(self, error: ClientError) -> None:
        self._failures += 1
        logger.info("%s: pausing: %s", self._name, error)
        await self._backoff.pause()


class _InitialEvents:
    """Notices initial events that do not come to their end."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._started = clock.monotonic()
        self._last: float | None = None

    def seen(self) -> None:
        """An event came."""
        self._last = self._clock.monotonic()

    def check_ended(self) -> None:
        """The watch ended: raises _VeryShortWatch if that was too soon."""
        if self._last is None and self._clock.monotonic() - self._started < _VERY_SHORT_SECONDS:
            raise _VeryShortWatch("the watch-list ended within a second and told nothing")

    async def warn(self) -> NoReturn:
        """Log a warning for every ten seconds of silence, until cancelled."""
        while True:
            await self._clock.sleep(_BOOKMARK_SECONDS)
            since = self._started if self._last is None else self._last
            silent = self._clock.monotonic() - since
            if silent >= _BOOKMARK_SECONDS:
                logger.warning(
                    "%s: still waiting for the bookmark that ends the initial events; "
                    "nothing has come for %.0f s",
                    self._name,
                    silent,
                )


def _goes_back(before: str, after: str) -> bool:
    """Whether versions went back. Versions that are no numbers cannot be compared."""
    return before.isdecimal() and after.isdecimal() and int(after) < int(before)
