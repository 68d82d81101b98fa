"""The tree of a template. Source: text/template/parse/node.go of Go 1.26."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

__all__ = [
    "Action",
    "Branch",
    "Call",
    "Chain",
    "Command",
    "Constant",
    "Dot",
    "Field",
    "Jump",
    "Node",
    "Operand",
    "Pipeline",
    "Text",
    "Variable",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """A string, number, bool or nil."""

    value: object
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Dot:
    """`.`"""

    text: str = "."


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """`.a.b`, from dot on."""

    names: tuple[str, ...]
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Variable:
    """`$x.a.b`"""

    name: str
    names: tuple[str, ...]
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """The name of a function."""

    name: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Chain:
    """`(pipeline).a.b`"""

    of: Operand
    names: tuple[str, ...]
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """An operand with what it is given."""

    operands: tuple[Operand, ...]
    line: int


@dataclasses.dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands, each of which is given what the one before made."""

    commands: tuple[Command, ...]
    variables: tuple[str, ...] = ()
    assigns: bool = False
    text: str = "(...)"


Operand: TypeAlias = Constant | Dot | Field | Variable | Call | Chain | Pipeline


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """What is written as it is."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Action:
    """A pipeline whose value is written unless it sets variables."""

    pipeline: Pipeline
    line: int


@dataclasses.dataclass(frozen=True, slots=True)
class Branch:
    """`if`, `with` or `range`."""

    keyword: str
    pipeline: Pipeline
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]
    line: int


@dataclasses.dataclass(frozen=True, slots=True)
class Jump:
    """`break` or `continue`."""

    keyword: str


@dataclasses.dataclass(frozen=True, slots=True)
class Include:
    """`template "name" pipeline`"""

    name: str
    pipeline: Pipeline | None
    line: int


Node: TypeAlias = Text | Action | Branch | Jump | Include
