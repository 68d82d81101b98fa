"""Decode the arguments of a plugin that is not in-tree: strictly, into any `msgspec.Struct`.

Fields may be written in camelCase, as in-tree plugins have them, or in snake_case. Unknown fields
are errors, all of them in one message, each with the nearest field.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import inspect

from scheduler.api import field

S = TypeVar("S", bound=msgspec.Struct)

_NAME: Final = re.compile(r"\w+")

#: Evaluating the annotations takes longer than all else about a plugin's arguments.
_type_info: Final = functools.lru_cache(maxsize=256)(inspect.type_info)


def decode_plugin_args(expected: type[S], args: object) -> S:
    """Return the arguments; raises `ValueError` for unknown fields and for wrong types."""
    reader = _FieldNames()
    renamed = reader.renamed(_type_info(expected), args, "")
    if reader.errors:
        raise ValueError(", ".join(reader.errors))
    try:
        return msgspec.convert(renamed, expected)
    except msgspec.ValidationError as error:
        raise ValueError(reader.as_written(str(error))) from error


class _FieldNames:
    """Replaces each field's name by the one that msgspec expects, and collects the errors."""

    def __init__(self) -> None:
        self.errors: Final[list[str]] = []
        #: The names in the file, by the names that msgspec expects.
        self._written: Final[dict[str, str]] = {}

    def as_written(self, error: str) -> str:
        """Return the text of an error of msgspec with the names of fields as in the file."""
        text, at, path = error.partition(" - at `$")
        return text + at + _NAME.sub(lambda match: self._written.get(match[0], match[0]), path)

    def renamed(self, kind: inspect.Type, value: object, path: str) -> object:
        """Return a value with the expected names in all structs within it."""
        match kind:
            case inspect.UnionType():
                member = next((m for m in kind.types if _is_meant(m, value)), None)
                return value if member is None else self.renamed(member, value, path)
            case inspect.StructType() if isinstance(value, Mapping):
                return self._struct(kind, value, path)
            case inspect.DictType() if isinstance(value, Mapping):
                return {
                    key: self.renamed(kind.value_type, item, field.child_path(path, str(key)))
                    for key, item in value.items()
                }
            case inspect.CollectionType() if isinstance(value, list | tuple):
                return [
                    self.renamed(kind.item_type, item, f"{path}[{index}]")
                    for index, item in enumerate(value)
                ]
        return value

    def _struct(
        self, kind: inspect.StructType, value: Mapping[object, object], path: str
    ) -> dict[str, object]:
        fields = {name: f for f in kind.fields for name in _spellings(f)}
        values: dict[str, object] = {}
        for key, item in value.items():
            if key == kind.tag_field:
                values[str(key)] = item
                continue
            below = field.child_path(path, str(key))
            if (expected := fields.get(str(key))) is None:
                hint = field.nearest(str(key), [f.encode_name for f in kind.fields])
                self.errors.append(f'unknown field "{below}"{hint}')
            elif expected.encode_name in values:
                self.errors.append(f'duplicate field "{below}"')
            else:
                self._written[expected.encode_name] = str(key)
                values[expected.encode_name] = self.renamed(expected.type, item, below)
        return values


def _is_meant(member: inspect.Type, value: object) -> bool:
    """True if a value of a union is meant as a value of this member."""
    if isinstance(member, inspect.StructType) and isinstance(value, Mapping):
        return member.tag_field is None or value.get(member.tag_field) == member.tag
    if isinstance(member, inspect.DictType):
        return isinstance(value, Mapping)
    return isinstance(member, inspect.CollectionType) and isinstance(value, list | tuple)


def _spellings(of: inspect.Field) -> set[str]:
    first, *rest = of.name.split("_")
    return {of.encode_name, of.name, first + "".join(word.title() for word in rest)}
