"""Columns of custom resources, from `additionalPrinterColumns` of their definition.

Source: apiextensions-apiserver pkg/registry/customresource/tableconvertor of v0.36.3.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.types.columns import NAME, Column
from fakeapi.types.durations import age
from fakeapi.types.json_path import JsonPath
from fakeapi.types.objects import Json, integer, text

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Cells hold integers of 64 bits.
_INTEGERS_END: Final = 1 << 63
#: Each column looks through the object.
_COLUMNS_MAX: Final = 32
#: The columns of a version that declares none.
_DEFAULT: Final[tuple[Json, ...]] = (
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)


def custom_columns(declared: Sequence[Json]) -> tuple[Column, ...]:
    """Return the first columns of a version of a CRD, up to the first invalid jsonPath."""
    columns = [NAME]
    with contextlib.suppress(ValueError):
        for column in (declared or _DEFAULT)[:_COLUMNS_MAX]:
            columns.append(_column(column))  # noqa: PERF401 - those before an error stay
    return tuple(columns)


def _column(column: Json) -> Column:
    source = text(column.get("jsonPath"))
    path, declared = JsonPath(source), text(column.get("type"))

    def cell(obj: Json, now_seconds: float) -> object:
        values = path.find(obj)
        return _cell(declared, values[0], now_seconds) if values else None

    return Column(
        text(column.get("name")),
        cell,
        type=declared,
        format=text(column.get("format")),
        description=text(column.get("description"))
        or f"Custom resource definition column (in JSONPath format): {source}",
        priority=integer(column.get("priority")),
    )


def _cell(declared: str, value: object, now_seconds: float) -> object:
    """Return the value in the form of the column's type, None if it has another type."""
    if declared == "string":
        return _as_text(value)
    if declared == "date":
        return age(value, now_seconds) if isinstance(value, str) else None
    if declared == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if declared == "integer":
        return int(value) if -_INTEGERS_END <= value < _INTEGERS_END else None
    return value if declared == "number" else None


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    return msgspec.json.encode(value).decode()
