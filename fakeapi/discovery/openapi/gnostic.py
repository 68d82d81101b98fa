"""The OpenAPI v2 document as protobuf, the form that Go clients request.

    application/com.github.proto-openapi.spec.v2@v1.0+protobuf

Field numbers are those of openapiv2/OpenAPIv2.proto of github.com/google/gnostic-models v0.7.0.
Only the messages that the document uses are written.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from fakeapi.types.objects import Json, encode, mapping, mappings, sequence, text, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_VARINT: Final = 0
_FIXED_64: Final = 1
_BYTES: Final = 2
_SCHEMA_TEXTS: Final = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_SCHEMA_NUMBERS: Final = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_SCHEMA_COUNTS: Final = {
    "maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "maxProperties": 17,
    "minProperties": 18,
}  # fmt: skip
_SCHEMA_FLAGS: Final = {"exclusiveMaximum": 8, "exclusiveMinimum": 10, "uniqueItems": 16}
_METHODS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
_QUERY: Final = 3
_PATH: Final = 4


def document(value: Json) -> bytes:
    """Encode the document."""
    info = mapping(value["info"])
    paths = _named(mapping(value["paths"]), 2, _path)
    definitions = _named(mapping(value["definitions"]), 1, _schema)
    return b"".join((
        _text(1, value["swagger"]),
        _message(2, _text(1, info["title"]) + _text(2, info["version"])),
        _message(8, paths),
        _message(9, definitions),
    ))  # fmt: skip


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _key(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _message(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content


def _text(number: int, value: object) -> bytes:
    """Encode a string field; an empty string is left out."""
    return _message(number, text(value).encode()) if value else b""


def _texts(number: int, values: object) -> bytes:
    return b"".join(_message(number, item.encode()) for item in texts(values))


def _flag(number: int, value: object) -> bytes:
    return _key(number, _VARINT) + b"\x01" if value is True else b""


def _named(entries: Json, number: int, write: Callable[[Json], bytes]) -> bytes:
    """Encode an ordered map: repeated pairs of a name and a message."""
    return b"".join(
        _message(number, _text(1, name) + _message(2, write(mapping(item))))
        for name, item in entries.items()
    )


def _any(value: object) -> bytes:
    """Encode a value of any type as YAML, of which JSON is a part."""
    return _message(2, encode(value))


def _extensions(number: int, value: Json) -> bytes:
    return b"".join(
        _message(number, _text(1, name) + _message(2, _any(item)))
        for name, item in value.items()
        if name.startswith("x-")
    )


def _schema(value: Json) -> bytes:
    parts: list[bytes] = [_text(number, value.get(name)) for name, number in _SCHEMA_TEXTS.items()]
    for name, number in _SCHEMA_NUMBERS.items():
        item = value.get(name)
        if isinstance(item, int | float):
            parts.append(_key(number, _FIXED_64) + struct.pack("<d", item))
    for name, number in _SCHEMA_COUNTS.items():
        item = value.get(name)
        if isinstance(item, int):
            parts.append(_key(number, _VARINT) + _varint(item))
    parts += [_flag(number, value.get(name)) for name, number in _SCHEMA_FLAGS.items()]
    parts.append(_texts(19, value.get("required")))
    parts += [_message(20, _any(item)) for item in sequence(value.get("enum"))]
    additional = value.get("additionalProperties")
    if isinstance(additional, dict):
        parts.append(_message(21, _message(1, _schema(additional))))
    elif isinstance(additional, bool):
        parts.append(_message(21, _key(2, _VARINT) + _varint(additional)))
    if "type" in value:
        parts.append(_message(22, _text(1, value["type"])))
    if isinstance(value.get("items"), dict):
        parts.append(_message(23, _message(1, _schema(mapping(value["items"])))))
    parts += [_message(24, _schema(item)) for item in mappings(value.get("allOf"))]
    if "properties" in value:
        parts.append(_message(25, _named(mapping(value["properties"]), 1, _schema)))
    parts.append(_extensions(31, value))
    return b"".join(parts)


def _path(value: Json) -> bytes:
    operations = (
        _message(number, _operation(mapping(value[method])))
        for method, number in _METHODS.items()
        if method in value
    )
    return b"".join(operations) + _parameters(9, mappings(value.get("parameters")))


def _operation(value: Json) -> bytes:
    responses = _named(mapping(value.get("responses")), 1, _response)
    return b"".join((
        _texts(1, value.get("tags")),
        _text(3, value.get("description")),
        _text(5, value.get("operationId")),
        _texts(6, value.get("produces")),
        _texts(7, value.get("consumes")),
        _parameters(8, mappings(value.get("parameters"))),
        _message(9, responses),
        _extensions(13, value),
    ))  # fmt: skip


def _response(value: Json) -> bytes:
    content = _text(1, value.get("description"))
    if "schema" in value:
        content += _message(2, _message(1, _schema(mapping(value["schema"]))))
    return _message(1, content)


def _parameters(number: int, values: Iterable[Json]) -> bytes:
    return b"".join(_message(number, _message(1, _parameter(value))) for value in values)


def _parameter(value: Json) -> bytes:
    if value.get("in") == "body":
        schema = _message(5, _schema(mapping(value.get("schema"))))
        return _message(
            1,
            _text(1, value.get("description"))
            + _text(2, value.get("name"))
            + _text(3, "body")
            + _flag(4, value.get("required"))
            + schema,
        )
    is_path = value.get("in") == "path"
    # The two messages differ by one field, allowEmptyValue, which shifts those after it.
    numbers = (5, 19) if is_path else (6, 20)
    content = b"".join((
        _flag(1, value.get("required")),
        _text(2, value.get("in")),
        _text(3, value.get("description")),
        _text(4, value.get("name")),
        _text(numbers[0], value.get("type")),
        _flag(numbers[1], value.get("uniqueItems")),
    ))  # fmt: skip
    return _message(2, _message(_PATH if is_path else _QUERY, content))
