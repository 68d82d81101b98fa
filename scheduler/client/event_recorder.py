"""Events for people: `events.k8s.io/v1`, repeated ones counted instead of repeated.

A recorder's `event` puts the event in a queue and returns. An `EventBroadcaster`, shared by the
recorders of all profiles, sends in the background:

    event() --- new -----------------------------> queue --> POST
       |                                             ^
       +------- the second of its kind: series of 2 -+-----> PATCH series --- 404 --> POST
       |
       +------- the third and more: counted only
                                       |
    every 30 minutes -- all series ----+--------------------> PATCH series
    every 6 minutes --- series quiet for 6 minutes ---------> PATCH series, then forgotten
                        single events older than that ------> forgotten

Two events are of one kind if type, action, reason, reporter, `regarding` and `related` are equal.
`regarding` includes the resource version, so a changed pod starts a new series. The note is not
compared: the note of the first event stays.

An event that the server refuses is dropped. An event that could not be sent is tried twelve times,
ten seconds apart. The queue is bounded: a full queue drops its oldest event. The memory of sent
events is bounded too: it drops its oldest event, which becomes a new event when it is repeated.

Source: client-go `tools/events/event_broadcaster.go`, `tools/events/event_recorder.go`,
`tools/record/util/util.go`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, NoReturn, TypeVar

import msgspec
from cachetools import FIFOCache

from scheduler.api.core import ObjectMeta, ObjectReference
from scheduler.api.text import well_formed
from scheduler.client.errors import AlreadyExists, ApiError, ClientError, NotFound
from scheduler.client.kinds import EVENTS, PODS
from scheduler.client.objects import CoreEvent, Event, EventSeries
from scheduler.client.rest import STRATEGIC_MERGE_PATCH, Subject
from scheduler.client.retries import repeat
from scheduler.clock import rfc3339_micro
from scheduler.klog import V4

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from scheduler.api.core import Pod
    from scheduler.client.rest import RestClient
    from scheduler.clock import Clock

_log: Final = logging.getLogger(__name__)

E = TypeVar("E", Event, CoreEvent)

#: Upstream's numbers.
_TRIES_MAX: Final = 12
_RETRY_SECONDS: Final = 10.0
_RETRY_JITTER: Final = 0.25
_FINISH_SECONDS: Final = 6 * 60.0
_REFRESH_SECONDS: Final = 30 * 60.0
_QUEUE_SIZE: Final = 1000

#: How many events are sent at once. Upstream starts a goroutine for each.
_SENDERS: Final = 16

#: How many sent events are remembered, to recognise repetitions.
_REMEMBERED_MAX: Final = 20_000

#: The longest note that the API accepts, and the end of a note that was cut.
_NOTE_BYTES_MAX: Final = 1024
_CUT: Final = b" ..."

_TYPES: Final = frozenset({"Normal", "Warning"})
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_LENGTH_MAX: Final = 253


class EventSender(Generic[E]):
    """Sends events in the background, with retries; `run` it as a task.

    `write` sends one event once. `retry_seconds(n)` is the delay before retry `n`, from 0.
    """

    def __init__(
        self,
        write: Callable[[E], Awaitable[object]],
        *,
        senders: int,
        retry_seconds: Callable[[int], float],
        clock: Clock,
    ) -> None:
        self._write: Callable[[E], Awaitable[object]] = write
        self._senders = senders
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._queue: asyncio.Queue[E] = asyncio.Queue(_QUEUE_SIZE)
        self._in_flight: list[E] = []

    @property
    def is_idle(self) -> bool:
        """True if every event was sent, refused or given up."""
        return self._queue.empty() and not self._in_flight

    def enqueue(self, event: E) -> None:
        """Add an event to the queue; a full queue drops its oldest event."""
        if self._queue.full():
            _log.log(V4, "event %s is dropped: the queue is full", _shown(self._queue.get_nowait()))
            self._queue.task_done()
        self._queue.put_nowait(event)

    async def run(self) -> NoReturn:
        """Send until cancelled. Events that are left then are lost without `drain` or `flush`."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._senders):
                group.create_task(self._send_queued())
        raise AssertionError("senders do not end")

    async def drain(self) -> None:
        """Return once everything in the queue was sent, refused or given up."""
        await self._queue.join()

    async def flush(self) -> None:
        """Try once to send each event that `run` has left."""
        events, self._in_flight = self._in_flight, []
        while not self._queue.empty():
            events.append(self._queue.get_nowait())
        for event in events:
            await self.send(event)

    async def send(self, event: E, *, retries_max: int = 0) -> bool:
        """Send an event; return False if no try got an answer from the server."""

        def delay_seconds(error: ClientError, n: int) -> float | None:
            return None if isinstance(error, ApiError) else self._retry_seconds(n)

        try:
            await repeat(
                lambda: self._write(event),
                retries_max=retries_max,
                delay_seconds=delay_seconds,
                sleep=self._clock.sleep,
            )
        except ApiError as error:
            level = logging.DEBUG if isinstance(error, AlreadyExists) else logging.ERROR
            _log.log(level, "event %s was refused: %s", _shown(event), error)
        except ClientError as error:
            _log.warning("event %s could not be sent: %s", _shown(event), error)
            return False
        return True

    async def _send_queued(self) -> NoReturn:
        while True:
            event = await self._queue.get()
            self._in_flight.append(event)
            if not await self.send(event, retries_max=_TRIES_MAX - 1):
                _log.error("giving up on event %s after %d tries", _shown(event), _TRIES_MAX)
            self._in_flight.remove(event)
            self._queue.task_done()


class _Remembered:
    """A sent event, and how often it has happened since."""

    __slots__ = ("count", "event", "last_seconds")

    def __init__(self, event: Event, seconds: float) -> None:
        self.event = event
        self.last_seconds = seconds
        self.count = 1

    def as_series(self) -> Event:
        """Return the event with its current count."""
        series = EventSeries(count=self.count, last_observed_time=rfc3339_micro(self.last_seconds))
        return msgspec.structs.replace(self.event, series=series)


_Key = tuple[str, str, str, str, str, ObjectReference, ObjectReference | None]


class EventBroadcaster:
    """Sends the events of its recorders; `run` it as a task."""

    def __init__(self, client: RestClient, *, clock: Clock, rng: random.Random) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._sender = EventSender(
            self._write, senders=_SENDERS, retry_seconds=self._retry_seconds, clock=clock
        )
        self._remembered: FIFOCache[_Key, _Remembered] = FIFOCache(_REMEMBERED_MAX)
        self._last_nanoseconds = 0
        self.drain: Final = self._sender.drain

    @property
    def is_idle(self) -> bool:
        """True if every recorded event was sent, refused, given up or only counted."""
        return self._sender.is_idle

    def recorder(self, reporting_controller: str) -> EventRecorder:
        """Return a recorder of events that `reporting_controller` on this host reports."""
        return EventRecorder(
            broadcaster=self,
            reporting_controller=reporting_controller,
            hostname=socket.gethostname(),
            clock=self._clock,
        )

    async def run(self) -> NoReturn:
        """Send until cancelled. Events in the queue are lost then without `drain`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sender.run())
            group.create_task(self._refresh_all())
            group.create_task(self._finish_all())
        raise AssertionError("senders do not end")

    def record(self, event: Event, seconds: float) -> None:
        """Enqueue or count an event that happened at `seconds`; neither waits nor raises."""
        key = (
            event.type,
            event.action,
            event.reason,
            event.reporting_controller,
            event.reporting_instance,
            event.regarding,
            event.related,
        )
        remembered = self._remembered.get(key)
        if remembered is None:
            self._remembered[key] = _Remembered(event, seconds)
            self._sender.enqueue(event)
            return
        remembered.last_seconds = seconds
        remembered.count += 1
        if remembered.count == 2:
            self._sender.enqueue(remembered.as_series())

    def event_name(self, regarding: str, seconds: float) -> str:
        """Return a new name: the object's name, a dot, 16 hexadecimal digits of nanoseconds.

        Names are unique even if the clock stands still. A name that no event may have is replaced
        by a random one.
        """
        nanoseconds = max(int(seconds * 1e9), self._last_nanoseconds + 1)
        self._last_nanoseconds = nanoseconds
        name = f"{regarding}.{nanoseconds:x}"
        if len(name) > _SUBDOMAIN_LENGTH_MAX or not _SUBDOMAIN.fullmatch(name):
            return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        return name

    def _retry_seconds(self, _: int) -> float:
        return _RETRY_SECONDS * (1 + self._rng.random() * _RETRY_JITTER)

    async def _write(self, event: Event) -> None:
        if event.series is None:
            await self._client.create(EVENTS, event)
            return
        metadata = event.metadata
        try:
            await self._client.request(
                "PATCH",
                EVENTS.path(metadata.name, namespace=metadata.namespace),
                body=msgspec.json.encode({"series": event.series}),
                content_type=STRATEGIC_MERGE_PATCH,
                subject=Subject(EVENTS.group_resource, metadata.name),
            )
        except NotFound:
            # The server keeps events for an hour; this one has expired.
            try:
                await self._client.create(EVENTS, event)
            except AlreadyExists as error:
                # The event was created after our PATCH: worth a retry, unlike other refusals.
                raise ClientError(str(error)) from error

    async def _refresh_all(self) -> NoReturn:
        """Send the counts of all series every half hour, so that the server keeps them."""
        while True:
            for remembered in [*self._remembered.values()]:
                if remembered.count > 1:
                    await self._sender.send(remembered.as_series())
            await self._clock.sleep(_REFRESH_SECONDS)

    async def _finish_all(self) -> NoReturn:
        """Send the last count of each series that has ended, and forget it."""
        while True:
            before = self._clock.now() - _FINISH_SECONDS
            for key, remembered in [*self._remembered.items()]:
                if remembered.last_seconds >= before:
                    continue
                count = remembered.count
                done = count == 1 or await self._sender.send(remembered.as_series())
                # It may have been repeated or dropped while the request was under way.
                if done and (self._remembered.get(key), remembered.count) == (remembered, count):
                    del self._remembered[key]
            await self._clock.sleep(_FINISH_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecorder:
    """Records events about objects, reported by one controller (a scheduler's profile)."""

    broadcaster: EventBroadcaster
    reporting_controller: str
    hostname: str
    clock: Clock

    def event(
        self,
        regarding: Pod | ObjectReference,
        *,
        related: ObjectReference | None = None,
        type: str,
        reason: str,
        action: str,
        note: str,
    ) -> None:
        """Record that something happened to an object; neither waits nor raises.

        `type` is Normal or Warning, `reason` one CamelCase word, `action` the operation, `note` a
        sentence (cut to 1024 bytes). `related` is a second object, such as a victim's preemptor.
        """
        if type not in _TYPES:
            _log.error("event %s: expected type Normal or Warning, got %r", reason, type)
            return
        if not isinstance(regarding, ObjectReference):
            regarding = PODS.reference(regarding)
        now = self.clock.now()
        self.broadcaster.record(
            Event(
                metadata=ObjectMeta(
                    name=self.broadcaster.event_name(regarding.name, now),
                    namespace=regarding.namespace or "default",
                ),
                event_time=rfc3339_micro(now),
                reporting_controller=self.reporting_controller,
                reporting_instance=f"{self.reporting_controller}-{self.hostname}",
                action=well_formed(action),
                reason=well_formed(reason),
                regarding=regarding,
                related=related,
                note=_cut(note),
                type=type,
            ),
            now,
        )


def _cut(note: str) -> str:
    note = well_formed(note)
    encoded = note.encode()
    if len(encoded) <= _NOTE_BYTES_MAX:
        return note
    # A character that is cut in two is left out.
    return encoded[: _NOTE_BYTES_MAX - len(_CUT)].decode(errors="ignore") + _CUT.decode()


def _shown(event: Event | CoreEvent) -> str:
    return f"{event.metadata.namespace}/{event.metadata.name} ({event.reason})"
