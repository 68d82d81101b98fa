"""Tables of objects and lists, as kubectl requests them.

Source: pkg/printers/tablegenerator.go and apiserver pkg/registry/rest/table.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.columns import AGE, NAME, Column
from fakeapi.types.objects import text

if TYPE_CHECKING:
    from fakeapi.types.kind import Kind
    from fakeapi.types.objects import Json

_DEFAULT: Final = (NAME, Column("Created At", ".metadata.creationTimestamp", text, type="date"))
_SCALE: Final = (
    Column("Name", ".metadata.name"),
    Column("Desired", ".spec.replicas", type="integer"),
    Column("Available", ".status.replicas", type="integer"),
    AGE,
)


def columns_of(kind: Kind, body_kind: str = "") -> tuple[Column, ...]:
    """Return the columns of a kind, or of the Scale that its subresource returns."""
    return _SCALE if body_kind == "Scale" else kind.columns or _DEFAULT


def row(kind: Kind, columns: tuple[Column, ...], stored: Json, now_seconds: float) -> Json:
    """Return a metav1.TableRow without its `object`."""
    made: Json = {"cells": [column.cell(stored, now_seconds) for column in columns]}
    conditions = kind.row_conditions(stored) if kind.row_conditions else []
    if conditions:
        made["conditions"] = conditions
    return made


def table(
    api_version: str, metadata: Json, columns: tuple[Column, ...] | None, rows: list[Json]
) -> Json:
    """Return a metav1.Table. Only the first event of a watch has the columns."""
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": metadata,
        "columnDefinitions": columns and [column.definition() for column in columns],
        "rows": rows,
    }
