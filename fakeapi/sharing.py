"""Values that many objects have in common, such as the spec of a workload's pods, held once.

Stored objects are never changed, so they may share parts. What is shared also has its JSON text at
hand, by which checks and rules know what they have seen before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from .objects import Json

__all__ = ["shared", "text_of"]

_SHARED_MAX: Final = 1024
#: What is larger comes too rarely to be worth its room.
_SHARED_BYTES_MAX: Final = 16 * 1024
_encode = msgspec.json.Encoder().encode
_by_text: Final[dict[bytes, Json]] = {}
#: By identity; the object is kept, so that no other can take its identity.
_texts: Final[dict[int, tuple[Json, bytes]]] = {}


def shared(value: Json) -> Json:
    """An equal value that others may have as well; nobody may change it from now on."""
    text = _encode(value)
    known = _by_text.get(text)
    if known is not None:
        return known
    if len(text) <= _SHARED_BYTES_MAX:
        if len(_by_text) >= _SHARED_MAX:
            _by_text.clear()
            _texts.clear()
        _by_text[text] = value
        _texts[id(value)] = (value, text)
    return value


def text_of(value: object) -> bytes:
    """The JSON text of a value, which need not be made for one that is shared."""
    known = _texts.get(id(value))
    return known[1] if known is not None and known[0] is value else _encode(value)
