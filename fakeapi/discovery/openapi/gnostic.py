"""The OpenAPI v2 document as protobuf, the form that Go clients request.

    application/com.github.proto-openapi.spec.v2@v1.0+protobuf

The numbers of fields are from openapiv2/OpenAPIv2.proto of github.com/google/gnostic-models v0.7.0.
Only the fields that the document uses are declared, under the names that they have in JSON.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from fakeapi.types.objects import Json, encode, mapping, sequence

if TYPE_CHECKING:
    from google.protobuf.message import Message

_Field: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "string": _Field.TYPE_STRING,
    "double": _Field.TYPE_DOUBLE,
    "int": _Field.TYPE_INT64,
    "bool": _Field.TYPE_BOOL,
}
#: Signs of types as parts of identifiers; `=` is for the pairs of a map.
_SIGNS: Final = {"{": "map", "}": "of", "@": "one", "=": "pair"}
#: The fields of each message as NAME:NUMBER:TYPE. A type T with a sign is
#: T* a list, @T a message with a T as field 1, {N}T a map: pairs of a name and a T as field N.
_MESSAGES: Final = {
    "Document": "swagger:1:string info:2:Info paths:8:{2}Path definitions:9:{1}Schema",
    "Info": "title:1:string version:2:string",
    "Path": "get:2:Operation put:3:Operation post:4:Operation delete:5:Operation "
    "patch:8:Operation parameters:9:@Parameter*",
    "Operation": "tags:1:string* description:3:string operationId:5:string produces:6:string* "
    "consumes:7:string* parameters:8:@Parameter* responses:9:{1}@Response extensions:13:Extension*",
    "Response": "description:1:string schema:2:@Schema",
    "Parameter": "body:1:Body other:2:Other",
    "Body": "description:1:string name:2:string in:3:string required:4:bool schema:5:Schema",
    "Other": "query:3:Query path:4:InPath",
    "Query": "required:1:bool in:2:string description:3:string name:4:string type:6:string "
    "uniqueItems:20:bool",
    "InPath": "required:1:bool in:2:string description:3:string name:4:string type:5:string "
    "uniqueItems:19:bool",
    "Schema": "ref:1:string format:2:string title:3:string description:4:string "
    "multipleOf:6:double maximum:7:double exclusiveMaximum:8:bool minimum:9:double "
    "exclusiveMinimum:10:bool maxLength:11:int minLength:12:int pattern:13:string maxItems:14:int "
    "minItems:15:int uniqueItems:16:bool maxProperties:17:int minProperties:18:int "
    "required:19:string* enum:20:Any* additionalProperties:21:SchemaOrBool type:22:@string "
    "items:23:@Schema allOf:24:Schema* properties:25:{1}Schema extensions:31:Extension*",
    "SchemaOrBool": "schema:1:Schema allows:2:bool",
    "Extension": "name:1:string value:2:Any",
    "Any": "yaml:2:string",
}


def document(value: Json) -> bytes:
    """Encode the document."""
    made = _document_class()(**_message("Document", value))
    return made.SerializeToString(deterministic=True)


@functools.cache
def _document_class() -> type[Message]:
    file = descriptor_pb2.FileDescriptorProto(name="openapi.proto", package="openapi")
    declared: set[str] = set()
    wanted = ["Document"]
    while wanted:
        message_name = wanted.pop()
        if message_name in declared:
            continue
        declared.add(message_name)
        message = file.message_type.add(name=_identifier(message_name))
        for name, (number, kind) in _fields(message_name).items():
            label = _Field.LABEL_REPEATED if kind.endswith("*") else _Field.LABEL_OPTIONAL
            field = message.field.add(name=name, number=number, label=label)
            kind = kind.removesuffix("*")
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type_name = f".openapi.{_identifier(kind)}"
                wanted.append(kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("openapi.Document"))


def _identifier(message_name: str) -> str:
    return re.sub(r"\W", lambda sign: _SIGNS[sign[0]], message_name)


@functools.cache
def _fields(message_name: str) -> dict[str, tuple[int, str]]:
    """Return numbers and types by name."""
    kind = message_name[1:]
    if message_name.startswith("@"):
        return {"item": (1, "string*" if kind == "string" else kind)}
    if message_name.startswith("{"):
        return {"items": (int(message_name[1]), f"={message_name[3:]}*")}
    if message_name.startswith("="):
        return {"name": (1, "string"), "value": (2, kind)}
    fields = (field.split(":") for field in _MESSAGES[message_name].split())
    return {name: (int(number), kind) for name, number, kind in fields}


def _message(name: str, value: Json) -> Json:
    """Return the fields of a message, with the fields of its parts."""
    if name in ("Schema", "Operation"):
        extensions = [
            {"name": key, "value": item} for key, item in value.items() if key.startswith("x-")
        ]
        value = {**value, "ref": value.get("$ref"), "extensions": extensions}
    return {
        field: _value(kind, value[field])
        for field, (_, kind) in _fields(name).items()
        if value.get(field) is not None
    }


def _value(kind: str, value: Any) -> object:
    if kind.endswith("*"):
        return [_value(kind[:-1], item) for item in sequence(value)]
    if kind in _SCALARS:
        return value
    if kind.startswith("{"):
        pairs = [{"name": name, "value": _value(kind[3:], item)} for name, item in value.items()]
        return {"items": pairs}
    if kind.startswith("@"):
        return {"item": [value] if kind == "@string" else _value(kind[1:], value)}
    if kind == "Any":
        return {"yaml": encode(value).decode()}  # of YAML, JSON is a part
    if kind == "SchemaOrBool" and isinstance(value, bool):
        return {"allows": value}
    if kind == "SchemaOrBool":
        return {"schema": _message("Schema", value)}
    if kind == "Parameter":
        place = mapping(value)["in"]
        value = {"body": value} if place == "body" else {"other": {place: value}}
    return _message(kind, value)
