"""The types of CEL, and which of them can stand for which.

Source: cel-go `checker/types.go`, `checker/format.go`, `common/types/types.go`, v0.26.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Type(NamedTuple):
    """A type by its name, with parameters; the name of a type parameter begins with `_`."""

    name: str
    parameters: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if not self.parameters:
            return _SHOWN.get(self.name, self.name)
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    @property
    def is_parameter(self) -> bool:
        return self.name.startswith("_")

    @property
    def is_dynamic(self) -> bool:
        """True for the types of values that are known at run time only."""
        return self.name in ("dyn", "any")


_SHOWN: Final[Mapping[str, str]] = {
    "!error!": "!error!", "null_type": "null",
    "google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration",
}  # fmt: skip

BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null_type")
DYN: Final = Type("dyn")
ANY: Final = Type("any")
ERROR: Final = Type("!error!")
QUANTITY: Final = Type("kubernetes.Quantity")
SEMVER: Final = Type("kubernetes.Semver")
TIMESTAMP: Final = Type("google.protobuf.Timestamp")
DURATION: Final = Type("google.protobuf.Duration")
OPTIONAL: Final = "optional_type"

#: Names that may be written in an expression as values of type `type`.
TYPE_NAMES: Final = frozenset(
    {"bool", "int", "uint", "double", "string", "bytes", "null_type", "list", "map", "type"}
)


def list_of(element: Type) -> Type:
    """Return the type of a list."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of a map."""
    return Type("map", (key, value))


def optional_of(inner: Type) -> Type:
    """Return the type of an optional value."""
    return Type(OPTIONAL, (inner,))


@dataclass(frozen=True, slots=True)
class StructType:
    """An object type by its fields."""

    type: Type
    fields: Mapping[str, Type]


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables of an expression, and the object types that they need."""

    variables: Mapping[str, Type]
    structs: Mapping[str, StructType]


def declared_name(declared: Type) -> str:
    """Return a type as it is declared: wrappers by the names of their messages."""
    if not declared.parameters:
        return {"any": "google.protobuf.Any"}.get(declared.name, declared.name)
    return f"{declared.name}({', '.join(map(declared_name, declared.parameters))})"


class Overload(NamedTuple):
    """One signature of a function; the receiver of a method is its first argument."""

    is_method: bool
    arguments: tuple[Type, ...]
    result: Type


_SIGNATURE: Final = re.compile(
    r"(?:(?P<target>.+?)~)?(?P<name>\S+?)\((?P<arguments>.*)\): (?P<result>.+)"
)
_ABBREVIATIONS: Final[Mapping[str, Type]] = {
    "Q": QUANTITY,
    "S": SEMVER,
    "T": TIMESTAMP,
    "D": DURATION,
    "IP": Type("net.IP"),
    "CIDR": Type("net.CIDR"),
    "A": Type("_A"),
    "B": Type("_B"),
    "K": Type("_K"),
}


def parse_overloads(text: str) -> dict[str, list[Overload]]:
    """Parse lines `[target~]name(arguments): result` into the overloads of each function."""
    functions: dict[str, list[Overload]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        match = _SIGNATURE.fullmatch(line)
        assert match is not None, line
        target, arguments = match["target"], _parse_types(match["arguments"])
        if target is not None:
            arguments = [*_parse_types(target), *arguments]
        (result,) = _parse_types(match["result"])
        overload = Overload(target is not None, tuple(arguments), result)
        functions.setdefault(match["name"], []).append(overload)
    return functions


def _parse_types(text: str) -> list[Type]:
    """Parse types separated by commas: `int, list<A>, map<K, B>`."""
    parts: list[str] = []
    depth = 0
    for character in text.replace(" ", ""):
        depth += (character == "<") - (character == ">")
        if character == "," and not depth:
            parts.append("")
            continue
        if not parts:
            parts.append("")
        parts[-1] += character
    return [_parse_type(part) for part in parts]


def _parse_type(text: str) -> Type:
    name, _, inner = text.partition("<")
    if not inner:
        return _ABBREVIATIONS.get(name, Type(name))
    return Type(name, tuple(_parse_types(inner[:-1])))


class Substitutions:
    """The types that type parameters stand for; a failed attempt changes nothing."""

    def __init__(self) -> None:
        self._types: dict[Type, Type] = {}
        self._fresh = 0

    def fresh(self) -> Type:
        """Return a type parameter that is not in use."""
        self._fresh += 1
        return Type(f"_var{self._fresh - 1}")

    def are_assignable(self, arguments: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Return True if values of the given types can be passed for the wanted ones."""
        before = dict(self._types)
        if len(arguments) == len(wanted) and all(map(self._is_assignable, arguments, wanted)):
            return True
        self._types = before
        return False

    def apply(self, generic: Type, *, free_as_dyn: bool = False) -> Type:
        """Return the type with its parameters replaced by their types."""
        if generic in self._types:
            return self.apply(self._types[generic], free_as_dyn=free_as_dyn)
        if generic.is_parameter:
            return DYN if free_as_dyn else generic
        if not generic.parameters:
            return generic
        inner = (self.apply(parameter, free_as_dyn=free_as_dyn) for parameter in generic.parameters)
        return Type(generic.name, tuple(inner))

    def _is_assignable(self, first: Type, second: Type) -> bool:
        if second.is_parameter:
            is_valid, is_bound = self._bind(first, second)
            if is_valid or is_bound:
                return is_valid
        if first.is_parameter:
            return self._bind(second, first)[0]
        if first.is_dynamic or second.is_dynamic or ERROR in (first, second):
            return True
        if NULL in (first, second):
            other = second if first == NULL else first
            return other == NULL or other.name == OPTIONAL or "." in other.name
        if first.name == second.name == "type":
            return True
        if first.name != second.name or len(first.parameters) != len(second.parameters):
            return False
        return all(map(self._is_assignable, first.parameters, second.parameters))

    def _bind(self, concrete: Type, parameter: Type) -> tuple[bool, bool]:
        """Let a parameter stand for a type: (it can, it stood for something before)."""
        if concrete == parameter:
            return True, True
        bound = self._types.get(parameter)
        if bound is not None:
            if concrete == bound:
                return True, True
            if self._is_assignable(concrete, bound):
                general = most_general(concrete, bound)
                if not self._occurs(parameter, general):
                    self._types[parameter] = general
                return True, True
            return False, True
        if not self._occurs(parameter, concrete):
            self._types[parameter] = concrete
            return True, False
        return False, False

    def _occurs(self, parameter: Type, within: Type) -> bool:
        if parameter == within:
            return True
        if within.is_parameter:
            bound = self._types.get(within)
            return bound is not None and self._occurs(parameter, bound)
        return any(self._occurs(parameter, inner) for inner in within.parameters)


def most_general(first: Type, second: Type) -> Type:
    """Return the more general of two types that agree."""
    return first if _is_equal_or_less_specific(first, second) else second


def _is_equal_or_less_specific(first: Type, second: Type) -> bool:
    if first.is_dynamic or first.is_parameter:
        return True
    if second.is_dynamic or second.is_parameter or first.name != second.name:
        return False
    if len(first.parameters) != len(second.parameters):
        return False
    return all(map(_is_equal_or_less_specific, first.parameters, second.parameters))
