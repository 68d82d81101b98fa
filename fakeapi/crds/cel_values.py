"""Values of objects for CEL: typed by their schema, the names of fields escaped.

Source: apiserver pkg/cel/{common/values.go,escaping.go} of v0.36.3.
"""

from __future__ import annotations

import datetime
from typing import Final

from fakeapi.crds import formats
from fakeapi.crds.pruning import items_of
from fakeapi.types.objects import Json, mapping, text

_IDENTITY: Final = ("apiVersion", "kind", "metadata")
_RESERVED: Final = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
    "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def as_cel(node: Json, value: object, *, is_root: bool = False) -> object:
    """Convert a value for CEL: typed by the schema, fields with escaped names."""
    kind = node.get("type")
    if isinstance(value, dict):
        return _object_as_cel(node, value, is_root=is_root)
    if isinstance(value, list):
        inner = items_of(node) or {}
        return [as_cel(inner, item) for item in value]
    if kind == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind == "integer" and isinstance(value, float):
        return int(value)
    if isinstance(value, str):
        return _text_as_cel(text(node.get("format")), value)
    return value


def _object_as_cel(node: Json, value: Json, *, is_root: bool) -> object:
    fields, additional = mapping(node.get("properties")), node.get("additionalProperties")
    if isinstance(additional, dict):
        return {key: as_cel(additional, item) for key, item in value.items()}
    if not fields and not is_root:
        return value
    shown: dict[str, object] = {
        _escaped(key): as_cel(mapping(fields[key]), item)
        for key, item in value.items()
        if key in fields
    }
    if is_root or node.get("x-kubernetes-embedded-resource") is True:
        metadata = mapping(value.get("metadata"))
        names = {key: metadata[key] for key in ("name", "generateName") if key in metadata}
        shown.update({key: value[key] for key in _IDENTITY if key in value})
        shown["metadata"] = names
    return shown


def _escaped(key: str) -> str:
    if key in _RESERVED:
        return f"__{key}__"
    for mark, escape in _ESCAPES.items():
        key = key.replace(mark, escape)
    return key


def _text_as_cel(format_name: str, value: str) -> object:
    try:
        if format_name in ("date-time", "datetime", "date"):
            moment = datetime.datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
        if format_name == "duration":
            return datetime.timedelta(seconds=formats.duration_seconds(value))
    except ValueError:
        return value
    return value
