"""Every change with its time, as JSON lines: `--record` writes them, `--replay` reads them.

    {"format": "kubesched-fakeapi recording", "formatVersion": 1, "startedSeconds": 1790000000.0}
    {"seconds": 0.0, "type": "ADDED", "group": "", "resource": "nodes", "object": {...}}
    {"seconds": 1.25, "type": "MODIFIED", ...}

`seconds` count from the start, on the server's clock. The objects at the start of the recording
come first, as ADDED at 0, so that a recording is whole by itself. Each line goes to the operating
system at once: the death of the process costs the last line at most, and a reader overlooks a last
line that is not complete.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from fakeapi.private_file import open_locked, truncate, write_all
from fakeapi.state.contents import StateError, file_error
from fakeapi.store.store import ADDED, DELETED, MODIFIED
from fakeapi.types.objects import Json, encode, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fakeapi.clock import Clock
    from fakeapi.store.journal import Journal, ObjectChange
    from fakeapi.store.store import Store
    from fakeapi.types.kind import ResourceKey

_FORMAT: Final = "kubesched-fakeapi recording"
_FORMAT_VERSION: Final = 1
#: Without these nothing of their kinds can be replayed.
_DEFINITIONS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")

_log = logging.getLogger("fakeapi")


class _Header(msgspec.Struct, frozen=True, rename="camel"):
    """The first line. `started_seconds` is when the recording began, since 1970."""

    format: str
    format_version: int
    started_seconds: float


class RecordedChange(msgspec.Struct, frozen=True):
    """A change, `seconds` after the start; `object` is as stored, without kind and apiVersion."""

    seconds: float
    type: Annotated[str, msgspec.Meta(pattern=f"^({ADDED}|{MODIFIED}|{DELETED})$")]
    group: str
    resource: str
    object: Json

    @property
    def resource_key(self) -> ResourceKey:
        return self.group, self.resource


class Recording:
    """A file that is written to from `begin` until `close`."""

    def __init__(self, path: Path, store: Store, clock: Clock, journal: Journal) -> None:
        """Lock the file; its content stays until `begin`. Raises StateError."""
        self._path, self._store, self._clock, self._journal = path, store, clock, journal
        self._started_seconds = clock.now()
        self._listening = contextlib.ExitStack()
        #: Why the recording ended before its time.
        self.failure: StateError | None = None
        try:
            # Unbuffered: a line is one write, and with the operating system when it returns.
            self._file = open_locked(path)
        except BlockingIOError as error:
            raise StateError(f"{path}: another server is recording to it") from error
        except OSError as error:
            raise file_error(path, error) from error

    def begin(self) -> None:
        """Write the file anew, with all present objects. Raises StateError."""
        self._started_seconds = self._clock.now()
        try:
            truncate(self._file)
            self._append(_Header(_FORMAT, _FORMAT_VERSION, self._started_seconds))
            for obj, (group, resource) in _in_order(self._store):
                self._append(RecordedChange(0.0, ADDED, group, resource, obj))
        except OSError as error:
            raise file_error(self._path, error) from error
        self._listening.enter_context(self._journal.listening(self._changed))

    def _changed(self, change: ObjectChange) -> None:
        """Must not raise: it is called in the middle of a write."""
        if self.failure is not None:
            return
        seconds = round(change.seconds - self._started_seconds, 6)
        line = RecordedChange(seconds, change.type, change.group, change.resource, change.object)
        try:
            self._append(line)
        except OSError as error:
            self.failure = file_error(self._path, error)
            _log.error("%s: the recording ends here", self.failure)

    def _append(self, line: object) -> None:
        write_all(self._file, encode(line) + b"\n")

    def close(self) -> None:
        self._listening.close()
        self._file.close()


def _in_order(store: Store) -> list[tuple[Json, ResourceKey]]:
    """All objects and where they are: definitions first, then what was written first."""
    objects = [
        (revision.resource_version, revision.object, collection.resource)
        for collection in store.collections()
        for revision in collection.revisions.values()
    ]
    objects.sort(key=lambda entry: (entry[2] != _DEFINITIONS, entry[0]))
    return [(obj, resource) for _, obj, resource in objects]


def read_recording(path: Path) -> Iterator[tuple[int, RecordedChange]]:
    """Yield the changes with their line numbers. Raises StateError, which names the line."""
    decoder = msgspec.json.Decoder(RecordedChange)
    latest = 0.0
    try:
        with path.open("rb") as file:
            _check_header(path, file.readline())
            for number, line in enumerate(file, 2):
                if not line.endswith(b"\n"):
                    return  # the recorder died while it wrote this
                try:
                    change = decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise StateError(f"{path}: line {number}: {error}") from error
                if change.seconds < latest:
                    raise StateError(f"{path}: line {number}: seconds: earlier than the line above")
                if not name_of(change.object):
                    raise StateError(
                        f"{path}: line {number}: object.metadata.name: expected a string"
                    )
                latest = change.seconds
                yield number, change
    except OSError as error:
        raise file_error(path, error) from error


def check_recording(path: Path) -> None:
    """Raise StateError if a file is no recording.

    A pipe can be read only once, so it is not read.
    """
    if path.exists() and not path.is_file():
        return
    try:
        with path.open("rb") as file:
            _check_header(path, file.readline())
    except OSError as error:
        raise file_error(path, error) from error


def _check_header(path: Path, line: bytes) -> None:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateError(f"{path}: line 1: no recording, or a damaged one: {error}") from error
    if (header.format, header.format_version) != (_FORMAT, _FORMAT_VERSION):
        raise StateError(
            f"{path}: line 1: expected {_FORMAT!r} of version {_FORMAT_VERSION}, "
            f"found {header.format!r} of version {header.format_version}"
        )
