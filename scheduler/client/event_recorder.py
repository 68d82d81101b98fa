"""Events for people: `events.k8s.io/v1`, repeated ones counted instead of repeated.

A recorder's `event` only takes note and never waits. An `EventBroadcaster`, shared by the recorders
of all profiles, sends in the background:

    event() --- new -----------------------------> queue --> POST
       |                                             ^
       +------- the second of its kind: series of 2 -+-----> PATCH series --- 404 --> POST
       |
       +------- the third and more: counted only
                                       |
    every 30 minutes -- all series ----+--------------------> PATCH series
    every 6 minutes --- series quiet for 6 minutes ---------> PATCH series, then forgotten
                        single events older than that ------> forgotten

Two events are of one kind if type, action, reason, reporter, `regarding` and `related` are equal;
`regarding` includes the resource version, so a pod that has changed starts afresh. The note does
not count: the first one's stays.

An event the server refuses is dropped. One that found no server is tried twelve times, ten seconds
apart. The queue is bounded: when it is full the oldest event goes, for the newest tells more. The
memory of what was sent is bounded too, and loses its oldest, whose repetition will be a new event.

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
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import msgspec

from scheduler.api.core import ObjectMeta, ObjectReference
from scheduler.client.errors import AlreadyExists, ApiError, ClientError, NotFound
from scheduler.client.resources import EVENTS, PODS
from scheduler.client.rest import STRATEGIC_MERGE_PATCH, Subject
from scheduler.client.retries import repeat
from scheduler.client.wire import Event, EventSeries
from scheduler.clock import rfc3339_micro

if TYPE_CHECKING:
    import random

    from scheduler.api.core import Pod
    from scheduler.client.rest import RestClient
    from scheduler.clock import Clock

logger = logging.getLogger(__name__)

#: Upstream's numbers.
_TRIES_MAX: Final = 12
_RETRY_SECONDS: Final = 10.0
_RETRY_JITTER: Final = 0.25
_FINISH_SECONDS: Final = 6 * 60.0
_REFRESH_SECONDS: Final = 30 * 60.0
_QUEUE_SIZE: Final = 1000

#: How many events are sent at once. Upstream starts a goroutine for each.
_SENDERS: Final = 16

#: How many events are remembered in case they happen again.
_REMEMBERED_MAX: Final = 20_000

#: The longest note the API accepts, and what marks one that was cut.
_NOTE_BYTES_MAX: Final = 1024
_CUT: Final = b" ..."

_TYPES: Final = frozenset({"Normal", "Warning"})
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_LENGTH_MAX: Final = 253


class EventWriter(Protocol):
    """Where events end up. Both methods raise ClientError."""

    async def create(self, event: Event) -> None:
        """Make a new event in its namespace."""
        ...

    async def patch(self, event: Event, patch: bytes) -> None:
        """Change an event by a strategic merge patch."""
        ...


class RestEventWriter:
    """Writes events to the API server, and does not read what comes back."""

    def __init__(self, client: RestClient) -> None:
        self._client = client

    async def create(self, event: Event) -> None:
        """POST the event."""
        await self._client.request(
            "POST",
            EVENTS.collection_path(event.metadata.namespace),
            body=EVENTS.encode(event),
            subject=Subject(EVENTS.group_resource, event.metadata.name),
        )

    async def patch(self, event: Event, patch: bytes) -> None:
        """PATCH the event."""
        metadata = event.metadata
        await self._client.request(
            "PATCH",
            EVENTS.path(metadata.name, namespace=metadata.namespace),
            body=patch,
            content_type=STRATEGIC_MERGE_PATCH,
            subject=Subject(EVENTS.group_resource, metadata.name),
        )


@dataclass(frozen=True)
class EventStatistics:
    """What became of events so far.

    `dropped` lost their place in a full queue, `refused` were refused by the server, `lost` found
    no server in all their tries, `counted` only raised a series' count.
    """

    queued: int
    sending: int
    remembered: int
    sent: int
    counted: int
    dropped: int
    refused: int
    lost: int


class _Remembered:
    """An event that was sent, and how often it has happened since."""

    __slots__ = ("count", "event", "last_seconds")

    def __init__(self, event: Event, seconds: float) -> None:
        self.event = event
        self.last_seconds = seconds
        self.count = 1

    def as_series(self) -> Event:
        """The event with the count it has now."""
        series = EventSeries(count=self.count, last_observed_time=rfc3339_micro(self.last_seconds))
        return msgspec.structs.replace(self.event, series=series)


_Key = tuple[str, str, str, str, str, ObjectReference, ObjectReference | None]


class EventBroadcaster:
    """Sends the events of its recorders; `run` it as a task."""

    def __init__(
        self,
        writer: EventWriter,
        *,
        clock: Clock,
        rng: random.Random,
        queue_size: int = _QUEUE_SIZE,
        remembered_max: int = _REMEMBERED_MAX,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._rng = rng
        self._queue: asyncio.Queue[Event] = asyncio.Queue(queue_size)
        self._remembered_max = remembered_max
        self._remembered: dict[_Key, _Remembered] = {}
        self._last_nanoseconds = 0
        self._sending = 0
        self._sent = self._counted = self._dropped = self._refused = self._lost = 0

    def recorder(self, reporting_controller: str, *, hostname: str | None = None) -> EventRecorder:
        """A recorder whose events say that `reporting_controller`, on this host, reports them."""
        hostname = hostname or socket.gethostname()
        return EventRecorder(self, reporting_controller, hostname, clock=self._clock)

    def statistics(self) -> EventStatistics:
        """What became of events so far."""
        return EventStatistics(
            queued=self._queue.qsize(),
            sending=self._sending,
            remembered=len(self._remembered),
            sent=self._sent,
            counted=self._counted,
            dropped=self._dropped,
            refused=self._refused,
            lost=self._lost,
        )

    async def run(self) -> NoReturn:
        """Send until cancelled. What is still queued then is lost; `drain` first if it matters."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_SENDERS):
                group.create_task(self._send_queued())
            group.create_task(self._refresh_all())
            group.create_task(self._finish_all())
        raise AssertionError("senders do not end")

    async def drain(self) -> None:
        """Return once everything that has been recorded was sent, or given up."""
        await self._queue.join()

    def record(self, event: Event, seconds: float) -> None:
        """Take note of an event that happened at `seconds`; never waits, never fails."""
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
            if len(self._remembered) >= self._remembered_max:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[key] = _Remembered(event, seconds)
            self._enqueue(event)
            return
        remembered.last_seconds = seconds
        remembered.count += 1
        if remembered.count == 2:
            self._enqueue(remembered.as_series())
        else:
            self._counted += 1

    def event_name(self, regarding: str, seconds: float) -> str:
        """A new name: the object's, a dot, 16 hexadecimal digits of nanoseconds.

        Names are unique even if the clock stands still. A name that could be no event's becomes a
        random one.
        """
        nanoseconds = max(int(seconds * 1e9), self._last_nanoseconds + 1)
        self._last_nanoseconds = nanoseconds
        name = f"{regarding}.{nanoseconds:x}"
        if len(name) > _SUBDOMAIN_LENGTH_MAX or not _SUBDOMAIN.fullmatch(name):
            return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        return name

    def _enqueue(self, event: Event) -> None:
        if self._queue.full():
            self._queue.get_nowait()
            self._queue.task_done()
            self._dropped += 1
        self._queue.put_nowait(event)

    async def _send_queued(self) -> NoReturn:
        while True:
            event = await self._queue.get()
            self._sending += 1
            try:
                if not await self._send(event, retries_max=_TRIES_MAX - 1):
                    self._lost += 1
                    logger.error(
                        "giving up on event %s: no server in %d tries", _shown(event), _TRIES_MAX
                    )
            finally:
                self._sending -= 1
                self._queue.task_done()

    async def _send(self, event: Event, *, retries_max: int = 0) -> bool:
        """Write an event; return False if the server could not be reached in any try."""

        def delay_seconds(error: ClientError, _: int) -> float | None:
            if isinstance(error, ApiError) and not _is_created_meanwhile(event, error):
                return None
            return _RETRY_SECONDS * (1 + self._rng.random() * _RETRY_JITTER)

        try:
            await repeat(
                lambda: self._write(event),
                retries_max=retries_max,
                delay_seconds=delay_seconds,
                sleep=self._clock.sleep,
            )
        except ApiError as error:
            if _is_created_meanwhile(event, error):
                return False
            self._refused += 1
            level = logging.DEBUG if isinstance(error, AlreadyExists) else logging.ERROR
            logger.log(level, "event %s was refused: %s", _shown(event), error)
        except ClientError as error:
            logger.warning("event %s could not be sent: %s", _shown(event), error)
            return False
        else:
            self._sent += 1
        return True

    async def _write(self, event: Event) -> None:
        if event.series is None:
            await self._writer.create(event)
        else:
            await self._send_series(event)

    async def _send_series(self, event: Event) -> None:
        try:
            await self._writer.patch(event, msgspec.json.encode({"series": event.series}))
        except NotFound:
            # Events live for an hour; this one was forgotten by the server.
            await self._writer.create(event)

    async def _refresh_all(self) -> NoReturn:
        """Keep long series alive, and their counts true."""
        while True:
            for remembered in [*self._remembered.values()]:
                if remembered.count > 1:
                    await self._send(remembered.as_series())
            await self._clock.sleep(_REFRESH_SECONDS)

    async def _finish_all(self) -> NoReturn:
        """Write the last count of what has stopped happening, and forget it."""
        while True:
            before = self._clock.now() - _FINISH_SECONDS
            for key, remembered in [*self._remembered.items()]:
                if remembered.last_seconds >= before:
                    continue
                count = remembered.count
                done = count == 1 or await self._send(remembered.as_series())
                # It may have happened again, or been pushed out, while the answer was under way.
                if done and (self._remembered.get(key), remembered.count) == (remembered, count):
                    del self._remembered[key]
            await self._clock.sleep(_FINISH_SECONDS)


class EventRecorder:
    """Says what happens to objects, in the name of one controller (a scheduler's profile)."""

    def __init__(
        self,
        broadcaster: EventBroadcaster,
        reporting_controller: str,
        hostname: str,
        *,
        clock: Clock,
    ) -> None:
        self._broadcaster = broadcaster
        self._clock = clock
        self._controller = reporting_controller
        self._instance = f"{reporting_controller}-{hostname}"

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
        """Tell people that something happened to an object; never waits, never fails.

        `type` is Normal or Warning, `reason` says why in one CamelCase word, `action` what was
        done, `note` all of it in a sentence (cut to 1024 bytes). `related` is a second object, say
        the preemptor of a victim.
        """
        if type not in _TYPES:
            logger.error("event %s: expected type Normal or Warning, got %r", reason, type)
            return
        if not isinstance(regarding, ObjectReference):
            regarding = PODS.reference(regarding)
        now = self._clock.now()
        self._broadcaster.record(
            Event(
                metadata=ObjectMeta(
                    name=self._broadcaster.event_name(regarding.name, now),
                    namespace=regarding.namespace or "default",
                ),
                event_time=rfc3339_micro(now),
                reporting_controller=self._controller,
                reporting_instance=self._instance,
                action=action,
                reason=reason,
                regarding=regarding,
                related=related,
                note=_cut(note),
                type=type,
            ),
            now,
        )


def _cut(note: str) -> str:
    if note.isascii() and len(note) <= _NOTE_BYTES_MAX:
        return note
    encoded = note.encode(errors="replace")
    if len(encoded) <= _NOTE_BYTES_MAX:
        return encoded.decode()
    # Half a character at the cut is left out.
    return encoded[: _NOTE_BYTES_MAX - len(_CUT)].decode(errors="ignore") + _CUT.decode()


def _is_created_meanwhile(event: Event, error: ApiError) -> bool:
    """Return True if the event was created between the PATCH and the POST of its series."""
    return event.series is not None and isinstance(error, AlreadyExists)


def _shown(event: Event) -> str:
    return f"{event.metadata.namespace}/{event.metadata.name} ({event.reason})"
