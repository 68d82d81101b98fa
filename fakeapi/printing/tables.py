"""Tables: objects and lists as kubectl asks for them.

Source: pkg/printers/tablegenerator.go and apiserver pkg/registry/rest/table.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.printing import workloads
from fakeapi.printing.columns import NAME
from fakeapi.printing.custom import custom_printer
from fakeapi.types.objects import metadata_of, name_of, text
from fakeapi.types.printer import Column, Printer

if TYPE_CHECKING:
    from fakeapi.types.kind import Kind
    from fakeapi.types.objects import Json

_DEFAULT: Final = Printer(
    (NAME, Column("Created At", "date")),
    lambda obj, _: [name_of(obj), text(metadata_of(obj).get("creationTimestamp"))],
)
_CUSTOM: Final = custom_printer()


def printer_of(kind: Kind, body_kind: str = "") -> Printer:
    """How a kind's objects are shown; a subresource may answer with a kind of its own."""
    if body_kind == "Scale":
        return workloads.SCALE
    if kind.printer is not None:
        return kind.printer
    return _DEFAULT if kind.structure is None else _CUSTOM


def row(printer: Printer, stored: Json, now_seconds: float, shown: Json | None) -> Json:
    """One metav1.TableRow; `shown` is what goes along with the cells."""
    made: Json = {"cells": printer.cells(stored, now_seconds)}
    conditions = printer.conditions(stored) if printer.conditions else []
    if conditions:
        made["conditions"] = conditions
    made["object"] = shown
    return made


def table(
    api_version: str, metadata: Json, printer: Printer, rows: list[Json], *, headers: bool = True
) -> Json:
    """A metav1.Table; later events of a watch leave the headers out."""
    columns = [column.definition() for column in printer.columns] if headers else None
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    }
