"""The fields of every built-in type, and decoding of JSON into exactly these fields.

`schema.json` is written by tests/fakeapi/schema_generator from the struct tags of k8s.io/api
v0.36.3, with types and fields of v0.35.4 and v0.37.2 that schedulers of these versions read: per
type its fields in order, `[name, type, {flags, mergeKey, strategy, listType, ...}]`. Types are
`string`, `int32`..., `quantity`, `time`, `[]T`, `{}T` (a map) or the name of another type; flags
are `p` (pointer), `o` (omitempty) and `z` (omitzero). Protobuf field numbers and list types are for
protobuf and server-side apply. `$atomic` is not a type: it lists the structs that an apply replaces
whole.

Decoding gives the result of Go's decoder and encoder: unknown fields are dropped (and reported),
nulls and empty optional values are left out, required scalars get their zero value, quantities and
times their canonical form. The result shares nothing mutable with the input.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
import string
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from fakeapi.types import quantity, times

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.types.objects import Json

    #: Takes a value, and a list to which it adds the names of dropped fields.
    Convert: TypeAlias = Callable[[object, list[str]], object]

_PATH: Final = Path(__file__).with_name("schema.json")
_GO_TYPES: Final = {
    "string": "string", "bool": "bool", "int32": "int32", "int64": "int64", "int": "int",
    "float64": "float64", "bytes": "[]uint8", "time": "string", "microtime": "string",
    "quantity": "string", "intorstring": "intstr.IntOrString",
}  # fmt: skip
_JSON_SCHEMA: Final = "apiextensions/v1.JSONSchemaProps"
#: Types of a CRD's schema that allow a schema or another value.
_SCHEMAS: Final = {
    "schemaorbool": "bool",
    "schemaorarray": f"[]{_JSON_SCHEMA}",
    "schemaorstrings": "[]string",
}
_BASE64_MARKS: Final = frozenset(f"{string.ascii_letters}{string.digits}+/".encode())
_INTEGER_BITS: Final = {"int32": 31, "int64": 63, "int": 63}


class DecodeError(Exception):
    """A value has the wrong JSON type or cannot be parsed; `str()` is the text of Go's decoder."""

    def __init__(self, problem: str, go_type: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.go_type = go_type
        self.path: list[str] = []
        self.struct = ""

    def inside(self, name: str, struct: str) -> DecodeError:
        """Add the field and struct of the value to the path."""
        self.path.insert(0, name)
        self.struct = self.struct or struct
        return self

    def __str__(self) -> str:
        if not self.go_type:
            return self.problem
        if not self.path:
            return f"json: cannot unmarshal {self.problem} into Go value of type {self.go_type}"
        where = ".".join(self.path)
        return (
            f"json: cannot unmarshal {self.problem} into Go struct field {self.struct}.{where} "
            f"of type {self.go_type}"
        )


class Field(NamedTuple):
    """One field of a type, as schema.json has it."""

    name: str
    type: str
    flags: str = ""
    merge_key: str = ""
    strategies: tuple[str, ...] = ()
    default: object = None
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    #: How an apply treats the field, whatever its type: atomic, granular or empty.
    map_type: str = ""
    #: True if clients must send it.
    is_required: bool = True
    #: The numbers of the field in the protobuf message, and of the inlined struct; 0 for none.
    number: int = 0
    within: int = 0


@functools.cache
def atomic_types() -> frozenset[str]:
    """Return the structs that an apply replaces whole, whatever field they are in."""
    return frozenset(str(row[0]) for row in _table()["$atomic"])


@functools.cache
def _table() -> dict[str, list[list[object]]]:
    return msgspec.json.decode(_PATH.read_bytes(), type=dict[str, list[list[object]]])


@functools.cache
def digest() -> str:
    """Return a hash of the table of types."""
    return hashlib.sha256(_PATH.read_bytes()).hexdigest()


@functools.cache
def fields_of(type_name: str) -> dict[str, Field]:
    """Return the fields of a type by name, in Go's order; none for types that are not structs."""
    fields = {}
    for row in _table().get(type_name, []):
        extra = row[2] if len(row) > 2 else {}
        assert isinstance(extra, dict)
        fields[str(row[0])] = Field(
            str(row[0]),
            str(row[1]),
            extra.get("flags", ""),
            extra.get("mergeKey", ""),
            tuple(extra.get("strategy", "").split(",")) if extra.get("strategy") else (),
            extra.get("default"),
            extra.get("listType", ""),
            tuple(extra.get("listMapKeys", ())),
            extra.get("mapType", ""),
            not extra.get("optional", bool(set("oz") & set(extra.get("flags", "")))),
            extra.get("number", 0),
            extra.get("within", 0),
        )
    return fields


@functools.cache
def type_names() -> frozenset[str]:
    """Return the names of all types."""
    return frozenset(name for name in _table() if not name.startswith("$"))


def decode(type_name: str, value: object, dropped: list[str] | None = None) -> Json:
    """Return the value as a new object of a type. Raises DecodeError.

    The names of fields that the type does not have are added to `dropped`; `unknown_fields` has
    paths.
    """
    result = converter(type_name)(value, [] if dropped is None else dropped)
    assert isinstance(result, dict)
    return result


def unknown_fields(type_name: str, value: object, path: str = "") -> list[str]:
    """Return the paths of the fields that decoding drops."""
    paths: list[str] = []
    if type_name.startswith("[]") and isinstance(value, list):
        for index, item in enumerate(value):
            paths += unknown_fields(type_name[2:], item, f"{path}[{index}]")
    elif type_name.startswith("{}") and isinstance(value, dict):
        for key, item in value.items():
            paths += unknown_fields(type_name[2:], item, f"{path}.{key}" if path else key)
    elif type_name in _SCHEMAS:
        listed = "[]" if isinstance(value, list) else ""
        paths += unknown_fields(f"{listed}{_JSON_SCHEMA}", value, path)
    elif type_name in _table() and isinstance(value, dict):
        fields = fields_of(type_name)
        for key, item in value.items():
            inner = f"{path}.{key}" if path else key
            if key not in fields:
                paths.append(inner)
            elif item is not None:
                paths += unknown_fields(fields[key].type, item, inner)
    return paths


@functools.cache
def converter(type_name: str) -> Convert:
    """Return the function that decodes values of a type and raises DecodeError."""
    if type_name.startswith("[]"):
        return _list_converter(type_name)
    if type_name == "resources":
        return _map_converter("resources", _resource_quantity)
    if type_name.startswith("{}"):
        return _map_converter(type_name, converter(type_name[2:]))
    if type_name in _SCALARS:
        return _SCALARS[type_name]
    if type_name in _SCHEMAS:
        return _schema_converter(type_name)
    return _struct_converter(type_name)


def json_type(value: object) -> str:
    """Return Go's name of the type of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _wrong(value: object, go_type: str) -> DecodeError:
    return DecodeError(json_type(value), go_type)


def _string(value: object, _: list[str]) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise _wrong(value, "string")


def _bool(value: object, _: list[str]) -> bool:
    if isinstance(value, bool):
        return value
    if value is None:
        return False
    raise _wrong(value, "bool")


def _integer(go_type: str) -> Convert:
    limit = 2 ** _INTEGER_BITS[go_type]

    def convert(value: object, dropped: list[str]) -> object:
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(value, go_type)
        if not -limit <= value < limit:
            raise DecodeError(f"number {value}", go_type)
        return value

    return convert


def _float(value: object, _: list[str]) -> float:
    if value is None:
        return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise _wrong(value, "float64")


def _bytes(value: object, _: list[str]) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(value, "[]uint8")
    try:
        base64.b64decode(value, validate=True)
    except ValueError:
        where = _first_wrong_byte(value.encode())
        raise DecodeError(f"illegal base64 data at input byte {where}") from None
    return value


def _first_wrong_byte(raw: bytes) -> int:
    """Return Go's error offset: the first wrong byte, else the begin of a short last group."""
    content = raw.rstrip(b"=")
    wrong = next((index for index, mark in enumerate(content) if mark not in _BASE64_MARKS), None)
    return len(content) // 4 * 4 if wrong is None else wrong


def _parsed(parse: Callable[[str], str]) -> Convert:
    """Return a converter for text with a format of its own; None stays None."""

    def convert(value: object, dropped: list[str]) -> object:
        if value is None:
            return None
        if not isinstance(value, str):
            raise _wrong(value, "string")
        try:
            return parse(value)
        except ValueError as error:
            raise DecodeError(str(error)) from error

    return convert


def _quantity_of(parse: Callable[[str], str]) -> Convert:
    def convert(value: object, dropped: list[str]) -> object:
        if value is None:
            return "0"
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise DecodeError(quantity.FORMAT_MESSAGE)
        try:
            return parse(value.strip() if isinstance(value, str) else repr(value))
        except quantity.QuantityError as error:
            raise DecodeError(str(error)) from error

    return convert


def _int_or_string(value: object, _: list[str]) -> object:
    if value is None:
        return 0
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise _wrong(value, "intstr.IntOrString")


def _raw(value: object, _: list[str]) -> object:
    check_encodable(value)
    return value


def check_encodable(value: object) -> None:
    """Raise DecodeError for a value that Go cannot encode: such a value would break every list."""
    try:
        msgspec.json.encode(value)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DecodeError(f"json: unsupported value: {error}") from error


_resource_quantity: Final = _quantity_of(quantity.canonical_resource)
_SCALARS: Final[dict[str, Convert]] = {
    "string": _string,
    "bool": _bool,
    "int32": _integer("int32"),
    "int64": _integer("int64"),
    "int": _integer("int"),
    "float64": _float,
    "bytes": _bytes,
    "time": _parsed(times.canonical_time),
    "microtime": _parsed(times.canonical_micro_time),
    "quantity": _quantity_of(quantity.canonical),
    "intorstring": _int_or_string,
    "raw": _raw,
}
#: The values of missing non-pointer fields without omitempty; structs are made anew.
_ZEROS: Final[dict[str, object]] = {
    "string": "", "bool": False, "int32": 0, "int64": 0, "int": 0, "float64": 0,
    "quantity": "0", "intorstring": 0,
}  # fmt: skip


def _list_converter(type_name: str) -> Convert:
    inner = converter(type_name[2:])

    def convert(value: object, dropped: list[str]) -> object:
        if isinstance(value, list):
            return [inner(item, dropped) for item in value]
        if value is None:
            return []
        raise _wrong(value, "[]" + _go_type(type_name[2:]))

    return convert


def _map_converter(type_name: str, inner: Convert) -> Convert:
    def convert(value: object, dropped: list[str]) -> object:
        if isinstance(value, dict):
            return {key: inner(item, dropped) for key, item in value.items()}
        if value is None:
            return {}
        raise _wrong(value, "map[string]" + _go_type(type_name[2:]))

    return convert


def _schema_converter(type_name: str) -> Convert:
    """Return the converter of a JSON schema or of the value allowed in its place."""
    schemas = converter(_JSON_SCHEMA)
    short = converter(_SCHEMAS[type_name])

    def convert(value: object, dropped: list[str]) -> object:
        return (schemas if isinstance(value, dict) else short)(value, dropped)

    return convert


def _go_type(type_name: str) -> str:
    """Return Go's name of a type, whose package is the version of any group."""
    go_type = _GO_TYPES.get(type_name)
    return go_type or re.sub(r"[\w.-]+/", "", type_name)


class _Slot(NamedTuple):
    """The decoding of one field: the value if it is missing, and the values that are left out."""

    name: str
    convert: Convert
    is_struct: bool
    drops_empty: bool
    #: The value of a missing field, if `fills`: its declared default or Go's zero value.
    fills: bool
    filling: object


def _slot(field: Field) -> _Slot:
    """Apply Go's rules: nil pointers are left out, omitempty keeps structs, omitzero does not."""
    is_value = "p" not in field.flags
    is_struct = field.type in _table() and is_value and "z" not in field.flags
    optional = "o" in field.flags or "z" in field.flags
    always = field.type in ("quantity", "intorstring", "time", "microtime") and is_value
    drops_empty = optional and is_value and not always and not is_struct
    if field.default is not None and (field.default or not drops_empty):
        fills, filling = True, field.default
    else:
        fills = "z" not in field.flags if always else not optional
        filling = _ZEROS.get(field.type) if is_value else None
    return _Slot(field.name, converter(field.type), is_struct, drops_empty, fills, filling)


def _struct_converter(type_name: str) -> Convert:
    if type_name not in _table():
        raise LookupError(f"no type {type_name} in schema.json")
    short = type_name.rpartition(".")[2]
    slots: dict[str, _Slot] = {}
    always: list[_Slot] = []

    def convert(value: object, dropped: list[str]) -> object:
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise _wrong(value, _go_type(type_name))
        if not slots:  # filled on first use, because types refer to one another
            slots.update((field.name, _slot(field)) for field in fields_of(type_name).values())
            always.extend(slot for slot in slots.values() if slot.is_struct or slot.fills)
        result: Json = {}
        for name, item in value.items():
            slot = slots.get(name)
            if slot is None:
                dropped.append(name)
            elif item is not None:
                try:
                    item = slot.convert(item, dropped)
                except DecodeError as error:
                    raise error.inside(name, short) from None
                if item or not slot.drops_empty:
                    result[name] = item
        for slot in always:
            if slot.name not in result:
                result[slot.name] = slot.convert({}, dropped) if slot.is_struct else slot.filling
        return result

    return convert
