"""JSONPath, as far as columns of tables may use it.

Fields (`.spec.replicas`, `['a.b']`, `\\.` for a dot in a name), indexes and slices, `[*]`, and
filters (`[?(@.type=="Ready")]`). Source: client-go util/jsonpath of v0.36.3.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    #: One step: from a value to the values below it.
    Step: TypeAlias = Callable[[object], Iterable[object]]

_FIELD: Final = re.compile(r"\.((?:[^.\[\]'\"\\\s]|\\.)+)")
_QUOTED: Final = re.compile(r"\[(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")\]")
_INDEX: Final = re.compile(r"\[(-?\d+)\]")
_SLICE: Final = re.compile(r"\[(-?\d+)?:(-?\d+)?\]")
_STAR: Final = re.compile(r"\[\*\]|\.\*")
_FILTER: Final = re.compile(
    r"\[\?\(\s*@((?:[^\s=<>!)\"']|\[[^\]]*\])*)\s*(?:(==|!=|<=|>=|<|>)\s*([^)]+?)\s*)?\)\]"
)
#: Comparisons of ordered values; values without an order are only unequal.
_ORDERS: Final[dict[str, Callable[[int], bool]]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


class JsonPath:
    """A parsed path."""

    def __init__(self, source: str) -> None:
        """Parse the path. Raises ValueError if it is invalid or not allowed in columns."""
        self._steps = tuple(_steps(source))

    def find(self, value: object) -> list[object]:
        """Return all values at the path, none for missing fields."""
        found = [value]
        for step in self._steps:
            found = [item for start in found for item in step(start)]
        return found


def _steps(source: str) -> list[Step]:
    steps: list[Step] = []
    rest = source.removeprefix("$")
    if rest and not rest.startswith((".", "[")):
        raise ValueError(f'"{source}" is no JSONPath: it begins with a dot or a bracket')
    while rest:
        step, length = _step(rest, source)
        steps.append(step)
        rest = rest[length:]
    return steps


def _step(rest: str, source: str) -> tuple[Step, int]:
    """Return the first step and the length of its text."""
    if found := _STAR.match(rest):
        return _everything, found.end()
    if found := _FIELD.match(rest):
        return _field(re.sub(r"\\(.)", r"\1", found[1])), found.end()
    if found := _QUOTED.match(rest):
        quoted = found[1] if found[1] is not None else found[2]
        return _field(re.sub(r"\\(.)", r"\1", quoted)), found.end()
    if found := _INDEX.match(rest):
        return _index(int(found[1])), found.end()
    if found := _SLICE.match(rest):
        first, last = (int(part) if part else None for part in found.groups())
        return _slice(first, last), found.end()
    if found := _FILTER.match(rest):
        return _filter(JsonPath(found[1]), found[2] or "", found[3] or ""), found.end()
    if rest == ".":
        return lambda value: [value], 1
    raise ValueError(f'"{source}" is no JSONPath: cannot read "{rest}"')


def _everything(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _field(name: str) -> Step:
    def step(value: object) -> Iterable[object]:
        return (value[name],) if isinstance(value, dict) and name in value else ()

    return step


def _index(position: int) -> Step:
    def step(value: object) -> Iterable[object]:
        if isinstance(value, list) and -len(value) <= position < len(value):
            return (value[position],)
        return ()

    return step


def _slice(first: int | None, last: int | None) -> Step:
    return lambda value: value[first:last] if isinstance(value, list) else ()


def _filter(path: JsonPath, sign: str, literal: str) -> Step:
    wanted = _literal(literal) if sign else None

    def takes(item: object) -> bool:
        found = path.find(item)
        if not sign:
            return bool(found)
        return bool(found) and _compares(found[0], sign, wanted)

    return lambda value: [item for item in _everything(value) if takes(item)]


def _literal(source: str) -> object:
    if len(source) > 1 and source[0] == source[-1] == "'":
        return source[1:-1]
    try:
        return msgspec.json.decode(source.encode())
    except msgspec.DecodeError as error:
        raise ValueError(f"cannot compare with {source}: {error}") from error


def _compares(left: object, sign: str, right: object) -> bool:
    """Return the result of a comparison; numbers and strings have no common order."""
    if sign in ("==", "!="):
        return (left == right) == (sign == "==")
    if isinstance(left, str) and isinstance(right, str):
        return _ORDERS[sign]((left > right) - (left < right))
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _ORDERS[sign]((left > right) - (left < right))
    return False
