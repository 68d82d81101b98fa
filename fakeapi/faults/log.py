"""The log of injections: for readers, for assertions, and for the repetition of a run.

Every injection is a line: number, time, fault, effect, client, and the number of the match of its
fault. A script made of these lines repeats a random run without randomness: the same faults at the
same matches, with the drawn numbers.

The file is JSON lines: `{"fault": ...}` when a fault is added, `{"injection": ...}` when it is
injected, `{"removed": ...}` when it is removed.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.faults.model import Delay, Fault, FaultError, When
from fakeapi.private_file import open_locked, truncate, write_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from io import FileIO
    from pathlib import Path

#: A window that is only there to end when the fault was removed must not be empty.
_MOMENT_SECONDS: Final = 1e-6


class Injection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault that was injected. `time_seconds` is the server's clock, in seconds since 1970.

    `match` is the number of the match within its fault; 0 for faults of the whole server. `seconds`
    is the number that was drawn for a delay. `fault_number` distinguishes faults that had the same
    name one after another.
    """

    number: int
    time_seconds: float
    fault: str
    fault_number: int
    effect: str
    match: int = 0
    client: str = ""
    verb: str = ""
    path: str = ""
    event: str = ""
    object: str = ""
    resource_version: str = ""
    seconds: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Lifetime:
    """A fault, with the times at which it was added and removed."""

    fault: Fault
    added_seconds: float
    removed_seconds: float | None = None


class FaultLog:
    """The newest injections of a server, and the newest faults, at most `size` of each."""

    def __init__(self, *, started_seconds: float, size: int) -> None:
        self._size = size
        self._injections: collections.deque[Injection] = collections.deque(maxlen=size)
        #: The number of the next injection.
        self.next_number = 1
        #: The number of faults that were ever added.
        self.faults_added = 0
        self._lifetimes: dict[int, _Lifetime] = {}
        self._counts: dict[str, int] = {}
        self._started_seconds = started_seconds
        self._ended = False
        self._file: FileIO | None = None
        self._has_begun = False

    def write_to(self, path: Path) -> None:
        """Lock a file, which is left as it is until `begin`. Raises FaultError, OSError."""
        try:
            self._file = open_locked(path)
        except BlockingIOError as error:
            raise FaultError(f"{path}: another server is writing its faults to it") from error

    def begin(self) -> None:
        """Start the log when the server serves: empty its file, and write each line to it.

        Raises OSError.
        """
        self._has_begun = True
        if self._file is None:
            return
        truncate(self._file)
        self._write({"started_seconds": self._started_seconds})
        for number, lifetime in self._lifetimes.items():
            self._write_fault(number, lifetime)
            if lifetime.removed_seconds is not None:
                self._write({"removed": number, "time_seconds": lifetime.removed_seconds})

    @property
    def injections(self) -> tuple[Injection, ...]:
        """Return the injections, in order."""
        return tuple(self._injections)

    def count(self, fault: str) -> int:
        """Return the number of injections of a fault."""
        return self._counts.get(fault, 0)

    def added(self, fault: Fault, now_seconds: float) -> None:
        """Log that a fault is set.

        A fault that is set before the server serves is there from the start, so that its
        repetition applies to the first request, too.
        """
        if not self._has_begun:
            now_seconds = self._started_seconds
        self.faults_added += 1
        number = self.faults_added
        if len(self._lifetimes) >= self._size:
            self._forget_fault()
        self._lifetimes[number] = _Lifetime(fault, now_seconds)
        self._write_fault(number, self._lifetimes[number])

    def _forget_fault(self) -> None:
        """Forget the oldest fault that was removed."""
        for number, lifetime in self._lifetimes.items():
            if lifetime.removed_seconds is not None:
                del self._lifetimes[number]
                self._counts.pop(lifetime.fault.name, None)
                return

    def removed(self, number: int, now_seconds: float) -> None:
        """Log that a fault was removed, except at the end of the server."""
        if self._ended:
            return
        lifetime = self._lifetimes[number]
        self._lifetimes[number] = dataclasses.replace(lifetime, removed_seconds=now_seconds)
        self._write({"removed": number, "time_seconds": now_seconds})

    def injected(self, injection: Injection) -> None:
        """Log an injection."""
        self._injections.append(injection)
        self.next_number += 1
        self._counts[injection.fault] = self._counts.get(injection.fault, 0) + 1
        self._write({"injection": injection})

    def script(self) -> list[Fault]:
        """Return faults that repeat the log, without randomness."""
        return _script(self._lifetimes, self._injections, self._started_seconds)

    def close(self) -> None:
        self._ended = True
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write_fault(self, number: int, lifetime: _Lifetime) -> None:
        fault, now_seconds = lifetime.fault, lifetime.added_seconds
        self._write({"fault": fault, "fault_number": number, "time_seconds": now_seconds})

    def _write(self, line: object) -> None:
        if self._file is not None and self._has_begun:
            write_all(self._file, msgspec.json.encode(line) + b"\n")


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the file."""

    started_seconds: float | None = None
    fault: Fault | None = None
    injection: Injection | None = None
    removed: int | None = None
    fault_number: int = 0
    time_seconds: float = 0.0


def script_from(path: Path) -> list[Fault]:
    """Return faults that repeat the file of a log. Raises FaultError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise FaultError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise FaultError(f"{path}: byte {error.start} is not UTF-8 text") from error
    history = _History()
    for number, text in enumerate(lines, 1):
        try:
            history.take(msgspec.json.decode(text, type=_Line))
        except msgspec.DecodeError as error:
            raise FaultError(f"{path}: line {number}: {error}") from error
        except KeyError as error:
            raise FaultError(f"{path}: line {number}: no fault has the number {error}") from error
    return _script(history.lifetimes, history.injections, history.started_seconds)


class _History:
    """The content of a file, read line by line."""

    def __init__(self) -> None:
        self.started_seconds = 0.0
        self.lifetimes: dict[int, _Lifetime] = {}
        self.injections: list[Injection] = []

    def take(self, line: _Line) -> None:
        """Read one more line. Raises KeyError if its fault was never added."""
        if line.started_seconds is not None:
            self.started_seconds = line.started_seconds
        if line.fault is not None:
            self.lifetimes[line.fault_number] = _Lifetime(line.fault, line.time_seconds)
        if line.injection is not None:
            self.injections.append(line.injection)
        if line.removed is not None:
            lifetime = self.lifetimes[line.removed]
            self.lifetimes[line.removed] = dataclasses.replace(
                lifetime, removed_seconds=line.time_seconds
            )


def _script(
    lifetimes: Mapping[int, _Lifetime], injections: Iterable[Injection], started_seconds: float
) -> list[Fault]:
    by_fault: dict[int, dict[float | None, list[int]]] = {}
    for injection in injections:
        drawn = by_fault.setdefault(injection.fault_number, {})
        drawn.setdefault(injection.seconds, []).append(injection.match)
    script: list[Fault] = []
    names: set[str] = set()
    for number, lifetime in lifetimes.items():
        for seconds, matches in by_fault.get(number, {}).items():
            name = lifetime.fault.name
            if name in names:
                name = f"{name}.{len(script) + 1}"
            names.add(name)
            script.append(_scripted(lifetime, name, seconds, matches, started_seconds))
    return script


def _scripted(
    lifetime: _Lifetime,
    name: str,
    seconds: float | None,
    matches: list[int],
    started_seconds: float,
) -> Fault:
    """A fault at the very matches at which it was injected; its time counts from the start."""
    fault, before = lifetime.fault, lifetime.added_seconds - started_seconds
    begin = round(before + fault.when.from_seconds, 6)
    if fault.is_of_server:
        return msgspec.structs.replace(fault, name=name, when=When(from_seconds=begin))
    ends = []
    if fault.when.until_seconds is not None:
        ends.append(before + fault.when.until_seconds)
    if lifetime.removed_seconds is not None:
        ends.append(max(lifetime.removed_seconds - started_seconds, begin + _MOMENT_SECONDS))
    until = round(min(ends), 6) if ends else None
    when = When(nth=matches, from_seconds=begin, until_seconds=until)
    delay = fault.delay
    if delay is not None and seconds is not None:
        delay = Delay(seconds=seconds, after_write=delay.after_write)
    return msgspec.structs.replace(fault, name=name, when=when, delay=delay)
