"""Validation of numbers that count something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.errors import FieldError, invalid
from fakeapi.types.objects import Json, integer

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["NOT_NEGATIVE", "number_errors"]

NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def number_errors(values: Json, field: str, names: Iterable[str]) -> list[FieldError]:
    """The numbers of those names that are less than 0."""
    return [
        invalid(f"{field}.{name}", values[name], NOT_NEGATIVE)
        for name in names
        if integer(values.get(name)) < 0
    ]
