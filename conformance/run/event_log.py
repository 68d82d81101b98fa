"""A log of everything that happens on the API server while cases run, byte-identical in every run.

One JSON document per line, with sorted keys, in the order of events:

    {"case":"queue/taint-goes"}                                   a case begins
    {"at":0.0,"step":"steps[2]"}                                  a step begins
    {"at":30.0,"change":"MODIFIED","key":"default/web",           an object has changed
     "object":{...},"resource":"pods","version":176722560000021}
    {"at":30.0,"by":"kubesched/scheduler","path":"/api/v1/...",   the scheduler has written
     "request":"POST","status":201}
    {"at":90.0,"reason":"","verdict":"passed"}                    the case has ended

`at` is in seconds since the start of the API server, on its clock. A change comes before the
request that caused it. The server's address, which contains a random port and which schedulers
quote when a connection breaks, is written as `API-SERVER`. A scheduler that shares the suite's
clock produces the same log for the same seed; in two logs that differ, `diff` shows the first
object that differs. On a running cluster only changes of the case's objects are written, `at` is
the time of their arrival, and requests are not seen.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from ..api import USER_AGENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from fakeapi import HandledRequest, ObjectChange

    from ..clock import Clock
    from ..outcome import Outcome
    from ..targets.target import Source

_READING: Final = frozenset({"GET", "HEAD"})
#: To the microsecond: finer digits of a float of seconds since 1970 are noise.
_DIGITS: Final = 6

_API_SERVER: Final = b"API-SERVER"

_encode = msgspec.json.Encoder(order="sorted").encode


@contextlib.contextmanager
def event_log(path: Path | None, case_id: str) -> Iterator[EventLog]:
    """Open the log of one case in a file of its own. Without a path nothing is written."""
    if path is None:
        yield EventLog(None)
        return
    with path.open("wb") as file:
        log = EventLog(file)
        log.write(case=case_id)
        yield log


class EventLog:
    """Writes the events of one case."""

    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file
        self._clock: Clock | None = None
        self._start = 0.0
        self._address = b""

    def following(self, source: Source, clock: Clock) -> AbstractContextManager[None]:
        """Write all changes on a server while the block runs. Times count from now."""
        if self._file is None:
            return contextlib.nullcontext()
        self._clock, self._start = clock, clock.now()
        self._address = source.url.rpartition("//")[2].encode()
        return source.listening(on_change=self._changed, on_request=self._requested)

    def step(self, where: str) -> None:
        """Write the start of a step. Everything before it is flushed to the file."""
        self.write(at=self._now(), step=where)
        if self._file is not None:
            self._file.flush()

    def end(self, outcome: Outcome) -> None:
        """Write the end of the case."""
        self.write(at=self._now(), verdict=outcome.verdict.value, reason=outcome.reason)

    def write(self, **fields: object) -> None:
        """Write a line, if there is a file."""
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
