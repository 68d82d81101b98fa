"""Checks that the rules of many kinds share: names, choices, numbers, lists, fields that are fixed.

A check takes a value and its path, and returns the errors.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

from fakeapi.types.client_text import parse_int
from fakeapi.types.columns import find
from fakeapi.types.errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from fakeapi.types.objects import Json, integer, text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    #: A function of `types/names.py`: returns the faults of a name.
    Grammar = Callable[[str], tuple[str, ...]]

_T = TypeVar("_T")
_PERCENT = re.compile(r"[0-9]+%", re.ASCII).fullmatch
IMMUTABLE: Final = "field is immutable"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def name_errors(value: str, field: str, grammar: Grammar) -> list[FieldError]:
    """Return the errors of a name, also of an empty one."""
    return [invalid(field, value, why) for why in grammar(value)]


def required_name_errors(value: str, field: str, grammar: Grammar) -> list[FieldError]:
    """Return the errors of a name that must be given."""
    return name_errors(value, field, grammar) if value else [required(field)]


def optional_name_errors(value: str, field: str, grammar: Grammar) -> list[FieldError]:
    """Return the errors of a name that may be empty."""
    return name_errors(value, field, grammar) if value else []


def choice_errors(value: object, field: str, choices: Sequence[str]) -> list[FieldError]:
    """Return the error of a value that is not among the choices."""
    return [] if value in choices else [not_supported(field, value, choices)]


def required_choice_errors(value: object, field: str, choices: Sequence[str]) -> list[FieldError]:
    """Return the error of a value that is missing, or not among the choices."""
    return choice_errors(value, field, choices) if value else [required(field)]


def optional_choice_errors(value: object, field: str, choices: Sequence[str]) -> list[FieldError]:
    """Return the error of a value that is given, and not among the choices."""
    return [] if value is None else choice_errors(value, field, choices)


def number_errors(values: Json, field: str, names: Iterable[str]) -> list[FieldError]:
    """Return the errors of the named numbers that are less than 0."""
    return [
        invalid(f"{field}.{name}", values[name], NOT_NEGATIVE)
        for name in names
        if integer(values.get(name)) < 0
    ]


def port_errors(value: object, field: str) -> list[FieldError]:
    """Return the error of a number that is no port."""
    number = integer(value)
    why = "must be between 1 and 65535, inclusive"
    return [] if 1 <= number <= 65535 else [invalid(field, number, why)]


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


def each(
    items: Sequence[_T],
    field: str,
    check: Callable[[_T, str], list[FieldError]],
    *,
    maximum: int | None = None,
    key: Callable[[_T], Hashable] | None = None,
) -> list[FieldError]:
    """Return the errors of a list; with `key`, two items may not have the same key."""
    if maximum is not None and len(items) > maximum:
        return [too_many(field, len(items), maximum)]
    errors: list[FieldError] = []
    for index, item in enumerate(items):
        errors += check(item, f"{field}[{index}]")
    seen: set[Hashable] = set()
    for index, identity in enumerate(map(key, items) if key is not None else ()):
        if identity in seen:
            errors.append(duplicate(f"{field}[{index}]", identity))
        seen.add(identity)
    return errors


def fixed(*fields: str) -> Callable[[Json, Json], list[FieldError]]:
    """Return a check of updates: an error for each field that has changed."""

    def validate_update(new: Json, old: Json) -> list[FieldError]:
        return [
            invalid(field, find(new, f".{field}"), IMMUTABLE)
            for field in fields
            if find(new, f".{field}") != find(old, f".{field}")
        ]

    return validate_update
