"""Functions of templates: Python functions, the annotations of which are Go's types."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Final

from fakeapi.actors.templates.values import MISSING, Number, type_name

if TYPE_CHECKING:
    from collections.abc import Callable


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
