"""Values of templates: missing values, numbers, truth, JSON.

Values are decoded JSON, except that KWOK decodes with UseNumber: a number of an object is a
json.Number, a kind of string. It is printed as it was written, is true even if it is 0, and is not
comparable with a number of the template.
"""

from __future__ import annotations

import json
import re
from typing import Final

from fakeapi.types.gotext import plain


class TemplateError(Exception):
    """A template cannot be parsed or executed; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class _Missing:
    """A key that is not in a map: an action prints it as <no value>, %v as <nil>."""

    def __str__(self) -> str:
        return "<nil>"

    def __repr__(self) -> str:
        return "<no value>"


MISSING: Final = _Missing()


class Number(str):
    """A json.Number: the digits of a number in JSON."""

    __slots__ = ()


def numbered(value: object) -> object:
    """Return decoded JSON, each number as a `Number`."""
    if isinstance(value, dict):
        return {key: numbered(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbered(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(_json_number(value) if isinstance(value, float) else value)
    return value


def unnumbered(value: object) -> object:
    """Return a value as encoding/json writes it: a float without a fraction is an int."""
    if isinstance(value, dict):
        return {key: unnumbered(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unnumbered(item) for item in value]
    if isinstance(value, Number):
        value = int(value) if re.fullmatch(r"-?\d+", value) else float(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return None if value is MISSING else value


def is_true(value: object) -> bool:
    """Return False for an empty, zero or missing value, as `if` does."""
    return value is not MISSING and bool(value)


def type_name(value: object) -> str:
    """Return the name of the value's type in Go."""
    names: tuple[tuple[type, str], ...] = (
        (bool, "bool"), (int, "int"), (float, "float64"), (Number, "json.Number"),
        (str, "string"), (list, "[]interface {}"), (dict, "map[string]interface {}"),
    )  # fmt: skip
    return next((name for kind, name in names if isinstance(value, kind)), "<nil>")


def _json_number(value: float) -> str:
    """Return a float as encoding/json writes it: with an exponent from 1e21 on."""
    digits, _, power = repr(value).partition("e")
    if not power:
        return digits.removesuffix(".0")
    if -7 < int(power) < 21:
        return f"{value:.0f}" if int(power) > 0 else f"{value:.{len(digits) + 6}f}".rstrip("0")
    sign = "-" if power[0] == "-" else "+"
    return f"{digits.removesuffix('.0')}e{sign}{abs(int(power))}"


def printed(value: object) -> str:
    """Return a value as an action writes it."""
    return "<no value>" if value is MISSING else plain(value)


_ESCAPES: Final = str.maketrans({
    "<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029",
})  # fmt: skip


def to_json(value: object) -> str:
    """Return JSON as encoding/json writes it: keys in order, <, > and & escaped."""
    return json.dumps(
        unnumbered(value), separators=(",", ":"), sort_keys=True, ensure_ascii=False
    ).translate(_ESCAPES)
