"""Request bodies in application/vnd.kubernetes.protobuf, as typed clients of client-go send them.

A body is four bytes of magic and a runtime.Unknown message: the kind, and the object as bytes of
another message. `open_envelope` decodes the first, `decode_message` makes the JSON form of the
second, with the field numbers of schema.json. The google.protobuf library reads the wire format. It
takes 70 ms to import and its classes 40 ms to build, so both wait for the first such body.

Source: apimachinery pkg/runtime/serializer/protobuf/protobuf.go and the generated.proto files of
k8s.io/api v0.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.types.protobuf.errors import WireError as WireError

if TYPE_CHECKING:
    from fakeapi.types.objects import Json

_MAGIC: Final = b"k8s\x00"


@dataclasses.dataclass(frozen=True, slots=True)
class Envelope:
    """A runtime.Unknown: apiVersion and kind, empty where they are missing, and the message."""

    api_version: str
    kind: str
    message: bytes


def open_envelope(raw: bytes) -> Envelope:
    """Decode magic and envelope of a request body. Raises WireError."""
    if not raw:
        raise WireError("empty data")
    if not raw.startswith(_MAGIC):
        expected = " ".join(str(byte) for byte in _MAGIC)
        raise WireError(
            f"provided data does not appear to be a protobuf message, expected prefix [{expected}]"
        )
    if raw == _MAGIC:
        raise WireError("empty body")
    from fakeapi.types.protobuf import messages

    return Envelope(*messages.read_unknown(raw[len(_MAGIC) :]))


def decode_message(type_name: str, message: bytes, *, values_max: int = 0) -> Json:
    """Return the JSON form of a message, as Go clients send it in JSON. Raises WireError.

    A message with more values than `values_max` is refused, unless `values_max` is 0.

    Explicit zero values stay and empty times are None; `schema.decode` drops both. Unknown fields
    are ignored.
    """
    from fakeapi.types.protobuf import messages

    return messages.read(type_name, message, values_max=values_max)
