"""Changes of stored objects in the API server's protobuf format.

The API server compares some fields with the stored ones by their bytes: the opaque parameters of a
resource claim, for example. Every write in JSON changes these bytes if they were stored with blanks
between them, and is refused then ("field is immutable"). A write in protobuf keeps them.
A message that is appended to another one of its type is merged with it: texts are replaced, and
lists get longer.
Source: apimachinery `pkg/runtime/serializer/protobuf`; protobuf's "Encoding", "Last One Wins".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
#: For an Accept header: JSON from a server without protobuf.
PREFERRED: Final = f"{MEDIA_TYPE}, application/json"
_MAGIC: Final = b"k8s\0"
#: The fields of `runtime.Unknown`, the envelope of an object.
_OBJECT: Final = 2
_BYTES: Final = 2


def field(number: int, value: bytes | str) -> bytes:
    """Return a field with a text or a message."""
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _BYTES) + _varint(len(raw)) + raw


def is_object(body: bytes) -> bool:
    """True if a body is an object in protobuf."""
    return body.startswith(_MAGIC)


def edited(body: bytes, edit: Callable[[bytes], bytes]) -> bytes:
    """Return an object whose message is replaced by the result of `edit`.

    Raises ValueError for other bytes than an object.
    """
    if not is_object(body):
        raise ValueError("not an object in protobuf")
    envelope = fields(body[len(_MAGIC) :])
    return _MAGIC + b"".join(
        field(number, edit(value) if number == _OBJECT else value) for number, value in envelope
    )


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and values of a message of texts and messages only.

    Raises ValueError for other messages.
    """
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        size, at = _read_varint(message, at)
        if tag & 7 != _BYTES or at + size > len(message):
            raise ValueError("not a message of texts and messages")
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    """Return a number and the position after it."""
    value = shift = 0
    while at < len(body):
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("ends in the middle of a number")
