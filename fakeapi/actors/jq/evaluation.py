"""What the parts of a query do with a value: each makes any number of results of one."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

__all__ = ["Filter", "JqError", "Variables", "compare", "is_true", "type_of"]


class JqError(Exception):
    """A query cannot be evaluated for that value."""

    def __init__(self, message: str, value: object = None) -> None:
        super().__init__(message)
        self.value = message if value is None else value


Variables: TypeAlias = Mapping[str, object]
Filter: TypeAlias = Callable[[object, Variables], Iterator[object]]
_ORDER: Final = ("null", "false", "true", "number", "string", "array", "object")


def type_of(value: object) -> str:
    """The name jq has for the type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def is_true(value: object) -> bool:
    """Everything is true but null and false."""
    return value is not None and value is not False


def text_of(value: object) -> str:
    """A value as JSON, a string as it is."""
    return value if isinstance(value, str) else json_of(value)


def json_of(value: object) -> str:
    """A value as JSON without spaces, its keys in order."""
    return json.dumps(whole(value), separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def whole(value: object) -> object:
    """Numbers without the fraction that they do not have."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e17:
        return int(value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    return value


def shown(value: object) -> str:
    """A value in a message."""
    found = json_of(value)
    return f"{type_of(value)} ({found if len(found) <= 30 else found[:27] + '...'})"


def _rank(value: object) -> int:
    if isinstance(value, bool):
        return _ORDER.index("true" if value else "false")
    return _ORDER.index(type_of(value))


def compare(first: object, second: object) -> int:
    """Negative, zero or positive, in the order that jq gives to all values."""
    ranks = _rank(first) - _rank(second)
    if ranks:
        return ranks
    if isinstance(first, list) and isinstance(second, list):
        return _compare_lists(first, second)
    if isinstance(first, dict) and isinstance(second, dict):
        keys = _compare_lists(sorted(first), sorted(second))
        values = ([one[key] for key in sorted(one)] for one in (first, second))
        return keys or _compare_lists(*values)
    if isinstance(first, str) and isinstance(second, str):
        return (first > second) - (first < second)
    if isinstance(first, int | float) and isinstance(second, int | float):
        return (first > second) - (first < second)
    return 0


def _compare_lists(first: list[object], second: list[object]) -> int:
    for one, other in zip(first, second, strict=False):
        found = compare(one, other)
        if found:
            return found
    return len(first) - len(second)


ordered: Final = functools.cmp_to_key(compare)


def field(value: object, key: object) -> object:
    """`.[key]`. Raises JqError."""
    if isinstance(key, str):
        if value is None:
            return None
        if isinstance(value, dict):
            return value.get(key)
        raise JqError(f"expected an object but got: {shown(value)}")
    if isinstance(key, int | float) and not isinstance(key, bool):
        if value is None:
            return None
        if isinstance(value, list):
            index = math.floor(key)
            return value[index] if -len(value) <= index < len(value) else None
        raise JqError(f"expected an array but got: {shown(value)}")
    raise JqError(f"cannot index {type_of(value)} with {type_of(key)}")


def part(value: object, start: object, end: object) -> object:
    """`.[start:end]`. Raises JqError."""
    if value is None:
        return None
    if not isinstance(value, list | str):
        raise JqError(f"cannot slice {shown(value)}")
    bounds: list[int | None] = []
    for bound in (start, end):
        if bound is not None and (not isinstance(bound, int | float) or isinstance(bound, bool)):
            raise JqError(f"cannot slice with {shown(bound)}")
        bounds.append(None if bound is None else math.floor(bound))
    return value[bounds[0] : bounds[1]]


def items(value: object) -> list[object]:
    """What `.[]` goes over. Raises JqError."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [value[key] for key in sorted(value)]
    raise JqError(f"cannot iterate over: {shown(value)}")


def add(first: object, second: object) -> object:
    """`first + second`. Raises JqError."""
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, dict) and isinstance(second, dict):
        return {**first, **second}
    if isinstance(first, list) and isinstance(second, list):
        return [*first, *second]
    if isinstance(first, str) and isinstance(second, str):
        return first + second
    return _numbers("added", first, second, lambda a, b: a + b)


def _numbers(
    verb: str, first: object, second: object, operation: Callable[[float, float], float]
) -> float:
    for value in (first, second):
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise JqError(f"{shown(first)} and {shown(second)} cannot be {verb}")
    assert isinstance(first, int | float)
    assert isinstance(second, int | float)
    try:
        return operation(first, second)
    except (ZeroDivisionError, OverflowError):
        raise JqError(f"{shown(first)} and {shown(second)} cannot be {verb}") from None


def _subtract(first: object, second: object) -> object:
    if isinstance(first, list) and isinstance(second, list):
        return [item for item in first if all(compare(item, gone) for gone in second)]
    return _numbers("subtracted", first, second, lambda a, b: a - b)


def _multiply(first: object, second: object) -> object:
    if isinstance(first, dict) and isinstance(second, dict):
        merged = dict(first)
        for key, value in second.items():
            present = merged.get(key)
            both = isinstance(present, dict) and isinstance(value, dict)
            merged[key] = _multiply(present, value) if both else value
        return merged
    return _numbers("multiplied", first, second, lambda a, b: a * b)


def _divide(first: object, second: object) -> object:
    if isinstance(first, str) and isinstance(second, str):
        return first.split(second) if second else list(first)
    quotient = _numbers("divided", first, second, lambda a, b: a / b)
    return int(quotient) if quotient.is_integer() else quotient


def _modulo(first: object, second: object) -> object:
    return _numbers("divided", first, second, _remainder)


def _remainder(first: float, second: float) -> float:
    if int(second) == 0:
        raise ZeroDivisionError
    return int(math.fmod(int(first), int(second)))


OPERATORS: Final[dict[str, Callable[[object, object], object]]] = {
    "+": add, "-": _subtract, "*": _multiply, "/": _divide, "%": _modulo,
    "==": lambda a, b: compare(a, b) == 0, "!=": lambda a, b: compare(a, b) != 0,
    "<": lambda a, b: compare(a, b) < 0, "<=": lambda a, b: compare(a, b) <= 0,
    ">": lambda a, b: compare(a, b) > 0, ">=": lambda a, b: compare(a, b) >= 0,
}  # fmt: skip
