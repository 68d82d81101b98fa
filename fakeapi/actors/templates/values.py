"""Values of templates as Go has them: what is missing, numbers out of JSON, truth, text.

Decoded JSON is used as it is, but for numbers: KWOK decodes with UseNumber, so a number out of an
object is a json.Number, which is a kind of string. It prints as it was written, is true even if it
is 0, and does not compare with the number 3 of a template.
"""

from __future__ import annotations

import re
from typing import Final

from fakeapi.types.gotext import plain

__all__ = ["MISSING", "Number", "TemplateError", "is_true", "numbered", "type_name"]


class TemplateError(Exception):
    """A template cannot be parsed or executed; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class _Missing:
    """No value at all: a key that a map has not. An action prints it as <no value>, %v as nil."""

    def __str__(self) -> str:
        return "<nil>"

    def __repr__(self) -> str:
        return "<no value>"


MISSING: Final = _Missing()


class Number(str):
    """A json.Number: a number as it is written in JSON."""

    __slots__ = ()


def numbered(value: object) -> object:
    """Decoded JSON with its numbers as `Number`."""
    if isinstance(value, dict):
        return {key: numbered(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbered(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(_json_number(value) if isinstance(value, float) else value)
    return value


def unnumbered(value: object) -> object:
    """Values with each `Number` as the number that it is."""
    if isinstance(value, dict):
        return {key: unnumbered(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unnumbered(item) for item in value]
    if isinstance(value, Number):
        return int(value) if re.fullmatch(r"-?\d+", value) else float(value)
    return None if value is MISSING else value


def is_true(value: object) -> bool:
    """What `if` makes of a value: false is whatever is empty, zero or missing."""
    return value is not MISSING and bool(value)


def type_name(value: object) -> str:
    """The type of a value as Go's messages have it."""
    names: tuple[tuple[type, str], ...] = (
        (bool, "bool"), (int, "int"), (float, "float64"), (Number, "json.Number"),
        (str, "string"), (list, "[]interface {}"), (dict, "map[string]interface {}"),
    )  # fmt: skip
    return next((name for kind, name in names if isinstance(value, kind)), "<nil>")


def _json_number(value: float) -> str:
    """A float as Go's encoder of JSON writes it: with an exponent from 1e21 on."""
    digits, _, power = repr(value).partition("e")
    if not power:
        return digits.removesuffix(".0")
    if -7 < int(power) < 21:
        return f"{value:.0f}" if int(power) > 0 else f"{value:.{len(digits) + 6}f}".rstrip("0")
    sign = "-" if power[0] == "-" else "+"
    return f"{digits.removesuffix('.0')}e{sign}{abs(int(power))}"


def printed(value: object) -> str:
    """What an action writes."""
    return "<no value>" if value is MISSING else plain(value)
