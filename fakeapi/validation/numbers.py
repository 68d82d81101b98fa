"""Validation of counts and of percentages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from fakeapi.types.client_text import parse_int
from fakeapi.types.errors import FieldError, invalid
from fakeapi.types.objects import Json, integer, text

if TYPE_CHECKING:
    from collections.abc import Iterable

_PERCENT = re.compile(r"[0-9]+%", re.ASCII).fullmatch
NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def number_errors(values: Json, field: str, names: Iterable[str]) -> list[FieldError]:
    """Return the errors of the named numbers that are less than 0."""
    return [
        invalid(f"{field}.{name}", values[name], NOT_NEGATIVE)
        for name in names
        if integer(values.get(name)) < 0
    ]


def share_errors(value: object, field: str, *, most: bool = True) -> list[FieldError]:
    """Return the errors of a number of pods or a percentage; `most`: 100% is the maximum."""
    if isinstance(value, int):
        return [invalid(field, value, NOT_NEGATIVE)] if value < 0 else []
    share = text(value)
    if not _PERCENT(share):
        why = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        return [invalid(field, share, why)]
    number = parse_int(share[:-1], bits=64, signed=False)
    if most and (number is None or number > 100):
        return [invalid(field, share, "must not be greater than 100%")]
    return []
