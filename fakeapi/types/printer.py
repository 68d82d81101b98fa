"""Tables of objects, as `kubectl get` shows them: columns, and one row of cells per object."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from fakeapi.types.objects import Json

#: Reads the cells of a row from an object in its stored form, at a time in epoch seconds.
Cells: TypeAlias = Callable[[Json, float], list[object]]


class Column(NamedTuple):
    """One column; those with a priority above 0 are shown only by `-o wide`."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> Json:
        """The metav1.TableColumnDefinition."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Printer:
    """How the objects of one kind become rows."""

    columns: tuple[Column, ...]
    cells: Cells
    #: What is special about a row: that the object is done, for one.
    conditions: Callable[[Json], list[Json]] | None = None
