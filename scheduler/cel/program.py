"""Expressions as closures: compiled once, evaluated on many values.

Source: cel-go `interpreter/{planner,interpretable,attributes}.go`, v0.26. The cost of an evaluation
is not exactly upstream's: only the loops of macros count, by the size of their bodies.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from scheduler.cel import values
from scheduler.cel.checker import compiled_tree, qualified_name
from scheduler.cel.errors import CelError, CompileError, NoSuchOverloadError, no_such_overload
from scheduler.cel.library import FUNCTIONS, OPERANDS, OVERLOADS, RECEIVERS, pattern
from scheduler.cel.syntax import Call, Ident, ListNode, Literal, Macro, MapNode, Select
from scheduler.cel.types import ANY, BOOL, DYN, INT, SEMVER, STRING, declared_name
from scheduler.cel.values import Optional

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.cel.syntax import Node
    from scheduler.cel.types import Environment, Type

#: The cost at which an evaluation fails.
_COST_MAX: Final = 1_000_000
#: The variable that holds the cost so far.
_COST: Final = "@cost"

Variables = dict[str, Any]
Evaluate = Callable[[Variables], Any]

#: What Python raises where a function gets a value of the wrong type.
_WRONG_TYPE: Final = (TypeError, AttributeError, ValueError)

#: Functions that convert a literal while compiling.
_CONVERSIONS: Final = frozenset({"bool", "bytes", "double", "int", "string", "uint"})

_NOT_BOOL: Final[Mapping[str, str]] = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "string": "unsupported native conversion from string to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "kubernetes.Quantity": "type conversion error from 'Quantity' to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
}


class Program:
    """A compiled expression."""

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate: Final = evaluate

    def value(self, variables: Variables) -> object:
        """Evaluate the expression; raises `CelError`."""
        return self._evaluate({**variables, _COST: [0]})

    def matches(self, variables: Variables) -> bool:
        """Return the value of an expression that is a bool; raises `CelError`."""
        result = self.value(variables)
        if isinstance(result, bool):
            return result
        name = values.type_name(result)
        why = _NOT_BOOL.get(name, f"type conversion error from '{name}' to 'bool'")
        raise CelError(f"CEL result of type {name} could not be converted to bool: {why}")


def compile_expression(expression: str, environment: Environment, unknown: Type) -> Program:
    """Compile an expression that must evaluate to a bool, or to a value of the type `unknown`.

    Raises `CompileError`.
    """
    node, result = compiled_tree(expression, environment)
    if result not in (BOOL, unknown):
        raise CompileError(
            f"must evaluate to bool or the unknown type, not {declared_name(result)}"
        )
    return Program(_compiled(node))


def compile_value(expression: str, environment: Environment) -> Program:
    """Compile an expression whose value can be an attribute; raises `CompileError`."""
    node, result = compiled_tree(expression, environment)
    inner = result.parameters[0] if result.name == "list" else result
    if inner not in (BOOL, INT, STRING, ANY, DYN, SEMVER):
        raise CompileError(
            "must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of "
            f"these scalars, not {declared_name(result)}"
        )
    return Program(_compiled(node))


def _compiled(node: Node) -> Evaluate:
    """Return the closure of a node."""
    if isinstance(node, Literal):
        value = node.value
        return lambda variables: value
    if isinstance(node, Ident):
        name = node.name  # a name that is no variable is a type (`checker`)
        return lambda variables: variables.get(name, name)
    if isinstance(node, Select):
        return _select(node)
    if isinstance(node, Call):
        return _call(node)
    if isinstance(node, ListNode):
        elements = [_compiled(element) for element in node.elements]
        return lambda variables: [element(variables) for element in elements]
    if isinstance(node, MapNode):
        entries = [(_compiled(key), _compiled(value)) for key, value in node.entries]
        return functools.partial(_map_of, entries)
    return _macro(node)


def _map_of(entries: list[tuple[Evaluate, Evaluate]], variables: Variables) -> object:
    made: dict[object, object] = {}
    for key, value in entries:
        name = key(variables)
        try:
            made[name] = value(variables)
        except TypeError as error:
            raise values.unsupported_key(name) from error
    return made


def _select(node: Select) -> Evaluate:
    operand, field = _compiled(node.operand), node.field
    if node.is_test:
        return lambda variables: _has(operand(variables), field)
    if node.is_optional:
        return lambda variables: _optional_field(operand(variables), field)
    return lambda variables: _field(operand(variables), field)


def _field(value: Any, field: str) -> Any:
    if isinstance(value, Optional):
        return _optional_field(value, field)
    item, is_found = _found(value, field)
    if not is_found:
        raise CelError(f"no such key: {field}")
    return item


def _found(value: Any, field: str) -> tuple[Any, bool]:
    """Return a field of a value, and True if there is one; raises `CelError` for a list."""
    if isinstance(value, list):
        raise CelError("unsupported index type 'string' in list")
    return values.find(value, field) if isinstance(value, dict) else (None, False)


def _has(value: Any, field: str) -> bool:
    if isinstance(value, Optional):
        return value.is_set and _has(value.value, field)
    return _found(value, field)[1]


def _optional_field(value: Any, field: str) -> Optional:
    if isinstance(value, Optional):
        return _optional_field(value.value, field) if value.is_set else value
    return Optional(*_found(value, field))


def _call(node: Call) -> Evaluate:
    arguments = [_compiled(argument) for argument in node.arguments]
    if node.function == "_&&_":
        return _logical(arguments, decisive=False)
    if node.function == "_||_":
        return _logical(arguments, decisive=True)
    if node.function == "_?_:_":
        return _ternary(*arguments)
    name = node.function
    if node.target is not None:
        qualified = f"{qualified_name(node.target)}.{name}"
        if qualified in OVERLOADS:
            name = qualified
        else:
            arguments.insert(0, _compiled(node.target))
    function = FUNCTIONS[name]
    accepted, first = _accepted(name), OPERANDS.get(name)

    def call(variables: Variables) -> Any:
        operands = [argument(variables) for argument in arguments]
        if accepted and not any(_accepts(wanted, operands) for wanted in accepted):
            shown = ", ".join(map(values.type_name, operands))
            raise CelError(f"no such overload: {name}({shown})")
        try:
            return function(*operands)
        except (*_WRONG_TYPE, NoSuchOverloadError) as error:
            is_named = first is not None and values.type_name(operands[0]) not in first | RECEIVERS
            raise no_such_overload(name if is_named else "") from error

    _check_literal(node, name, call)
    return call


def _check_literal(node: Call, name: str, call: Evaluate) -> None:
    """Compile a literal pattern, or convert a literal; raises `CompileError`."""
    try:
        if name in ("matches", "find", "findAll"):
            literal = node.arguments[0 if node.target is not None else 1]
            if isinstance(literal, Literal) and isinstance(literal.value, str):
                pattern(literal.value)
        elif name in _CONVERSIONS and isinstance(node.arguments[0], Literal):
            call({})
    except CelError as error:
        raise CompileError(f"program instantiation failed: {error}") from error


def _accepted(name: str) -> list[tuple[Type, ...]]:
    """Return the types of the arguments that a function accepts.

    Empty for operators and `size`, which check their operands themselves.
    """
    if not name[0].isalpha() or name == "size":
        return []
    return [overload.arguments for overload in OVERLOADS[name]]


def _accepts(wanted: tuple[Type, ...], operands: list[Any]) -> bool:
    return len(wanted) == len(operands) and all(map(_is_of_type, operands, wanted))


def _is_of_type(value: Any, wanted: Type) -> bool:
    """Return True if a value has a type; of the elements of a list or map the first one counts."""
    kind = values.CLASSES.get(wanted.name)
    # A bool is an int in Python, and a map may have a default.
    if kind is None or kind is dict:
        return kind is None or isinstance(value, dict)
    if type(value) is not kind:
        return False
    return not (isinstance(value, list) and value) or _is_of_type(value[0], wanted.parameters[0])


def _logical(terms: Sequence[Evaluate], *, decisive: bool) -> Evaluate:
    """Return `&&` (decided by a false term) or `||`."""
    return lambda variables: _decided([(term, variables) for term in terms], decisive=decisive)


def _decided(terms: Iterable[tuple[Evaluate, Variables]], *, decisive: bool) -> bool:
    """Return `decisive` if a term is, else its negation; a decision outweighs errors."""
    failure: CelError | None = None
    undecided = not decisive
    for term, variables in terms:
        try:
            value = term(variables)
            if value is decisive:
                return not undecided
            if not isinstance(value, bool):
                failure = failure or no_such_overload()
        except CelError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return undecided


def _ternary(condition: Evaluate, truthy: Evaluate, falsy: Evaluate) -> Evaluate:
    def evaluate(variables: Variables) -> Any:
        value = condition(variables)
        if not isinstance(value, bool):
            raise no_such_overload()
        return truthy(variables) if value else falsy(variables)

    return evaluate


def _macro(node: Macro) -> Evaluate:
    range_of, bodies = _compiled(node.range), [_compiled(body) for body in node.bodies]
    if node.name in ("bind", "optMap", "optFlatMap"):
        return _binding(node.name, range_of, node.variables[0], bodies[0])
    cost = sum(map(_size, node.bodies))

    def scopes(variables: Variables) -> Iterable[tuple[Any, Variables]]:
        for keys in _elements(range_of(variables), len(node.variables)):
            spent = variables[_COST]
            spent[0] += cost
            if spent[0] > _COST_MAX:
                raise CelError("operation cancelled: actual cost limit exceeded")
            yield keys[0], {**variables, **dict(zip(node.variables, keys, strict=True))}

    return _LOOPS[node.name](scopes, bodies)


def _binding(name: str, range_of: Evaluate, variable: str, body: Evaluate) -> Evaluate:
    def bind(variables: Variables) -> Any:
        return body({**variables, variable: range_of(variables)})

    def map_optional(variables: Variables) -> Any:
        optional = range_of(variables)
        if not isinstance(optional, Optional):
            raise no_such_overload(f"hasValue({values.type_name(optional)})")
        if not optional.is_set:
            return optional
        result = body({**variables, variable: optional.value})
        return Optional(result, True) if name == "optMap" else result

    return bind if name == "bind" else map_optional


def _elements(value: Any, names: int) -> Iterable[tuple[Any, ...]]:
    """Return the values of a macro's variables for each element of a list or map."""
    if isinstance(value, dict):
        return value.items() if names > 1 else [(key,) for key in value]
    if not isinstance(value, list):
        raise CelError(f"got '{_go_name(value)}', expected iterable type")
    return enumerate(value) if names > 1 else [(element,) for element in value]


def _go_name(value: Any) -> str:
    """Return the name of cel-go's type of a value."""
    kind = values.type_name(value)
    package = "cel" if kind.startswith("kubernetes.") else "types"
    kind = kind.rpartition(".")[2].removesuffix("_type")
    return f"{package}.{kind[:1].upper()}{kind[1:]}"


Scopes = Callable[[Variables], "Iterable[tuple[Any, Variables]]"]


def _quantifier(*, decisive: bool) -> Callable[[Scopes, list[Evaluate]], Evaluate]:
    def loop(scopes: Scopes, bodies: list[Evaluate]) -> Evaluate:
        return lambda variables: _decided(
            ((bodies[0], scope) for _, scope in scopes(variables)), decisive=decisive
        )

    return loop


def _exists_one(scopes: Scopes, bodies: list[Evaluate]) -> Evaluate:
    return lambda variables: sum(_true(bodies[0](s)) for _, s in scopes(variables)) == 1


def _filter(scopes: Scopes, bodies: list[Evaluate]) -> Evaluate:
    return lambda variables: [e for e, s in scopes(variables) if _true(bodies[0](s))]


def _map(scopes: Scopes, bodies: list[Evaluate]) -> Evaluate:
    *conditions, result = bodies
    return lambda variables: [
        result(scope)
        for _, scope in scopes(variables)
        if all(_true(condition(scope)) for condition in conditions)
    ]


def _transform_map(scopes: Scopes, bodies: list[Evaluate]) -> Evaluate:
    *conditions, result = bodies
    return lambda variables: {
        key: result(scope)
        for key, scope in scopes(variables)
        if all(_true(condition(scope)) for condition in conditions)
    }


def _transform_map_entry(scopes: Scopes, bodies: list[Evaluate]) -> Evaluate:
    entries = _map(scopes, bodies)

    def evaluate(variables: Variables) -> dict[object, object]:
        made: dict[object, object] = {}
        for entry in entries(variables):
            if not isinstance(entry, dict):
                name = values.type_name(entry)
                raise CelError(f"no such overload: cel.@mapInsert(map, {name})")
            for key, value in entry.items():
                if key in made:
                    raise CelError(f"insert failed: key {key} already exists")
                made[key] = value
        return made

    return evaluate


def _sort_by(scopes: Scopes, bodies: list[Evaluate]) -> Evaluate:
    def evaluate(variables: Variables) -> list[object]:
        keyed = [(bodies[0](scope), element) for element, scope in scopes(variables)]
        key = functools.cmp_to_key(values.compare)
        return [element for _, element in sorted(keyed, key=lambda pair: key(pair[0]))]

    return evaluate


def _true(value: object) -> bool:
    if not isinstance(value, bool):
        raise no_such_overload()
    return value


_LOOPS: Final[Mapping[str, Callable[[Scopes, list[Evaluate]], Evaluate]]] = {
    "all": _quantifier(decisive=False),
    "exists": _quantifier(decisive=True),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
    "sortBy": _sort_by,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_map_entry,
}


def _size(node: Node) -> int:
    """Return the number of nodes of a tree."""
    children: list[Node] = []
    if isinstance(node, Select):
        children = [node.operand]
    elif isinstance(node, Call):
        children = [*node.arguments, *(() if node.target is None else (node.target,))]
    elif isinstance(node, ListNode):
        children = [*node.elements]
    elif isinstance(node, MapNode):
        children = [child for entry in node.entries for child in entry]
    elif isinstance(node, Macro):
        children = [node.range, *node.bodies]
    return 1 + sum(map(_size, children))
