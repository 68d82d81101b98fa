"""The format of histories: one JSON document per line, in the order of time.

    {"at":30.0,"change":"MODIFIED","resource":"pods","object":{...}}

`at` is in seconds since the start of the history. A change is `ADDED`, `MODIFIED` or `DELETED`, as
in a watch, with the object after it (before it for `DELETED`); `resource` is the plural, with the
group behind a dot except for the core group. Creations, patches and deletions are such changes; a
binding is the change after which a pod has a node. Further fields, and lines without `change`, are
ignored: the event log of `kubesched-conformance run --event-log` is a history as it is.

A pod with the annotation `kubesched.dev/run-seconds` ends so many seconds after it got a node,
without a line of its own; a node with `kubesched.dev/price` costs so much per hour.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, NamedTuple

import msgspec

from scheduler.api.unstructured import Unstructured
from scheduler.client.kinds import KINDS
from scheduler.simulate.history.errors import InputFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scheduler.client import ApiObject

RUN_SECONDS: Final = "kubesched.dev/run-seconds"
PRICE: Final = "kubesched.dev/price"

#: Finer digits of seconds since 1970 in a float are noise.
_DIGITS: Final = 6


class _Line(msgspec.Struct, frozen=True):
    at: float | None = None
    change: Literal["", "ADDED", "MODIFIED", "DELETED"] = ""
    resource: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class Change(NamedTuple):
    """One change. `kind` is the key of the object's kind, as `kind_key` returns it."""

    seconds: float
    change: str
    kind: str
    object: ApiObject

    @property
    def is_deletion(self) -> bool:
        return self.change == "DELETED"


class _TypeMeta(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""


_LINES: Final = msgspec.json.Decoder(_Line)


def open_history(path: Path) -> BinaryIO:
    """Open a history for reading; one that ends in `.gz` is decompressed."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def read_history(path: Path) -> Iterator[Change]:
    """Read the changes of a history. Raises `InputFileError`, which names line and field."""
    before = 0.0
    try:
        with open_history(path) as file:
            for number, text in enumerate(file, 1):
                change = _change(path, number, text)
                if change is None:
                    continue
                if change.seconds < before:
                    problem = f"expected at least {before}, as before, got {change.seconds}"
                    raise InputFileError(path, problem, line=number, field="at")
                before = change.seconds
                yield change
    except (OSError, EOFError) as error:
        raise InputFileError(path, getattr(error, "strerror", None) or str(error)) from error


def _change(path: Path, number: int, text: bytes) -> Change | None:
    try:
        line = _LINES.decode(text)
        if not line.change:
            return None
        if line.at is None:
            raise InputFileError(path, "missing", line=number, field="at")
        kind, obj = _object(line)
    except msgspec.MsgspecError as error:
        raise InputFileError(path, str(error), line=number) from error
    if not obj.metadata.name:
        raise InputFileError(path, "missing", line=number, field="object.metadata.name")
    return Change(line.at, line.change, kind, obj)


def _object(line: _Line) -> tuple[str, ApiObject]:
    """Return the key of the object's kind, and the object."""
    plural, _, group = line.resource.partition(".")
    resource = KINDS.get(plural)
    if resource is not None and resource.group_resource == line.resource:
        obj: ApiObject = msgspec.json.decode(line.object, type=resource.type)
        return resource.plural, obj
    version = msgspec.json.decode(line.object, type=_TypeMeta).api_version.rpartition("/")[2]
    key = ".".join(filter(None, (plural, version, group)))
    return key, Unstructured(msgspec.json.decode(line.object, type=dict[str, object]))


class HistoryWriter:
    """Writes a history."""

    def __init__(self, file: BinaryIO) -> None:
        self._file: Final = file

    def write(self, seconds: float, change: str, resource: str, obj: object) -> None:
        """Write one change of an object, given as JSON values."""
        line = {
            "at": round(seconds, _DIGITS),
            "change": change,
            "resource": resource,
            "object": obj,
        }
        # An unstructured object consists of read-only mappings.
        self._file.write(msgspec.json.encode(line, enc_hook=dict) + b"\n")
        self._file.flush()
