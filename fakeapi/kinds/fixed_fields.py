"""Fields that an update may not change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeapi.types.columns import find
from fakeapi.types.errors import FieldError, invalid
from fakeapi.validation.metadata import IMMUTABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.types.objects import Json


def fixed(*fields: str) -> Callable[[Json, Json], list[FieldError]]:
    """Return a check of updates: an error for each field that has changed."""

    def validate_update(new: Json, old: Json) -> list[FieldError]:
        return [
            invalid(field, find(new, f".{field}"), IMMUTABLE)
            for field in fields
            if find(new, f".{field}") != find(old, f".{field}")
        ]

    return validate_update
