"""Everything that happens on the API server while cases run, to the byte the same in every run.

One JSON document a line, keys sorted, in the order in which things happened:

    {"case":"queue/taint-goes"}                                   a case begins
    {"at":0.0,"step":"steps[2]"}                                  its step is next
    {"at":30.0,"change":"MODIFIED","key":"default/web",           an object has changed
     "object":{...},"resource":"pods","version":176722560000021}
    {"at":30.0,"by":"kubesched/scheduler","path":"/api/v1/...",   whoever is tested has written
     "request":"POST","status":201}
    {"at":90.0,"reason":"","verdict":"passed"}                    the case is over

`at` is in seconds since the API server started, on its clock. A change comes before the request
that made it. The server's own address, which the machine has chosen and which schedulers quote
when a connection breaks, is written as `API-SERVER`. Of a scheduler that shares the suite's clock
two runs with one seed write the same log; where two differ, `diff` shows the first object that
does.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from .api import USER_AGENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from fakeapi import FakeApiServer, HandledRequest, ObjectChange

    from .clock import Clock
    from .outcome import Outcome

__all__ = ["EventLog", "event_log"]

_READING: Final = frozenset({"GET", "HEAD"})
#: To the microsecond: beyond that, seconds since 1970 in a float are noise.
_DIGITS: Final = 6

_API_SERVER: Final = b"API-SERVER"

_encode = msgspec.json.Encoder(order="sorted").encode


@contextlib.contextmanager
def event_log(path: Path | None, case_id: str) -> Iterator[EventLog]:
    """The log of one case, in a file of its own; without a path nothing is written."""
    if path is None:
        yield EventLog(None)
        return
    with path.open("wb") as file:
        log = EventLog(file)
        log.write(case=case_id)
        yield log


class EventLog:
    """Writes what happens in one case."""

    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file
        self._clock: Clock | None = None
        self._start = 0.0
        self._address = b""

    def following(self, server: FakeApiServer, clock: Clock) -> AbstractContextManager[None]:
        """Write all that happens on this server inside the block; its time starts now."""
        if self._file is None:
            return contextlib.nullcontext()
        self._clock, self._start = clock, clock.now()
        self._address = server.url.removeprefix("http://").encode()
        return server.listening(on_change=self._changed, on_request=self._requested)

    def step(self, where: str) -> None:
        """A step of the case begins. What came before is on the disk, whatever happens now."""
        self.write(at=self._now(), step=where)
        if self._file is not None:
            self._file.flush()

    def end(self, outcome: Outcome) -> None:
        """The case is over."""
        self.write(at=self._now(), verdict=outcome.verdict.value, reason=outcome.reason)

    def write(self, **fields: object) -> None:
        """A line of the log, if there is one."""
        if self._file is not None:
            line = _encode(fields)
            if self._address:
                line = line.replace(self._address, _API_SERVER)
            self._file.write(line + b"\n")

    def _changed(self, change: ObjectChange) -> None:
        group = f".{change.group}" if change.group else ""
        self.write(
            at=self._since_start(change.seconds),
            change=change.type,
            resource=f"{change.resource}{group}",
            key=f"{change.namespace}/{change.name}" if change.namespace else change.name,
            version=change.resource_version,
            object=change.object,
        )

    def _requested(self, request: HandledRequest) -> None:
        if request.method in _READING or request.user_agent == USER_AGENT:
            return
        self.write(
            at=self._since_start(request.seconds),
            request=request.method,
            path=request.path,
            status=request.status,
            by=request.user_agent,
        )

    def _now(self) -> float:
        return self._since_start(self._clock.now()) if self._clock is not None else 0.0

    def _since_start(self, seconds: float) -> float:
        return round(seconds - self._start, _DIGITS)
