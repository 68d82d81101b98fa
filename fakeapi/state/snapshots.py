"""The whole state of a server in one JSON file, which is replaced in one step.

    {"format": "kubesched-fakeapi snapshot", "formatVersion": 1, "savedSeconds": 1790000000.0,
     "contents": {"resourceVersion": 179..., "start": 179..., "collections": [...]}}

So a reader sees the old snapshot or the new one, never half of a snapshot, and a crash during the
write leaves the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi import private_file
from fakeapi.state.contents import Contents, StateError, file_error

if TYPE_CHECKING:
    from pathlib import Path

_FORMAT: Final = "kubesched-fakeapi snapshot"
_FORMAT_VERSION: Final = 1


class _Header(msgspec.Struct, rename="camel"):
    """The format and version of a snapshot."""

    format: str = ""
    format_version: int = 0


class _Snapshot(_Header, rename="camel", kw_only=True):
    """The whole file. `saved_seconds` is for people, since 1970 on the server's clock."""

    saved_seconds: float
    contents: Contents


def write_snapshot(path: Path, contents: Contents, *, now_seconds: float) -> None:
    """Put a snapshot in the place of the old file, if any. Raises StateError."""
    snapshot = _Snapshot(_FORMAT, _FORMAT_VERSION, saved_seconds=now_seconds, contents=contents)
    try:
        private_file.replace(path, msgspec.json.encode(snapshot) + b"\n", is_durable=True)
    except OSError as error:
        raise file_error(path, error) from error


def read_snapshot(path: Path) -> Contents:
    """Return the contents of a snapshot. Raises StateError."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise file_error(path, error) from error
    try:
        header = msgspec.json.decode(raw, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateError(f"{path}: no snapshot, or a damaged one: {error}") from error
    if header.format != _FORMAT:
        raise StateError(f"{path}: format: expected {_FORMAT!r}, found {header.format!r}")
    if header.format_version != _FORMAT_VERSION:
        raise StateError(
            f"{path}: formatVersion: expected {_FORMAT_VERSION}, found {header.format_version}"
        )
    try:
        return msgspec.json.decode(raw, type=_Snapshot).contents
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateError(f"{path}: {error}") from error
