"""Faults of watches: a channel between a watch and its client.

Without faults of events, a channel sends bytes as they are. With such a fault, it splits the bytes
into events and applies the faults to each:

    event --> stall --> cut | duplicate | lose | outdated | retype | strip --> client
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.faults import statuses
from fakeapi.faults.model import INITIAL_EVENTS_END, OPENED
from fakeapi.faults.request_info import EventInfo, request_info
from fakeapi.faults.requests import initial_events
from fakeapi.http.connections import break_off
from fakeapi.store.views import status_event
from fakeapi.types.errors import Expired
from fakeapi.types.objects import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from aiohttp import web

    from fakeapi.clock import Clock
    from fakeapi.faults.active import ActiveFaults, Applied
    from fakeapi.faults.model import Cut
    from fakeapi.faults.request_info import RequestInfo
    from fakeapi.store.registry import Registry
    from fakeapi.store.watch import Watcher
    from fakeapi.types.objects import Json

    Write = Callable[[bytes], Awaitable[None]]

_END_ANNOTATION: Final = "k8s.io/initial-events-end"
_WRONG_KIND: Final[Json] = {"kind": "Unexpected", "apiVersion": "faults.fakeapi/v1"}


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _Event(msgspec.Struct, frozen=True):
    type: str = ""
    object: _Object = _Object()


_decode_event = msgspec.json.Decoder(_Event).decode


class _Ended(Exception):
    """A fault has ended the watch."""


class Channel:
    """The channel from one watch to its client; a context manager for the time of the watch."""

    def __init__(
        self,
        http: web.BaseRequest,
        watcher: Watcher,
        write: Write,
        *,
        active: ActiveFaults,
        registry: Registry,
        clock: Clock,
        channels: dict[Watcher, Channel],
    ) -> None:
        self._http = http
        self._watcher = watcher
        self._write = write
        self._active = active
        self._registry = registry
        self._clock = clock
        self._channels = channels
        self._info: RequestInfo | None = None
        self._over = False
        self._final_event = b""
        self._released = asyncio.Event()
        #: True while events wait for the end of a fault.
        self.stalled = False

    @property
    def info(self) -> RequestInfo:
        """Return the attributes of the watch's request."""
        if self._info is None:
            self._info = request_info(self._http, self._registry)
        return self._info

    async def __aenter__(self) -> Channel:
        self._channels[self._watcher] = self
        try:
            if first := initial_events():
                await self.write(first)
            elif self._active.of_events:
                opened = EventInfo(OPENED)
                await self._apply(b"", opened, self._active.apply_to_event(self.info, opened))
        except _Ended:
            self._watcher.end()
        except BaseException:
            del self._channels[self._watcher]
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        del self._channels[self._watcher]
        if self._final_event and isinstance(error, _Ended | None):
            with contextlib.suppress(ConnectionError):
                await self._write(self._final_event)
        return isinstance(error, _Ended)

    async def write(self, chunk: bytes) -> None:
        """Send whole events."""
        if self._over:
            raise _Ended
        if not self._active.of_events:
            await self._write(chunk)
            return
        passing: list[bytes] = []
        for line in chunk.splitlines(keepends=True):
            info = _info_of(line)
            all_applied = self._active.apply_to_event(self.info, info)
            if not all_applied:
                passing.append(line)
                continue
            if passing:
                await self._write(b"".join(passing))
                passing.clear()
            await self._apply(line, info, all_applied)
        if passing:
            await self._write(b"".join(passing))

    def drop(self, how: str, code: int) -> None:
        """End the watch now."""
        if how == "reset":
            self._break_off()
            return
        self._end_with(self._parting(how, code))
        self._watcher.end()
        self._released.set()

    def release(self) -> None:
        """End a stall, before the server stops."""
        self._released.set()

    async def _apply(self, line: bytes, info: EventInfo, all_applied: list[Applied]) -> None:
        for applied in all_applied:
            if applied.fault.stall is not None:
                await self._stall(applied, applied.fault.stall.seconds)
        for applied in all_applied:
            fault = applied.fault
            if fault.cut is not None:
                await self._cut(line, fault.cut)
            elif fault.duplicate is not None:
                line += line
            elif fault.lose is not None:
                line = b""
            elif fault.outdated is not None:
                line += self._outdated(line, info)
            elif fault.retype is not None:
                line = _changed(line, **_WRONG_KIND)
            elif fault.strip is not None:
                line = _without_annotations(line)
        if line:
            await self._write(line)

    async def _stall(self, applied: Applied, seconds: float | None) -> None:
        """Wait for the time to pass or the fault to end. Raises _Ended if the watch is dropped."""
        over = self._released
        forget = applied.active_fault.on_end(over.set)
        timer = None if seconds is None else self._clock.call_later(seconds, over.set)
        self.stalled = True
        try:
            await over.wait()
        finally:
            self.stalled = False
            forget()
            if timer is not None:
                timer.cancel()
        if self._over:
            raise _Ended
        # A new event: the same fault may stall the channel again.
        self._released = asyncio.Event()

    async def _cut(self, line: bytes, cut: Cut) -> None:
        if cut.after_event and line:
            await self._write(line)
        if cut.how == "truncate":
            await self._write(line[: len(line) // 2])
        if cut.how in ("truncate", "reset"):
            self._break_off()
        self._end_with(self._parting(cut.how, cut.code))
        raise _Ended

    def _end_with(self, event: bytes) -> None:
        self._over = True
        self._final_event = event

    def _parting(self, how: str, code: int) -> bytes:
        """Return the ERROR event that the watch ends with, or nothing."""
        if how == "expired":
            version = self._registry.store.resource_version
            wanted = self.info.query.text("resourceVersion") or "0"
            return status_event(Expired(f"too old resource version: {wanted} ({version})").status())
        return status_event(statuses.status_of_code(code)) if how == "error" else b""

    def _break_off(self) -> None:
        if self._http.transport is not None:
            break_off(self._http.transport, reset=True)

    def _outdated(self, line: bytes, event: EventInfo) -> bytes:
        """Return the previous state as one more event; empty if there was none."""
        route = self.info.route
        if route is None or not event.resource_version.isdecimal():
            return b""
        log = self._registry.collection(route.kind).log
        version = int(event.resource_version)
        if version <= log.compacted_version:
            return b""
        position = log.position_after(version - 1)
        previous = log.at(position).previous if position < log.end else None
        if previous is None or log.at(position).resource_version != version:
            return b""
        body = self._registry.view(route.kind).body(previous)
        return b'{"type":"MODIFIED","object":' + body + b"}\n"


def _info_of(line: bytes) -> EventInfo:
    try:
        event = _decode_event(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return EventInfo("")
    metadata = event.object.metadata
    ends = event.type == "BOOKMARK" and _END_ANNOTATION in (metadata.annotations or {})
    return EventInfo(
        INITIAL_EVENTS_END if ends else event.type,
        metadata.namespace,
        metadata.name,
        metadata.resource_version,
    )


def _changed(line: bytes, **fields: object) -> bytes:
    event = msgspec.json.decode(line)
    event["object"].update(fields)
    return encode(event) + b"\n"


def _without_annotations(line: bytes) -> bytes:
    event = msgspec.json.decode(line)
    event["object"].get("metadata", {}).pop("annotations", None)
    return encode(event) + b"\n"
