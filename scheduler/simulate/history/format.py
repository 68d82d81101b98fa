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

from typing import TYPE_CHECKING, BinaryIO, Final, Literal, NamedTuple

import msgspec

from scheduler.api.unstructured import Unstructured
from scheduler.client.kinds import KINDS
from scheduler.explain.input_files import line_of_errors, opened

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


_LINES: Final = msgspec.json.Decoder(_Line)


def read_history(path: Path) -> Iterator[Change]:
    """Read the changes of a history. Raises `InputFileError`, which names line and field."""
    before = 0.0
    with opened(path) as file:
        for number, text in enumerate(file, 1):
            with line_of_errors(path, number):
                change = _change(text, before)
            if change is not None:
                before = change.seconds
                yield change


def _change(text: bytes, before_seconds: float) -> Change | None:
    """Return the change of a line; None for a line without a change. Raises ValueError."""
    line = _LINES.decode(text)
    if not line.change:
        return None
    if line.at is None or line.at < before_seconds:
        raise ValueError(f"at: expected at least {before_seconds}, as before, got {line.at}")
    kind, obj = _object(line)
    if not obj.metadata.name:
        raise ValueError("object.metadata.name: missing")
    return Change(line.at, line.change, kind, obj)


def _object(line: _Line) -> tuple[str, ApiObject]:
    """Return the key of the object's kind, and the object."""
    plural, _, group = line.resource.partition(".")
    resource = KINDS.get(plural)
    if resource is not None and resource.group_resource == line.resource:
        obj: ApiObject = msgspec.json.decode(line.object, type=resource.type)
        return resource.plural, obj
    fields = msgspec.json.decode(line.object, type=dict[str, object])
    version = str(fields.get("apiVersion", "")).rpartition("/")[2]
    return ".".join(filter(None, (plural, version, group))), Unstructured(fields)


class HistoryWriter:
    """Writes a history."""

    def __init__(self, file: BinaryIO) -> None:
        self._file: Final = file

    def write(self, seconds: float, change: str, resource: str, obj: object) -> None:
        """Write one change of an object, given as JSON values."""
        at = round(seconds, _DIGITS)
        line = {"at": at, "change": change, "resource": resource, "object": obj}
        # An unstructured object consists of read-only mappings.
        self._file.write(msgspec.json.encode(line, enc_hook=dict) + b"\n")
        self._file.flush()
