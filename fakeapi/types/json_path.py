"""JSONPath, as far as columns of tables may use it.

Fields (`.spec.replicas`, `['a.b']`, `\\.` for a dot in a name), indexes and slices, `[*]`, and
filters (`[?(@.type=="Ready")]`). Source: client-go util/jsonpath of v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from fakeapi.types.client_text import parse_int

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    #: One step: from a value to the values below it.
    Step: TypeAlias = Callable[[object], Iterable[object]]

#: What a filter may compare with.
_Literal: TypeAlias = str | int | float | bool | None
#: Marks that end the name of a field.
_AFTER_NAME: Final = frozenset(".[]'\" \t\r\n\f\v")
#: A longer path is refused: a table evaluates each step for each object.
_STEPS_MAX: Final = 64
_SIGNS: Final = frozenset("=!<>")
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
        values = [value]
        for step in self._steps:
            values = [item for start in values for item in step(start)]
        return values


def _steps(source: str) -> list[Step]:
    steps: list[Step] = []
    position = int(source.startswith("$"))
    while position < len(source):
        step, end = _step(source, position)
        if step is None or len(steps) == _STEPS_MAX:
            raise ValueError(f'"{source}" is no JSONPath: cannot read "{source[position:]}"')
        steps.append(step)
        position = end
    return steps


def _step(source: str, start: int) -> tuple[Step | None, int]:
    """Return the step at a position, None if it is invalid, and the position after it."""
    if source[start] == ".":
        name, end = _unescaped(source, start + 1, _AFTER_NAME)
        if name == "*":
            return _everything, end
        is_last = end == start + 1 == len(source)
        return (lambda value: [value]) if is_last else _field(name) if name else None, end
    if source.startswith("[?(", start):
        end = _outside_quotes(source, start + 3, ")")
        inside = source[start + 3 : end]
        return _filter(inside) if source.startswith(")]", end) else None, end + 2
    if source.startswith(("['", '["'), start):
        name, end = _unescaped(source, start + 2, source[start + 1])
        is_closed = source[end : end + 2] == f"{source[start + 1]}]"
        return _field(name) if is_closed else None, end + 2
    end = source.find("]", start)
    return _selector(source[start + 1 : end]) if source[start] == "[" and end > 0 else None, end + 1


def _unescaped(source: str, start: int, ends: Container[str]) -> tuple[str, int]:
    """Return the text up to one of `ends`, without backslashes, and its end."""
    letters, position = [], start
    while position < len(source) and source[position] not in ends:
        position += source[position] == "\\"
        letters.append(source[position : position + 1])
        position += 1
    return "".join(letters), min(position, len(source))


def _outside_quotes(source: str, start: int, marks: Container[str]) -> int:
    """Return the position of the first of the marks outside of quotes, else the length."""
    position = start
    while position < len(source) and source[position] not in marks:
        if source[position] in "'\"":
            position = _unescaped(source, position + 1, source[position])[1]
        position += 1
    return min(position, len(source))


def _selector(inside: str) -> Step | None:
    """Return the step for an index, a slice or a star in brackets, None for anything else."""
    if inside == "*":
        return _everything
    first, colon, last = inside.partition(":")
    try:
        start, end = _whole(first), _whole(last)
    except ValueError:
        return None
    if colon:
        return lambda value: value[start:end] if isinstance(value, list) else ()
    return None if start is None else _index(start)


def _whole(text: str) -> int | None:
    """Return the number, None for an empty text. Raises ValueError."""
    if not text:
        return None
    number = None if text[0] == "+" else parse_int(text, bits=64)
    if number is None:
        raise ValueError("no index")
    return number


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


def _filter(source: str) -> Step | None:
    """Return the step of a filter: a path that must exist, or a comparison. Raises ValueError."""
    left = _outside_quotes(source, 0, _SIGNS)
    rest = source[left:]
    literal = rest.lstrip("=!<>")
    sign = rest[: len(rest) - len(literal)]
    start = source[:left].strip()
    if not start.startswith("@") or (sign and sign not in ("==", "!=", *_ORDERS)):
        return None
    path, wanted = JsonPath(start[1:]), _literal(literal.strip()) if sign else None

    def takes(item: object) -> bool:
        values = path.find(item)
        return bool(values) and (not sign or _compares(values[0], sign, wanted))

    return lambda value: [item for item in _everything(value) if takes(item)]


def _literal(source: str) -> object:
    if len(source) > 1 and source[0] == source[-1] == "'":
        return source[1:-1]
    try:
        return msgspec.json.decode(source.encode(), type=_Literal)
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
