"""The check of the types of an expression, with cel-go's texts.

Source: cel-go `checker/checker.go`, `checker/errors.go`, `common/error.go`, v0.26.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.cel import types
from scheduler.cel.errors import CelError, CompileError
from scheduler.cel.library import COMPARABLE, FUNCTIONS, OVERLOADS, pattern
from scheduler.cel.syntax import (
    Call,
    Ident,
    ListNode,
    Literal,
    Macro,
    MapNode,
    Select,
    SyntaxProblem,
    UInt,
    parse,
)
from scheduler.cel.types import ERROR, Substitutions, Type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduler.cel.syntax import Node
    from scheduler.cel.types import Environment, Overload

_LITERALS: Final[Mapping[type, Type]] = {
    bool: types.BOOL, int: types.INT, UInt: types.UINT, float: types.DOUBLE, str: types.STRING,
    bytes: types.BYTES, type(None): types.NULL,
}  # fmt: skip

#: Functions whose first argument is parsed while compiling, if it is a literal.
_VALIDATED: Final[Mapping[str, Callable[..., object]]] = {
    "matches": pattern,
    "timestamp": FUNCTIONS["timestamp"],
    "duration": FUNCTIONS["duration"],
}


def compiled_tree(expression: str, environment: Environment) -> tuple[Node, Type]:
    """Return the tree of an expression and the type of its result; raises `CompileError`."""
    try:
        node = parse(expression)
    except SyntaxProblem as problem:
        text = _shown(expression, [(problem.position, str(problem))])
        raise CompileError(f"compilation failed: {text}") from problem
    checker = _Checker(environment)
    result = checker.check(node)
    if problems := checker.problems or checker.literal_problems:
        raise CompileError(f"compilation failed: {_shown(expression, problems)}")
    return node, checker.substitutions.apply(result, free_as_dyn=True)


def qualified_name(node: Node) -> str | None:
    """Return `a.b.c` for selections of a name; None for any other node."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not (node.is_test or node.is_optional):
        prefix = qualified_name(node.operand)
        return f"{prefix}.{node.field}" if prefix is not None else None
    return None


def _shown(expression: str, problems: list[tuple[int, str]]) -> str:
    """Return the problems in the order of their positions, each with the line and a mark."""
    return "\n".join(
        _shown_problem(expression, position, message)
        for position, message in sorted(problems, key=lambda problem: problem[0])
    )


def _shown_problem(expression: str, position: int, message: str) -> str:
    if not expression:
        return f"ERROR: <input>:1:0: {message}"
    line_number = expression.count("\n", 0, position) + 1
    column = position - (expression.rfind("\n", 0, position) + 1)
    line = expression.split("\n")[line_number - 1].replace("\t", " ")
    dots = "".join("." if character.isascii() else "\uff0e" for character in line[:column])
    mark = "^" if line[column : column + 1].isascii() else "\uff3e"
    return f"ERROR: <input>:{line_number}:{column + 1}: {message}\n | {line}\n | {dots}{mark}"


def _is_equivalent(first: Type, second: Type) -> bool:
    """Return True if two elements of a list may stand beside each other."""
    if first.is_parameter or second.is_parameter:
        return True
    if first.name != second.name or len(first.parameters) != len(second.parameters):
        return False
    return all(map(_is_equivalent, first.parameters, second.parameters))


class _Checker:
    """Finds the type of every node; problems are collected, and the check goes on."""

    def __init__(self, environment: Environment) -> None:
        self._environment: Final = environment
        self._scopes: Final[list[dict[str, Type]]] = [dict(environment.variables)]
        self.substitutions: Final = Substitutions()
        self.problems: Final[list[tuple[int, str]]] = []
        #: Elements of different types in one list or map, and wrong literals as arguments.
        self.literal_problems: Final[list[tuple[int, str]]] = []

    def check(self, node: Node) -> Type:
        """Return the type of a node; `ERROR` after a problem."""
        if isinstance(node, Literal):
            return _LITERALS[type(node.value)]
        if isinstance(node, Ident):
            return self._ident(node)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, ListNode):
            return types.list_of(self._joined(node.elements))
        if isinstance(node, MapNode):
            keys = self._joined(tuple(key for key, _ in node.entries))
            return types.map_of(keys, self._joined(tuple(value for _, value in node.entries)))
        return self._macro(node)

    def _problem(self, position: int, message: str) -> Type:
        self.problems.append((position, message))
        return ERROR

    def _lookup(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return Type("type", (Type(name),)) if name in types.TYPE_NAMES else None

    def _undeclared(self, node: Ident | Call, name: str) -> Type:
        text = f"undeclared reference to '{name}' (in container '')"
        return self._problem(node.position, text)

    def _ident(self, node: Ident) -> Type:
        declared = self._lookup(node.name)
        return self._undeclared(node, node.name) if declared is None else declared

    def _select(self, node: Select) -> Type:
        selected = self._field(node, self.check(node.operand))
        return types.BOOL if node.is_test else self.substitutions.apply(selected)

    def _field(self, node: Select, operand: Type) -> Type:
        operand = self.substitutions.apply(operand)
        is_optional = node.is_optional
        if operand.name == types.OPTIONAL:
            is_optional, operand = True, operand.parameters[0]
        struct = self._environment.structs.get(operand.name)
        if operand.name == "map":
            result = operand.parameters[1]
        elif struct is not None:
            result = struct.fields.get(node.field, ERROR)
            if result == ERROR:
                self._problem(node.position, f"undefined field '{node.field}'")
        elif operand in (types.QUANTITY, types.SEMVER):
            text = f"unexpected failed resolution of '{operand.name}'"
            result = self._problem(node.position, text)
        elif operand.is_parameter:
            self.substitutions.are_assignable((types.DYN,), (operand,))
            result = types.DYN
        else:
            if not operand.is_dynamic and operand != ERROR:
                text = f"type '{operand}' does not support field selection"
                self._problem(node.position, text)
            result = types.DYN
        return types.optional_of(result) if is_optional else result

    def _call(self, node: Call) -> Type:
        arguments = [self.check(argument) for argument in node.arguments]
        self._check_literal(node)
        target = node.target
        if target is not None and (prefix := qualified_name(target)) is not None:
            overloads = OVERLOADS.get(f"{prefix}.{node.function}")
            if overloads is not None:
                return self._resolved(node, f"{prefix}.{node.function}", overloads, arguments)
        is_method = target is not None
        if target is not None:
            arguments.insert(0, self.check(target))
        overloads = OVERLOADS.get(node.function)
        if overloads is None:
            return self._undeclared(node, node.function)
        matching = [overload for overload in overloads if overload.is_method == is_method]
        return self._resolved(node, node.function, matching, arguments, is_method=is_method)

    def _resolved(
        self,
        node: Call,
        name: str,
        overloads: list[Overload],
        arguments: list[Type],
        *,
        is_method: bool = False,
    ) -> Type:
        if name in ("_&&_", "_||_"):
            return self._logical(node, arguments)
        result: Type | None = None
        for overload in overloads:
            wanted, returned = self._instance(overload)
            if not self.substitutions.are_assignable(arguments, wanted):
                continue
            returned = self.substitutions.apply(returned)
            if result is None:
                result = returned
            elif not result.is_dynamic and returned != result:
                result = types.DYN
        if result is not None:
            return result
        shown = [
            str(self.substitutions.apply(argument, free_as_dyn=True)) for argument in arguments
        ]
        target = f"{shown.pop(0)}." if is_method else ""
        text = f"found no matching overload for '{name}' applied to '{target}({', '.join(shown)})'"
        return self._problem(node.position, text)

    def _check_literal(self, node: Call) -> None:
        """Note a literal that the function of a call cannot parse."""
        name, first = node.function, node.arguments[0] if node.arguments else None
        check = _VALIDATED.get(name)
        if check is None or not isinstance(first, Literal):
            return
        try:
            check(first.value)
        except CelError:
            self.literal_problems.append((first.position, f"invalid {name} argument"))
        except TypeError:
            # The overloads are checked elsewhere.
            return

    def _logical(self, node: Call, arguments: list[Type]) -> Type:
        result = types.BOOL
        for argument, argument_type in zip(node.arguments, arguments, strict=True):
            if not self.substitutions.are_assignable((argument_type,), (types.BOOL,)):
                result = self._mismatch(argument, types.BOOL, argument_type)
        return result

    def _mismatch(self, node: Node, expected: Type, actual: Type) -> Type:
        expected, actual = map(self.substitutions.apply, (expected, actual))
        return self._problem(node.position, f"expected type '{expected}' but found '{actual}'")

    def _instance(self, overload: Overload) -> tuple[list[Type], Type]:
        """Return the arguments and the result of an overload with fresh type parameters."""
        fresh: dict[Type, Type] = {}

        def renewed(declared: Type) -> Type:
            if declared.is_parameter:
                if declared not in fresh:
                    fresh[declared] = self.substitutions.fresh()
                return fresh[declared]
            return Type(declared.name, tuple(map(renewed, declared.parameters)))

        return [renewed(argument) for argument in overload.arguments], renewed(overload.result)

    def _joined(self, nodes: tuple[Node, ...]) -> Type:
        """Return the type that all these elements have; mixed elements are a problem."""
        joined: Type | None = None
        kinds: list[tuple[Node, Type]] = []
        for node in nodes:
            element_type = self.check(node)
            if joined is None:
                joined = element_type
            elif self.substitutions.are_assignable((joined,), (element_type,)):
                joined = types.most_general(joined, element_type)
            else:
                joined = types.DYN
            kinds.append((node, element_type))
        self._check_elements(kinds)
        return self.substitutions.fresh() if joined is None else joined

    def _check_elements(self, kinds: list[tuple[Node, Type]]) -> None:
        """Note elements of another type than the first: a problem if there is no other one."""
        first = self.substitutions.apply(kinds[0][1]) if kinds else ERROR
        for node, element_type in kinds[1:]:
            applied = self.substitutions.apply(element_type)
            if not _is_equivalent(first, applied):
                shown = (self.substitutions.apply(t, free_as_dyn=True) for t in (first, applied))
                text = "expected type '{}' but found '{}'".format(*shown)
                self.literal_problems.append((node.position, text))

    def _macro(self, node: Macro) -> Type:
        range_type = self.substitutions.apply(self.check(node.range))
        if node.name in ("optMap", "optFlatMap"):
            variables = [self._unwrapped(node, range_type)]
        elif node.name == "bind":
            variables = [range_type]
        else:
            variables = self._elements(node, range_type)
        self._scopes.append(dict(zip(node.variables, variables, strict=True)))
        bodies = [self.check(body) for body in node.bodies]
        self._scopes.pop()
        return self._macro_result(node, range_type, variables, bodies)

    def _unwrapped(self, node: Macro, range_type: Type) -> Type:
        """Return the type inside an optional type; a problem, as of its methods, for any other."""
        if range_type.name == types.OPTIONAL:
            return range_type.parameters[0]
        if range_type.is_dynamic or range_type == ERROR:
            return types.DYN
        for name in ("hasValue", "value"):
            text = f"found no matching overload for '{name}' applied to '{range_type}.()'"
            self._problem(node.position, text)
        return ERROR

    def _macro_result(
        self, node: Macro, range_type: Type, variables: list[Type], bodies: list[Type]
    ) -> Type:
        if node.name in ("bind", "optFlatMap"):
            return bodies[0]
        if node.name == "optMap":
            return types.optional_of(bodies[0])
        if node.name == "sortBy":
            return self._sorted(node, range_type, self.substitutions.apply(bodies[0]))
        if node.name == "map" or node.name.startswith("transform"):
            return self._transformed(node, variables, bodies)
        for body, body_type in zip(node.bodies, bodies, strict=True):
            if not self.substitutions.are_assignable((types.BOOL,), (body_type,)):
                self._mismatch(body, types.BOOL, body_type)
        return types.list_of(variables[0]) if node.name == "filter" else types.BOOL

    def _sorted(self, node: Macro, range_type: Type, key: Type) -> Type:
        is_list = range_type.name == "list" or range_type.is_dynamic
        if is_list and (key.is_dynamic or key == ERROR or key.name in COMPARABLE):
            return range_type
        text = "found no matching overload for '@sortByAssociatedKeys' applied to "
        return self._problem(node.position, f"{text}'{range_type}.(list({key}))'")

    def _transformed(self, node: Macro, variables: list[Type], bodies: list[Type]) -> Type:
        """Return the type of the list or the map that a macro makes."""
        *conditions, body = map(self.substitutions.apply, bodies)
        if node.name in ("map", "transformList"):
            result = types.list_of(body)
        elif node.name == "transformMap":
            result = types.map_of(variables[0], body)
        else:
            result = body
            if body.name != "map" and not body.is_dynamic and body != ERROR:
                where = "cel.@mapInsert' applied to '(map(dyn, dyn), "
                return self._problem(
                    node.position, f"found no matching overload for '{where}{body})'"
                )
        for condition in conditions:
            if not self.substitutions.are_assignable((types.BOOL,), (condition,)):
                shown = self.substitutions.apply(result, free_as_dyn=True)
                self._problem(
                    node.position,
                    "found no matching overload for '_?_:_' applied to "
                    f"'({condition}, {shown}, {shown})'",
                )
        return result

    def _elements(self, node: Macro, range_type: Type) -> list[Type]:
        """Return the types of a macro's variables: the elements of a list, the keys of a map."""
        if range_type.name == "list":
            element_types = [types.INT, range_type.parameters[0]]
            return element_types if len(node.variables) > 1 else element_types[1:]
        if range_type.name == "map":
            return list(range_type.parameters[: len(node.variables)])
        if not (range_type in (types.DYN, ERROR) or range_type.is_parameter):
            text = (
                f"expression of type '{range_type}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)"
            )
            self._problem(node.range.position, text)
            return [ERROR] * len(node.variables)
        return [types.DYN] * len(node.variables)
