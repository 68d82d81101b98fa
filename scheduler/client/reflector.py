"""Keeps an informer equal to what the API server has of one kind: list, watch, resume, list again.

    start
      |
      v           1
    WATCH-LIST <-----+     1  refused or 429: pause; 410 or version too large: forget the version;
      |      |       |        ended before its last bookmark: at once, then with pauses
      |      |  -----+
      |      | 2           2  anything else: 422, 404, 5xx, a bad event, ended at once
      |      v
      |    LIST --- 4 --+  3  the informer holds exactly the objects of the list
    3 |      | 3        |  4  any error; but after 410 or version too large, once more without one
      v      v          |
    WATCH <---------+   |  5  ended or broke off: at once, from the last version;
      |     |   5   |   |     refused or 429: the same after a pause. No list in either case.
      |     +-------+   |
      | 6               |  6  410, 5xx, a bad event; ended within a second without an event; silent
      v                 |     for minutes; an event or a bookmark from the past
    PAUSE <-------------+
      |
      +---> WATCH-LIST

A kind that does not exist, or that may not be read, is listed again after each PAUSE. The log names
it once, and again only after it was available.

PAUSE grows from 0.8 s to 30 s, each time up to doubled by jitter, and is reset after two minutes
without one. A list never follows a watch that can be resumed from the last version.

The version of each request:

    WATCH-LIST, first time      none: the newest state
    WATCH-LIST, later           the last one seen ("not older than")
    LIST, first time            "0": any state will do, and is cheap for the server
    LIST, later                 the last one seen, in one piece (pages would bypass the cache)
    either, after 410 or 504    none: the newest state, whatever it costs

A server must never go back in time. One that was restored from a backup sends a list or a
bookmark with a version lower than the last one seen. Then everything is listed again, and the
informer ignores the versions of before. Until there is a list, such a server is
merely silent: it accepts a watch from its future and waits. So a long watch without a single event
or bookmark, from a server that sends bookmarks, is followed by a list as well. client-go checks
neither, and misses changes until the server has caught up.

An event with a version lower than the one before may be an outdated state, or the first sign of
such a server. It is not applied; a list follows. client-go applies every event, and kube-scheduler
exits if a pod loses its node in this way.

Source: client-go `tools/cache/reflector.go`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, Generic, NoReturn, Protocol, TypeVar

from scheduler.client.decoding import EventType
from scheduler.client.errors import (
    ClientError,
    ConnectionRefused,
    Expired,
    Forbidden,
    KindNotFound,
    NotFound,
    ResourceVersionTooLarge,
    StreamInterrupted,
    TooManyRequests,
)
from scheduler.client.flow_control import Backoff
from scheduler.client.kinds import ApiObject, ListOptions, object_key
from scheduler.client.rest import list_in_pages
from scheduler.klog import V4

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncGenerator

    from scheduler.client.decoding import Page, WatchEvent
    from scheduler.clock import Clock

_log: Final = logging.getLogger(__name__)

T = TypeVar("T", bound=ApiObject)

#: The annotation of the bookmark that ends the initial events of a watch-list.
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

_PAGE_SIZE: Final = 500

#: A watch that ends sooner, without an event, is a fault.
_VERY_SHORT_SECONDS: Final = 1.0

#: A healthy server sends a bookmark every minute; a watch without any for so long is a fault.
_SILENT_SECONDS: Final = 150.0

#: The period of the warnings that initial events do not end.
_BOOKMARK_SECONDS: Final = 10.0

#: The period of warnings about the same kind of error.
_WARNING_SECONDS: Final = 60.0

#: The timeout of a watch is between this and twice this, so that not all end together.
_WATCH_SECONDS_MIN: Final = 300.0


class Source(Protocol[T]):
    """The lists and watches of one kind, with the selectors applied. Raises ClientError."""

    async def list(self, options: ListOptions) -> Page[T]:
        """Return one page."""

    def watch(self, options: ListOptions) -> AsyncGenerator[WatchEvent[T], None]:
        """Return a watch, which is opened when it is first read."""


class ReflectorStore(Protocol[T]):
    """The target of a reflector: an informer."""

    async def replace(self, objects: list[T], *, restarted: bool) -> None: ...

    def put(self, obj: T) -> None: ...

    def delete(self, obj: T) -> None: ...

    def unavailable(self, *, is_served: bool) -> None: ...


class _VeryShortWatch(ClientError):
    """A watch ended at once without an event."""


class _SilentWatch(ClientError):
    """A watch was silent for longer than a healthy server would be."""


class _LateEvent(ClientError):
    """An event was older than the last version."""


class _HistoryRestarted(ClientError):
    """The server's resource versions went back."""


class Reflector(Generic[T]):
    """Runs the state machine above for one kind, forever. `name` is for the log."""

    def __init__(
        self,
        source: Source[T],
        store: ReflectorStore[T],
        *,
        name: str,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._source = source
        self._store = store
        self._name = name
        self._clock = clock
        self._rng = rng
        self._backoff = Backoff(clock=clock, rng=rng)
        self._version = ""
        # The last version could not be served: the next request names none.
        self._version_unavailable = False
        # A bookmark came from the past: the objects we have belong to another history.
        self._history_lost = False
        self._sends_bookmarks = False
        # The server paged a list that it could have served whole from a cache: it has no cache.
        self._paginated = False
        # The last kind of error in the log, and when it was written.
        self._warned: tuple[type[ClientError] | None, float] = (None, 0.0)
        # The last reason in the log why the kind cannot be read.
        self._reported = ""

    @property
    def last_resource_version(self) -> str:
        """The version of the last change or bookmark that reached the informer."""
        return self._version

    async def run(self) -> NoReturn:
        """Run until cancelled. Errors of the server are logged."""
        while True:
            try:
                await self.list_and_watch()
            except Expired as error:
                _log.info("%s: %s; listing again", self._name, error)
            except (KindNotFound, NotFound, Forbidden) as error:
                self._report_unavailable(error)
            except ClientError as error:
                self._warn("%s: %s", error)
            await self._backoff.pause()

    def _report_unavailable(self, error: ClientError) -> None:
        """Mark the informer as unavailable, and log each reason once."""
        self._store.unavailable(is_served=isinstance(error, Forbidden))
        if str(error) == self._reported:
            return
        self._reported = str(error)
        if isinstance(error, Forbidden):
            rule = _rule_to_grant(self._name)
            _log.error(
                "%s: %s; grant the scheduler a role with the rule %s", self._name, error, rule
            )
        else:
            _log.warning("%s: %s; trying again until it exists", self._name, error)

    async def list_and_watch(self) -> NoReturn:
        """Fill the store and follow the changes. Raises the ClientError that forces a new list."""
        stream: AsyncGenerator[WatchEvent[T], None] | None = None
        try:
            stream = await self._fill_by_watch_list()
        except KindNotFound:
            raise
        except ClientError as error:
            _log.log(V4, "%s: no watch-list, listing instead: %s", self._name, error)
            await self._fill_by_list()
        await self._follow(stream)

    async def _fill_by_watch_list(self) -> AsyncGenerator[WatchEvent[T], None]:
        """Fill the informer by initial events; return the watch, which continues with changes."""
        attempts_in_vain = 0
        while True:
            options = self._watch_list_options()
            stream = self._source.watch(options)
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
            # The server may be shutting down; but one that ends every watch needs pauses.
            attempts_in_vain += 1
            if attempts_in_vain > 1:
                await self._backoff.pause()

    async def _collect(
        self, stream: AsyncGenerator[WatchEvent[T], None]
    ) -> tuple[list[T], str] | None:
        """Return the initial objects and their version; None if the watch ended too early."""
        objects: dict[str, T] = {}
        waiting = _InitialEvents(self._name, self._clock)
        warner = asyncio.create_task(waiting.warn())
        try:
            async for event in stream:
                waiting.seen()
                obj = event.object
                if event.type is EventType.DELETED:
                    objects.pop(object_key(obj), None)
                elif event.type is not EventType.BOOKMARK:
                    objects[object_key(obj)] = obj
                elif obj.metadata.annotations.get(_INITIAL_EVENTS_END) == "true":
                    self._sends_bookmarks = True
                    return list(objects.values()), obj.metadata.resource_version
        except StreamInterrupted as error:
            _log.log(V4, "%s: the watch-list broke off: %s", self._name, error)
        finally:
            warner.cancel()
        waiting.check_ended()
        return None

    async def _fill_by_list(self) -> None:
        """Fill the informer by a list."""
        version = "" if self._version_unavailable else self._version or "0"
        # With a version the server answers from its cache, and in one piece.
        page_size = _PAGE_SIZE if self._paginated or version in {"", "0"} else 0
        try:
            listing = await list_in_pages(
                self._source.list, ListOptions(resource_version=version), page_size=page_size
            )
        except (Expired, ResourceVersionTooLarge) as error:
            self._forget_version(error)
            listing = await list_in_pages(self._source.list, ListOptions(), page_size=page_size)
        if version == "0" and listing.paginated:
            self._paginated = True
        await self._replace(listing.items, listing.resource_version)

    async def _replace(self, objects: list[T], version: str) -> None:
        restarted = self._history_lost or _goes_back(self._version, version)
        if restarted:
            _log.warning(
                "%s: the server's history began anew (version %s, then %s): listing again",
                self._name,
                self._version,
                version,
            )
        await self._store.replace(objects, restarted=restarted)
        self._reported = ""
        self._version = version
        self._version_unavailable = self._history_lost = False

    async def _follow(self, stream: AsyncGenerator[WatchEvent[T], None] | None) -> NoReturn:
        """Apply the events of one watch after another, first of the open watch `stream`, if any."""
        while True:
            # A watch from no version begins with all objects, in no order of versions.
            in_order = stream is not None or self._version not in {"", "0"}
            if stream is None:
                stream = self._source.watch(self._watch_options())
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
        started, is_empty = self._clock.monotonic(), True
        try:
            async for event in stream:
                in_order = self._apply(event, in_order=in_order)
                is_empty = False
        except StreamInterrupted as error:
            _log.log(V4, "%s: the watch broke off: %s", self._name, error)
        if not is_empty:
            return
        seconds = self._clock.monotonic() - started
        if seconds < _VERY_SHORT_SECONDS:
            raise _VeryShortWatch("the watch ended within a second without an event")
        if self._sends_bookmarks and seconds > _SILENT_SECONDS:
            raise _SilentWatch(f"a watch of {seconds:.0f} s had neither an event nor a bookmark")

    def _apply(self, event: WatchEvent[T], *, in_order: bool) -> bool:
        """Apply one event; return True if versions only grow from here on."""
        kind, obj = event.type, event.object
        version = obj.metadata.resource_version
        if in_order and kind is not EventType.BOOKMARK and _goes_back(self._version, version):
            raise _LateEvent(f"{object_key(obj)} of {version} came after {self._version}")
        if kind is EventType.ADDED:
            self._store.put(obj)
        else:
            # Any other event means that the initial additions are over.
            in_order = True
            if kind is EventType.MODIFIED:
                self._store.put(obj)
            elif kind is EventType.DELETED:
                self._store.delete(obj)
            else:
                self._sends_bookmarks = True
                self._check_bookmark(version)
        if in_order:
            self._version = version
        return in_order

    def _check_bookmark(self, version: str) -> None:
        if _goes_back(self._version, version):
            self._history_lost = True
            raise _HistoryRestarted(
                f"a bookmark of {version} came after {self._version}: the server lost its history"
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
        _log.info("%s: %s; asking for the newest state", self._name, error)
        self._version_unavailable = True

    async def _pause(self, error: ClientError) -> None:
        self._warn("%s: pausing: %s", error)
        await self._backoff.pause()

    def _warn(self, text: str, error: ClientError) -> None:
        """Log an error, but the same kind of error at most once a minute."""
        now, (kind, logged_at) = self._clock.monotonic(), self._warned
        if kind is not type(error) or now - logged_at >= _WARNING_SECONDS:
            self._warned = (type(error), now)
            _log.warning(text, self._name, error)


class _InitialEvents:
    """Watches over initial events, and warns if they do not end."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._started = clock.monotonic()
        self._last: float | None = None

    def seen(self) -> None:
        self._last = self._clock.monotonic()

    def check_ended(self) -> None:
        """Raise _VeryShortWatch if the watch has ended too soon."""
        if self._last is None and self._clock.monotonic() - self._started < _VERY_SHORT_SECONDS:
            raise _VeryShortWatch("the watch-list ended within a second without an event")

    async def warn(self) -> NoReturn:
        """Log a warning for every ten seconds of silence, until cancelled."""
        while True:
            await self._clock.sleep(_BOOKMARK_SECONDS)
            since = self._started if self._last is None else self._last
            silent = self._clock.monotonic() - since
            if silent >= _BOOKMARK_SECONDS:
                _log.warning(
                    "%s: still waiting for the bookmark that ends the initial events; "
                    "no event for %.0f s",
                    self._name,
                    silent,
                )


def _goes_back(before: str, after: str) -> bool:
    """Return True if versions went back. Only numbers can be compared."""
    return before.isdecimal() and after.isdecimal() and int(after) < int(before)


def _rule_to_grant(name: str) -> str:
    """Return the rule of a role that allows an informer to read its kind."""
    plural, _, group = name.split()[0].partition(".")
    return f'{{apiGroups: ["{group}"], resources: ["{plural}"], verbs: ["list", "watch"]}}'
