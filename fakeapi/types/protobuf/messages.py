"""Message classes made from schema.json, and the JSON form of their messages.

A type's JSON form and its message differ in four ways: a struct that is inlined in JSON is a
message of its own (`within`), a map is a list of entries, a list inside a map is a message with one
field, and quantities, times, IntOrString and raw JSON are messages. The names of messages show it:

    core/v1.Volume      the type's own fields     core/v1.Volume#2   fields inlined as field 2
    {}string            an entry of a map         []string           a list as a message

Strings are declared as bytes: Go does not check that they are UTF-8, the library would.
"""

from __future__ import annotations

import base64
import functools
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from fakeapi.types import schema, times
from fakeapi.types.protobuf.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeapi.types.objects import Json

    #: Returns the JSON form of one value of a field. The library's values have no static types.
    Read: TypeAlias = Callable[[Any], object]

_Field: Final = descriptor_pb2.FieldDescriptorProto
_PACKAGE: Final = "kubernetes"
_SCALARS: Final = {
    "string": _Field.TYPE_BYTES,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int": _Field.TYPE_INT64,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "float64": _Field.TYPE_DOUBLE,
}
_SCHEMA: Final = "apiextensions/v1.JSONSchemaProps"


class _Row(NamedTuple):
    """One field of a message."""

    number: int
    #: The name in JSON; empty if the fields of its struct are inlined.
    name: str
    #: The type of its value: a message or scalar.
    holds: str
    repeated: bool = False


#: Messages whose fields are not in schema.json.
_SPECIAL: Final[Mapping[str, tuple[_Row, ...]]] = {
    "unknown": (_Row(1, "typeMeta", "typemeta"), _Row(2, "raw", "bytes")),
    "typemeta": (_Row(1, "apiVersion", "string"), _Row(2, "kind", "string")),
    "quantity": (_Row(1, "string", "string"),),
    "time": (_Row(1, "seconds", "int64"), _Row(2, "nanos", "int32")),
    "microtime": (_Row(1, "seconds", "int64"), _Row(2, "nanos", "int32")),
    "intorstring": (
        _Row(1, "type", "int64"), _Row(2, "intVal", "int32"), _Row(3, "strVal", "string"),
    ),
    "raw": (_Row(1, "raw", "bytes"),),
    "schemaorbool": (_Row(1, "allows", "bool"), _Row(2, "schema", _SCHEMA)),
    "schemaorarray": (_Row(1, "schema", _SCHEMA), _Row(2, "several", _SCHEMA, True)),
    "schemaorstrings": (_Row(1, "schema", _SCHEMA), _Row(2, "several", "string", True)),
}  # fmt: skip


def read_unknown(raw: bytes) -> tuple[str, str, bytes]:
    """Return the apiVersion, kind and raw message of a runtime.Unknown. Raises WireError."""
    unknown: Any = _parsed("unknown", raw)
    type_meta = unknown.typeMeta
    return _string(type_meta.apiVersion), _string(type_meta.kind), unknown.raw


def read(type_name: str, raw: bytes, *, values_max: int = 0) -> Json:
    """Return the JSON form of a message with at most `values_max` values. Raises WireError.

    The library parses faster than Python makes values, so the values are counted first.
    """
    message = _parsed(type_name, raw)
    if 0 < values_max < len(raw) and _is_wide(message, values_max):
        raise WireError(f"exceeded max number of {values_max} values")
    value = _reader(type_name)(message)
    assert isinstance(value, dict)
    return value


def _is_wide(message: Message, values_max: int) -> bool:
    """Return True if a message has more values; it stops to count them there."""
    count, waiting = 0, [message]
    while waiting:
        for descriptor, value in waiting.pop().ListFields():
            is_single = isinstance(value, Message | bytes | str | int | float)
            count += 1 if is_single else len(value)
            if count > values_max:
                return True
            if descriptor.message_type is not None:
                waiting += [value] if is_single else value
    return False


def _parsed(message_name: str, raw: bytes) -> Message:
    message = _class(message_name)()
    try:
        message.ParseFromString(raw)
    except DecodeError as error:
        raise WireError("unexpected EOF") from error
    return message


@functools.cache
def _class(message_name: str) -> type[Message]:
    descriptor = _pool().FindMessageTypeByName(f"{_PACKAGE}.{_identifier(message_name)}")
    return message_factory.GetMessageClass(descriptor)


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    """Return a pool with all types of schema.json in one file: they refer to one another."""
    file = descriptor_pb2.FileDescriptorProto(name="kubernetes.proto", package=_PACKAGE)
    wanted = [*_SPECIAL, *schema.type_names()]
    declared: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in declared:
            declared.add(name)
            wanted += _declare(file, name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _declare(file: descriptor_pb2.FileDescriptorProto, message_name: str) -> list[str]:
    """Add a message to the file; return the messages of its fields."""
    message = file.message_type.add(name=_identifier(message_name))
    is_struct = message_name.partition("#")[0] in schema.type_names()
    needed = []
    for row in _rows(message_name):
        field = message.field.add(
            name=f"field_{row.number}" if is_struct else row.name,  # not `$ref`
            number=row.number,
            label=_Field.LABEL_REPEATED if row.repeated else _Field.LABEL_OPTIONAL,
        )
        if row.holds in _SCALARS:
            field.type = _SCALARS[row.holds]
        else:
            field.type = _Field.TYPE_MESSAGE
            field.type_name = f".{_PACKAGE}.{_identifier(row.holds)}"
            needed.append(row.holds)
    return needed


def _identifier(message_name: str) -> str:
    named = message_name.replace("{}", "map_of_").replace("[]", "list_of_")
    return re.sub(r"\W", "_", named)


@functools.cache
def _rows(message_name: str) -> tuple[_Row, ...]:
    if message_name in _SPECIAL:
        return _SPECIAL[message_name]
    if message_name.startswith("{}"):
        return (_Row(1, "key", "string"), _Row(2, "value", message_name[2:]))
    if message_name.startswith("[]"):
        return (_Row(1, "items", message_name[2:], repeated=True),)
    struct, _, inlined = message_name.partition("#")
    rows: dict[int, _Row] = {}
    for field in schema.fields_of(struct).values():
        if field.within and not inlined:
            rows[field.within] = _Row(field.within, "", f"{struct}#{field.within}")
        elif field.number and field.within == int(inlined or 0):
            rows[field.number] = _row(field)
    return tuple(rows.values())


def _row(field: schema.Field) -> _Row:
    holds = "{}quantity" if field.type == "resources" else field.type
    if holds.startswith("[]"):
        return _Row(field.number, field.name, holds[2:], repeated=True)
    return _Row(field.number, field.name, holds, repeated=holds.startswith("{}"))


@functools.cache
def _reader(message_name: str) -> Read:
    """Return the function that makes the JSON form of a message or scalar."""
    if message_name in _READERS:
        return _READERS[message_name]
    if message_name.startswith("[]"):
        item = _reader(message_name[2:])
        return lambda message: [item(value) for value in message.items]
    return _struct_reader(message_name)


def _struct_reader(message_name: str) -> Read:
    fields: dict[int, tuple[str, Read]] = {}

    def read_struct(message: Message) -> object:
        if not fields:  # filled on first use, because types refer to one another
            fields.update(
                (row.number, (row.name, _field_reader(row))) for row in _rows(message_name)
            )
        result: Json = {}
        inlined: Json = {}
        for descriptor, value in message.ListFields():
            name, convert = fields[descriptor.number]
            if name:
                result[name] = convert(value)
            else:
                part = convert(value)
                assert isinstance(part, dict)
                inlined.update(part)
        return {**inlined, **result} if inlined else result

    return read_struct


def _field_reader(row: _Row) -> Read:
    if row.holds.startswith("{}"):
        value_of = _reader(row.holds[2:])
        return lambda entries: {_string(entry.key): value_of(entry.value) for entry in entries}
    item = _reader(row.holds)
    if row.repeated:
        return lambda values: [item(value) for value in values]
    return item


def _string(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _same(value: object) -> object:
    return value


def _time(message: Any) -> str | None:
    """Return None for an empty time."""
    if not message.seconds and not message.nanos:
        return None
    try:
        return times.timestamp(message.seconds)
    except (ValueError, OverflowError, OSError) as error:
        raise WireError(f"a time of {message.seconds} seconds is out of range") from error


def _micro_time(message: Any) -> str | None:
    whole = _time(message)
    return whole and f"{whole[:-1]}.{message.nanos // 1000:06}Z"


def _int_or_string(message: Any) -> object:
    return _string(message.strVal) if message.type == 1 else message.intVal


def _raw(message: Any) -> object:
    """Return raw JSON in protobuf: the fields of managedFields, parameters of devices."""
    if not message.raw:
        return None
    try:
        return msgspec.json.decode(message.raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"raw JSON cannot be decoded: {error}") from error


def _schema_or_bool(message: Any) -> object:
    return _reader(_SCHEMA)(message.schema) if message.HasField("schema") else message.allows


def _schema_or_several(item: str) -> Read:
    def read_either(message: Any) -> object:
        if message.several:
            return [_reader(item)(value) for value in message.several]
        return _reader(_SCHEMA)(message.schema) if message.HasField("schema") else None

    return read_either


_READERS: Final[Mapping[str, Read]] = {
    "string": _string,
    "bytes": lambda value: base64.b64encode(value).decode(),
    **dict.fromkeys(("bool", "int", "int32", "int64", "float64"), _same),
    "quantity": lambda message: _string(message.string) or "0",
    "time": _time,
    "microtime": _micro_time,
    "intorstring": _int_or_string,
    "raw": _raw,
    "schemaorbool": _schema_or_bool,
    "schemaorarray": _schema_or_several(_SCHEMA),
    "schemaorstrings": _schema_or_several("string"),
}
