"""Columns of custom resources: additionalPrinterColumns of their definition.

Source: apiextensions-apiserver pkg/registry/customresource/tableconvertor of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.printing.columns import NAME
from fakeapi.printing.durations import age
from fakeapi.printing.json_path import JsonPath
from fakeapi.types.objects import Json, integer, name_of, text
from fakeapi.types.printer import Column, Printer

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What is shown of a custom resource that declares no columns.
_DEFAULT: Final[tuple[Json, ...]] = (
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)


def custom_printer(columns: Sequence[Json] = ()) -> Printer:
    """The printer of a version's additionalPrinterColumns. Raises ValueError for a bad jsonPath."""
    declared = [_column(column) for column in columns or _DEFAULT]
    paths = [JsonPath(text(column.get("jsonPath"))) for column in columns or _DEFAULT]

    def cells(obj: Json, now_seconds: float) -> list[object]:
        found: list[object] = [name_of(obj)]
        for column, path in zip(declared, paths, strict=True):
            values = path.find(obj)
            found.append(_cell(column.type, values[0], now_seconds) if values else None)
        return found

    return Printer((NAME, *declared), cells)


def _column(column: Json) -> Column:
    path = text(column.get("jsonPath"))
    return Column(
        text(column.get("name")),
        text(column.get("type")),
        text(column.get("format")),
        text(column.get("description"))
        or f"Custom resource definition column (in JSONPath format): {path}",
        integer(column.get("priority")),
    )


def _cell(declared: str, value: object, now_seconds: float) -> object:
    """The value as its column's type wants it, None if it is of another."""
    if declared == "string":
        return _as_text(value)
    if declared == "date":
        return age(value, now_seconds) if isinstance(value, str) else None
    if declared == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if declared == "integer":
        return int(value)
    return value if declared == "number" else None


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    return msgspec.json.encode(value).decode()
