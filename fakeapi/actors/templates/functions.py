"""Functions of templates: Go's own, and the two of sprig v3.3 that KWOK's own Stages use.

A function is a Python function, the annotations of which are Go's types. Source:
text/template/funcs.go of Go 1.26.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import urllib.parse
from typing import TYPE_CHECKING, Final

from fakeapi.actors.templates.formats import sprint, sprintf, sprintln
from fakeapi.actors.templates.values import MISSING, Number, is_true, type_name
from fakeapi.types.gotext import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.types.objects import Json


class FunctionError(Exception):
    """A function fails for these values."""


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A function and the types of its parameters; `object` is any value, nil included."""

    name: str
    call: Callable[..., object]
    parameters: tuple[str, ...]
    variadic: str | None
    required: int

    def __call__(self, values: list[object]) -> object:
        """Call the function with values of its types. Raises FunctionError."""
        self._check_count(len(values))
        given: list[object] = []
        for index, value in enumerate(values):
            kind = self.variadic if index >= len(self.parameters) else self.parameters[index]
            given.append(_accepted(value, kind or "object"))
        return self.call(*given)

    def _check_count(self, count: int) -> None:
        most = len(self.parameters)
        if self.variadic is not None and count < self.required:
            raise FunctionError(
                f"wrong number of args for {self.name}: want at least {self.required} got {count}"
            )
        if self.variadic is None and not self.required <= count <= most:
            raise FunctionError(f"wrong number of args for {self.name}: want {most} got {count}")


def function(name: str, call: Callable[..., object]) -> Function:
    """Return a function of templates for a Python function with annotated parameters."""
    parameters: list[str] = []
    variadic, required = None, 0
    for parameter in inspect.signature(call).parameters.values():
        kind = str(parameter.annotation)
        if parameter.kind is parameter.VAR_POSITIONAL:
            variadic = kind
        else:
            parameters.append(kind)
            required += parameter.default is parameter.empty
    return Function(name, call, tuple(parameters), variadic, required)


_GO_TYPES: Final = {
    "str": "string", "int": "int", "float": "float64", "bool": "bool",
    "list[object]": "[]interface {}", "Json": "map[string]interface {}",
}  # fmt: skip
_TYPES: Final[dict[str, type]] = {
    "str": str, "int": int, "float": float, "bool": bool, "list[object]": list, "Json": dict,
}  # fmt: skip


def _accepted(value: object, kind: str) -> object:
    """Return the value as the type; an integer may be a float. Raises FunctionError."""
    if kind not in _TYPES:
        return None if value is MISSING else value
    wanted = _GO_TYPES[kind]
    if value is MISSING or value is None:
        if kind in ("list[object]", "Json"):
            return [] if kind == "list[object]" else {}
        raise FunctionError(f"invalid value; expected {wanted}")
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    fits = isinstance(value, _TYPES[kind]) and not isinstance(value, Number)
    if not fits or (kind == "int" and isinstance(value, bool)):
        raise FunctionError(f"wrong type for value; expected {wanted}; got {type_name(value)}")
    return value


def _eq(first: object, *others: object) -> bool:
    if not others:
        raise FunctionError("missing argument for comparison")
    return any(_equal(first, other) for other in others)


def _equal(first: object, second: object) -> bool:
    if first is None or second is None:
        return first is second
    kinds = _kind(first), _kind(second)
    if kinds[0] != kinds[1]:
        raise FunctionError(
            f"incompatible types for comparison: {type_name(first)} and {type_name(second)}"
        )
    if not kinds[0]:
        raise FunctionError(f"non-comparable type {plain(second)}: {type_name(second)}")
    return first == second


def _kind(value: object) -> str:
    """Return the kind of a value; only equal kinds are comparable, an empty one never."""
    for name, kind in (("bool", bool), ("int", int), ("float", float), ("string", str)):
        if isinstance(value, kind):
            return name
    return ""


def _ne(first: object, second: object) -> bool:
    return not _equal(first, second)


def _lt(first: object, second: object) -> bool:
    kinds = _kind(first), _kind(second)
    if not all(kinds) or "bool" in kinds:
        raise FunctionError("invalid type for comparison")
    if kinds[0] != kinds[1]:
        raise FunctionError(
            f"incompatible types for comparison: {type_name(first)} and {type_name(second)}"
        )
    if isinstance(first, str) and isinstance(second, str):
        return first < second
    if isinstance(first, int | float) and isinstance(second, int | float):
        return first < second
    return False


def _le(first: object, second: object) -> bool:
    return _lt(first, second) or _equal(first, second)


def _gt(first: object, second: object) -> bool:
    return not _le(first, second)


def _ge(first: object, second: object) -> bool:
    return not _lt(first, second)


def _not(value: object) -> bool:
    return not is_true(value)


def _index(item: object, *indexes: object) -> object:
    if item is None:
        raise FunctionError("index of untyped nil")
    for index in indexes:
        if item is None:
            raise FunctionError("index of nil pointer")
        item = _indexed(item, index)
    return item


def _indexed(item: object, index: object) -> object:
    if isinstance(item, dict):
        if not isinstance(index, str):
            kind = "nil" if index is None else type_name(index)
            raise FunctionError(f"value has type {kind}; should be string")
        return item.get(index)
    if isinstance(item, list):
        return item[_position(index, len(item) - 1)]
    if isinstance(item, str):
        raw = item.encode()
        return raw[_position(index, len(raw) - 1)]
    raise FunctionError(f"can't index item of type {type_name(item)}")


def _position(index: object, last: int) -> int:
    if index is None:
        raise FunctionError("cannot index slice/array with nil")
    if not isinstance(index, int) or isinstance(index, bool):
        raise FunctionError(f"cannot index slice/array with type {type_name(index)}")
    if not 0 <= index <= last:
        raise FunctionError(f"index out of range: {index}")
    return index


def _slice(item: object, *indexes: object) -> object:
    if item is None:
        raise FunctionError("slice of untyped nil")
    if len(indexes) > 3:
        raise FunctionError(f"too many slice indexes: {len(indexes)}")
    if isinstance(item, str) and len(indexes) == 3:
        raise FunctionError("cannot 3-index slice a string")
    if not isinstance(item, str | list):
        raise FunctionError(f"can't slice item of type {type_name(item)}")
    whole: bytes | list[object] = item.encode() if isinstance(item, str) else item
    bounds = [0, len(whole), len(whole)]
    for at, index in enumerate(indexes):
        bounds[at] = _position(index, len(whole))
    for low, high in itertools.pairwise(bounds):
        if low > high:
            raise FunctionError(f"invalid slice index: {low} > {high}")
    part = whole[bounds[0] : bounds[1]]
    return part.decode(errors="replace") if isinstance(part, bytes) else part


def _len(item: object) -> int:
    if isinstance(item, str):
        return len(item.encode())
    if isinstance(item, list | dict):
        return len(item)
    raise FunctionError(f"len of type {type_name(item)}")


def _print(*values: object) -> str:
    return sprint(values)


def _printf(template: str, *values: object) -> str:
    return sprintf(template, values)


def _println(*values: object) -> str:
    return sprintln(values)


_HTML: Final = str.maketrans({
    "\0": "\ufffd", '"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;",
})  # fmt: skip
_JS: Final = str.maketrans({
    "\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026",
    "=": "\\u003D", **{chr(code): f"\\u{code:04X}" for code in range(32)},
})  # fmt: skip


def _one_text(values: tuple[object, ...]) -> str:
    return sprint(tuple("<no value>" if value is None else value for value in values))


def _html(*values: object) -> str:
    return _one_text(values).translate(_HTML)


def _js(*values: object) -> str:
    return _one_text(values).translate(_JS)


def _urlquery(*values: object) -> str:
    return urllib.parse.quote_plus(_one_text(values), safe="")


def _call(called: object, *_values: object) -> object:
    """Fail: no value is a function."""
    if called is None:
        raise FunctionError("call of nil")
    raise FunctionError(f"non-function of type {type_name(called)}")


def _lazy(*_values: object) -> object:
    raise FunctionError("not evaluated lazily")  # execution evaluates `and` and `or` itself


_CALLS: Final[dict[str, Callable[..., object]]] = {
    "and": _lazy, "call": _call, "eq": _eq, "ge": _ge, "gt": _gt, "html": _html,
    "index": _index, "js": _js, "le": _le, "len": _len, "lt": _lt, "ne": _ne, "not": _not,
    "or": _lazy, "print": _print, "printf": _printf, "println": _println, "slice": _slice,
    "urlquery": _urlquery,
}  # fmt: skip
BUILTINS: Final[dict[str, Function]] = {name: function(name, call) for name, call in _CALLS.items()}


def _default(default: object, *given: object) -> object:
    return given[0] if given and given[0] else default


def _dict(*pairs: object) -> Json:
    padded = (*pairs, "")[: len(pairs) + len(pairs) % 2]
    return {plain(padded[at]): padded[at + 1] for at in range(0, len(padded), 2)}


SPRIG: Final[dict[str, Function]] = {
    "default": function("default", _default),
    "dict": function("dict", _dict),
}
