"""Values that many objects have in common, such as the spec of a workload's pods, held once.

Stored objects are never changed, so they may share parts. What is shared also has its JSON text at
hand: checks and rules know by it what they have seen before, and it need not be made again.

    shared(value)            an equal value that others may have as well
    changed(value, fields)   another shared value, if the one is
    owned(value)             a copy to be changed in place
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

import msgspec

if TYPE_CHECKING:
    from fakeapi.types.objects import Json

__all__ = ["changed", "encode", "is_shared", "owned", "shared", "spoiled", "text_of"]

_SHARED_MAX: Final = 1024
#: What is larger comes too rarely to be worth its room.
_SHARED_BYTES_MAX: Final = 16 * 1024
_Shared = TypeVar("_Shared", "Json", "list[Json]")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, object]).decode


class _Known(NamedTuple):
    """A shared value and its text; `raw` is what an encoder takes as it is."""

    value: object
    text: bytes
    raw: msgspec.Raw


_by_text: Final[dict[bytes, _Known]] = {}
#: By identity; the value is kept, so that no other can take its identity.
_by_id: Final[dict[int, _Known]] = {}


def shared(value: _Shared) -> _Shared:
    """An equal value that others may have as well; nobody may change it from now on."""
    if _known(value) is not None:
        return value
    text = _encode(value)
    known = _by_text.get(text)
    if known is not None:
        return cast("_Shared", known.value)
    if len(text) <= _SHARED_BYTES_MAX:
        if len(_by_text) >= _SHARED_MAX:
            _by_text.clear()
            _by_id.clear()
        known = _Known(value, text, msgspec.Raw(text))
        _by_text[text] = _by_id[id(value)] = known
    return value


def changed(value: Json, fields: Json) -> Json:
    """The value with these fields in place of its own, shared if it was."""
    made = {**value, **fields}
    return shared(made) if is_shared(value) else made


def owned(value: Json) -> Json:
    """A copy to change in place: parts of the value may be shared even if it is not."""
    return _decode(text_of(value))


def is_shared(value: object) -> bool:
    """Whether others may have this very value as well."""
    return _known(value) is not None


def text_of(value: object) -> bytes:
    """The JSON text of a value, which need not be made for one that is shared."""
    found = _by_id.get(id(value))
    return found.text if found is not None and found.value is value else _encode(value)


def encode(obj: Json) -> bytes:
    """The JSON text of a whole object, whose shared parts are taken as they are."""
    spec, metadata = _known(obj.get("spec")), obj.get("metadata")
    owners = _known(metadata.get("managedFields")) if isinstance(metadata, dict) else None
    if spec is None and owners is None:
        return _encode(obj)
    shown = dict(obj)
    if spec is not None:
        shown["spec"] = spec.raw
    if owners is not None and isinstance(metadata, dict):
        shown["metadata"] = {**metadata, "managedFields": owners.raw}
    return _encode(shown)


def spoiled() -> list[bytes]:
    """What was shared and is not what it was any more: somebody's defect, for which tests look."""
    return [text for text, known in _by_text.items() if _encode(known.value) != text]


def _known(value: object) -> _Known | None:
    found = _by_id.get(id(value))
    return found if found is not None and found.value is value else None
