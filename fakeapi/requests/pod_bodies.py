"""New pods as they are sent: the spec of a workload's pods is read once.

A body is taken apart around the text of its spec. If that text has come before, in a body of which
nothing was to be said, its stored form is known, and only the frame is read:

    {"kind": "Pod", "apiVersion": "v1", "metadata": {...}, "spec": <known text>, "status": {}}

Any other frame is left to the long way: one with more of a status, a field that is said twice or
that nobody knows, escaped characters, entries of managers.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fakeapi.types import schema
from fakeapi.types.objects import Json
from fakeapi.types.schema import DecodeError
from fakeapi.writes.completion import keep_spec, known_spec

__all__ = ["learn", "recalled"]

_metadata_of: Final = schema.converter("meta/v1.ObjectMeta")
#: The quotes of the names of metadata and spec, of that of the status, of any other and its text.
_QUOTES: Final = 4
_QUOTES_OF_STATUS: Final = 2
_QUOTES_OF_TEXT: Final = 4


class _Body(msgspec.Struct, forbid_unknown_fields=True, rename={"api_version": "apiVersion"}):
    metadata: Json
    spec: msgspec.Raw
    kind: str = ""
    api_version: str = ""
    status: Json | None = None


_decode = msgspec.json.Decoder(_Body).decode
_encode = msgspec.json.Encoder().encode


def recalled(raw: bytes) -> Json | None:
    """The stored form of the pod in a body, None if the body has to be read in full.

    There is nothing to be said of the body; the spec is shared, the rest the caller's own.
    """
    body = _taken_apart(raw)
    if body is None:
        return None
    text = bytes(body.spec)
    spec = known_spec(text)
    if spec is None or not _is_plain(raw, text, body):
        return None
    dropped: list[str] = []
    try:
        metadata = _metadata_of(body.metadata, dropped)
    except DecodeError:
        return None
    return None if dropped else {"metadata": metadata, "spec": spec, "status": {}}


def learn(raw: bytes, pod: Json) -> None:
    """Remember what became of the spec in a body that was read in full without any findings."""
    body = _taken_apart(raw)
    if body is not None:
        keep_spec(bytes(body.spec), pod.get("spec"))


def _taken_apart(raw: bytes) -> _Body | None:
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _is_plain(raw: bytes, spec: bytes, body: _Body) -> bool:
    """Whether the frame is what it seems: whatever else were in it would cost two quotes."""
    metadata = body.metadata
    owners = metadata.get("ownerReferences", [])
    if "managedFields" in metadata or not isinstance(owners, list) or len(owners) > 1:
        return False
    if body.kind not in ("", "Pod") or body.api_version not in ("", "v1"):
        return False
    frame = raw.replace(spec, b"", 1)
    if b"\\" in frame:
        return False
    given = _QUOTES + (_QUOTES_OF_TEXT if body.kind else 0)
    given += 0 if body.status is None else _QUOTES_OF_STATUS
    given += _encode(metadata).count(b'"') + (_QUOTES_OF_TEXT if body.api_version else 0)
    return frame.count(b'"') == given
