"""Execution of a template. Source: text/template/exec.go of Go 1.26."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.templates.functions import BUILTINS, SPRIG, FunctionError
from fakeapi.actors.templates.parser import (
    MAIN,
    Action,
    Branch,
    Call,
    Chain,
    Constant,
    Dot,
    Field,
    Include,
    Jump,
    Pipeline,
    Text,
    Variable,
)
from fakeapi.actors.templates.values import (
    MISSING,
    Number,
    TemplateError,
    is_true,
    printed,
    type_name,
)
from fakeapi.types.gotext import plain, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fakeapi.actors.templates.functions import Function
    from fakeapi.actors.templates.parser import Command, Node, Operand

_DEPTH_MAX: Final = 100  # templates that include each other; Go's limit is 100,000 with more stack
_OUTPUT_MAX: Final = 16 * 1024 * 1024
_STEPS_MAX: Final = 200_000


class Template:
    """A parsed template; it keeps no state between executions."""

    def __init__(self, bodies: Mapping[str, tuple[Node, ...]]) -> None:
        self._bodies = bodies

    def render(self, data: object, functions: Mapping[str, Function]) -> str:
        """Execute the template. Raises TemplateError."""
        run = _Run(self._bodies, {**BUILTINS, **SPRIG, **functions})
        run.walk(self._bodies[MAIN], data, _Scope(data))
        return "".join(run.written)


class _Scope:
    """Variables; a block removes its own at its end."""

    def __init__(self, data: object) -> None:
        self.stack: list[tuple[str, object]] = [("$", data)]

    def get(self, name: str) -> object:
        return next(value for known, value in reversed(self.stack) if known == name)

    def assign(self, name: str, value: object) -> None:
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index][0] == name:
                self.stack[index] = (name, value)
                return

    def set_all(self, names: Iterable[str], value: object, *, assigns: bool) -> None:
        for name in names:
            if assigns:
                self.assign(name, value)
            else:
                self.stack.append((name, value))


class _JumpError(Exception):
    """`break` or `continue` in the body of a range."""

    def __init__(self, keyword: str) -> None:
        super().__init__(keyword)
        self.keyword = keyword


class _Run:
    """One execution; `_line` is the present line, for errors."""

    def __init__(
        self, bodies: Mapping[str, tuple[Node, ...]], functions: Mapping[str, Function]
    ) -> None:
        self.written: list[str] = []
        self._bodies = bodies
        self._functions = functions
        self._line = 1
        self._depth = 0
        self._size = 0
        self._steps = 0

    def walk(self, nodes: Iterable[Node], dot: object, scope: _Scope) -> None:
        """Execute the nodes. Raises TemplateError."""
        for node in nodes:
            self._steps += 1
            if self._steps > _STEPS_MAX:
                raise self._error(f"gave up after {_STEPS_MAX} steps")
            if isinstance(node, Text):
                self._write(node.text)
            elif isinstance(node, Action):
                self._line = node.line
                value = self._pipeline(node.pipeline, dot, scope)
                if not node.pipeline.variables:
                    self._write(printed(value))
            elif isinstance(node, Branch):
                self._branch(node, dot, scope)
            elif isinstance(node, Jump):
                raise _JumpError(node.keyword)
            else:
                self._include(node, dot, scope)

    def _write(self, text: str) -> None:
        self._size += len(text)
        if self._size > _OUTPUT_MAX:
            raise self._error(f"more than {_OUTPUT_MAX} characters are written")
        self.written.append(text)

    def _branch(self, node: Branch, dot: object, scope: _Scope) -> None:
        self._line = node.line
        mark = len(scope.stack)
        if node.keyword == "range":
            self._range(node, dot, scope)
        else:
            value = self._pipeline(node.pipeline, dot, scope)
            if is_true(value):
                self.walk(node.body, value if node.keyword == "with" else dot, scope)
            else:
                self.walk(node.otherwise, dot, scope)
        del scope.stack[mark:]

    def _range(self, node: Branch, dot: object, scope: _Scope) -> None:
        pipeline = node.pipeline
        value = self._pipeline(pipeline, dot, scope)
        items = self._items(value, len(pipeline.variables))
        mark = len(scope.stack)
        names = pipeline.variables
        for index, item in items:
            pair = (item,) if len(names) == 1 else (index, item)
            for name, one in zip(names, pair, strict=False):
                scope.assign(name, one)
            try:
                self.walk(node.body, item, scope)
            except _JumpError as jump:
                if jump.keyword == "break":
                    break
            finally:
                del scope.stack[mark:]
        if not items:
            self.walk(node.otherwise, dot, scope)

    def _items(self, value: object, variables: int) -> list[tuple[object, object]]:
        if value is MISSING or value is None:
            return []
        if isinstance(value, list):
            return list(enumerate(value))
        if isinstance(value, dict):
            return [(key, value[key]) for key in sorted(value)]
        if isinstance(value, int) and not isinstance(value, bool):
            if variables > 1:
                raise self._error(f"can't use {value} to iterate over more than one variable")
            return [(MISSING, number) for number in range(min(value, _STEPS_MAX))]
        raise self._error(f"range can't iterate over {plain(value)}")

    def _include(self, node: Include, dot: object, scope: _Scope) -> None:
        self._line = node.line
        body = self._bodies.get(node.name)
        if body is None or not node.name:
            raise self._error(f"template {quoted(node.name)} not defined")
        if self._depth == _DEPTH_MAX:
            raise self._error(f"exceeded maximum template depth ({_DEPTH_MAX})")
        data = self._pipeline(node.pipeline, dot, scope) if node.pipeline else MISSING
        self._depth += 1
        self.walk(body, data, _Scope(data))
        self._depth -= 1

    def _pipeline(self, pipeline: Pipeline, dot: object, scope: _Scope) -> object:
        value: object = _NONE_BEFORE
        for command in pipeline.commands:
            value = self._command(command, dot, scope, value)
            if value is None:
                value = MISSING  # an interface that holds nothing is no value
        scope.set_all(pipeline.variables, value, assigns=pipeline.assigns)
        return value

    def _command(self, command: Command, dot: object, scope: _Scope, final: object) -> object:
        self._line = command.line
        first, *others = command.operands
        given = bool(others) or final is not _NONE_BEFORE
        if isinstance(first, Call):
            return self._call(first.name, others, dot, scope, final)
        if isinstance(first, Constant):
            if given:
                raise self._error(f"can't give argument to non-function {first.text}")
            if first.value is None:
                raise self._error("nil is not a command")
        elif given:
            names = getattr(first, "names", ())
            if names:
                raise self._error(f"{names[-1]} is not a method but has arguments")
            raise self._error(f"can't give argument to non-function {first.text}")
        return self._operand(first, dot, scope)

    def _operand(self, operand: Operand, dot: object, scope: _Scope) -> object:
        if isinstance(operand, Constant):
            return operand.value
        if isinstance(operand, Dot):
            return dot
        if isinstance(operand, Field):
            return self._fields(dot, operand.names)
        if isinstance(operand, Variable):
            return self._fields(scope.get(operand.name), operand.names)
        if isinstance(operand, Chain):
            return self._fields(self._operand(operand.of, dot, scope), operand.names)
        if isinstance(operand, Call):
            return self._call(operand.name, [], dot, scope, _NONE_BEFORE)
        mark = len(scope.stack)
        value = self._pipeline(operand, dot, scope)
        if not operand.variables:
            del scope.stack[mark:]
        return value

    def _fields(self, value: object, names: tuple[str, ...]) -> object:
        for name in names:
            if value is MISSING:
                return MISSING
            if value is None:
                raise self._error(f"nil pointer evaluating interface {{}}.{name}")
            if isinstance(value, dict):
                value = value.get(name, MISSING)
            elif isinstance(value, Number) and name in _METHODS:
                value = self._number(value, name)
            else:
                raise self._error(f"can't evaluate field {name} in type {type_name(value)}")
        return value

    def _number(self, value: Number, method: str) -> object:
        try:
            return _METHODS[method](value)
        except ValueError:
            raise self._error(f"error calling {method}: invalid syntax") from None

    def _call(
        self, name: str, operands: Iterable[Operand], dot: object, scope: _Scope, final: object
    ) -> object:
        if name in ("and", "or"):
            return self._and_or(name, list(operands), dot, scope, final)
        values = [self._operand(one, dot, scope) for one in operands]
        if final is not _NONE_BEFORE:
            values.append(final)
        try:
            return self._functions[name](values)
        except FunctionError as error:
            message = str(error)
            if not message.startswith(("wrong number", "invalid value", "wrong type")):
                message = f"error calling {name}: {message}"
            raise self._error(message) from error

    def _and_or(
        self, name: str, operands: list[Operand], dot: object, scope: _Scope, final: object
    ) -> object:
        """Evaluate `and` or `or`, up to the first operand that decides."""
        if not operands and final is _NONE_BEFORE:
            raise self._error(f"wrong number of args for {name}: want at least 1 got 0")
        value: object = MISSING
        for operand in operands:
            value = self._operand(operand, dot, scope)
            if is_true(value) == (name == "or"):
                return value
        return value if final is _NONE_BEFORE else final

    def _error(self, message: str) -> TemplateError:
        return TemplateError(message, self._line)


_NONE_BEFORE: Final = object()
_METHODS: Final = {"String": str, "Int64": int, "Float64": float}
