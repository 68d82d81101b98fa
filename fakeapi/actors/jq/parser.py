"""From the text of a query to what it does."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from fakeapi.actors.jq.evaluation import OPERATORS, JqError, field, is_true, items, part, text_of
from fakeapi.actors.jq.functions import FUNCTIONS, PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakeapi.actors.jq.evaluation import Filter, Variables

__all__ = ["JqSyntaxError", "Query", "compiled"]

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|\#[^\n]*)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<field>\.[A-Za-z_]\w*)
  | (?P<variable>\$[A-Za-z_]\w*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<assignment>\|=|[+*/%-]=|//=|=(?!=))
  | (?P<sign>\.\.|//|==|!=|<=|>=|[.\[\]{}()|,:;<>+*/%?-])
  | (?P<format>@\w+)
    """,
    re.VERBOSE | re.DOTALL,
)
_REFUSED: Final = ("def", "reduce", "foreach", "label", "import", "include", "limit", "input")
_COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")
_INTERPOLATED: Final = re.compile(r"\\\(")


class JqSyntaxError(Exception):
    """A query that is no jq, or uses what is not here."""


class Query:
    """A compiled query."""

    def __init__(self, run: Filter) -> None:
        self._run = run

    def __call__(self, value: object) -> list[object]:
        """All results for a value. Raises JqError."""
        try:
            return list(self._run(value, {}))
        except RecursionError:
            raise JqError("the value is too deep") from None


def compiled(text: str) -> Query:
    """Compile a query. Raises JqSyntaxError."""
    return Query(_Parser(text).whole())


class _Parser:
    def __init__(self, text: str, variables: frozenset[str] = frozenset()) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._variables = variables

    def whole(self) -> Filter:
        found = self._pipe()
        if self._peek():
            raise self._unexpected()
        return found

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _kind(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        found = self._peek()
        self._at += 1
        return found

    def _accept(self, *wanted: str) -> str:
        return self._take() if self._peek() in wanted and self._kind() != "string" else ""

    def _expect(self, wanted: str) -> None:
        if not self._accept(wanted):
            raise self._unexpected()

    def _unexpected(self) -> JqSyntaxError:
        token = self._peek()
        if self._kind() == "assignment":
            return JqSyntaxError(f"{token}: assignment is not supported")
        return JqSyntaxError(f"unexpected token {json.dumps(token)}" if token else "unexpected EOF")

    def _pipe(self) -> Filter:
        first = self._comma()
        if self._accept("as"):
            return self._binding(first)
        if self._accept("|"):
            return _piped(first, self._pipe())
        return first

    def _binding(self, source: Filter) -> Filter:
        if self._kind() != "variable":
            raise self._unexpected()
        name, outer = self._take(), self._variables
        self._expect("|")
        self._variables = outer | {name}
        body = self._pipe()
        self._variables = outer

        def run(value: object, variables: Variables) -> Iterator[object]:
            for bound in source(value, variables):
                yield from body(value, {**variables, name: bound})

        return run

    def _comma(self) -> Filter:
        parts = [self._alternative()]
        while self._accept(","):
            parts.append(self._alternative())
        return parts[0] if len(parts) == 1 else _in_turn(parts)

    def _alternative(self) -> Filter:
        first = self._or()
        return _alternatives(first, self._alternative()) if self._accept("//") else first

    def _or(self) -> Filter:
        found = self._and()
        while self._accept("or"):
            found = _logical(found, self._and(), decides=True)
        return found

    def _and(self) -> Filter:
        found = self._comparison()
        while self._accept("and"):
            found = _logical(found, self._comparison(), decides=False)
        return found

    def _comparison(self) -> Filter:
        first = self._sum()
        sign = self._accept(*_COMPARISONS)
        return _operated(sign, first, self._sum()) if sign else first

    def _sum(self) -> Filter:
        found = self._product()
        while sign := self._accept("+", "-"):
            found = _operated(sign, found, self._product())
        return found

    def _product(self) -> Filter:
        found = self._postfix()
        while sign := self._accept("*", "/", "%"):
            found = _operated(sign, found, self._postfix())
        return found

    def _postfix(self) -> Filter:
        found = self._term()
        while True:
            if self._kind() == "field":
                found = _piped_key(found, _constant(self._take()[1:]))
            elif self._peek() == "." and self._next_is_string():
                self._take()
                found = _piped_key(found, self._string(self._take()))
            elif self._accept("?"):
                found = _tried(found, _empty)
            elif self._peek() == "[" or (self._peek() == "." and self._next() == "["):
                self._accept(".")
                self._take()
                found = self._bracket(found)
            else:
                return found

    def _next(self) -> str:
        return self._tokens[self._at + 1][1] if self._at + 1 < len(self._tokens) else ""

    def _next_is_string(self) -> bool:
        return self._at + 1 < len(self._tokens) and self._tokens[self._at + 1][0] == "string"

    def _bracket(self, of: Filter) -> Filter:
        if self._accept("]"):
            return _iterated(of)
        start = _constant(None) if self._peek() == ":" else self._pipe()
        if self._accept("]"):
            return _piped_key(of, start)
        self._expect(":")
        end = _constant(None) if self._peek() == "]" else self._pipe()
        self._expect("]")
        return _sliced(of, start, end)

    def _term(self) -> Filter:
        kind, token = self._kind(), self._peek()
        if kind == "field":
            self._take()
            return _piped_key(_identity, _constant(token[1:]))
        if kind == "string":
            return self._string(self._take())
        if kind == "number":
            self._take()
            return _constant(int(token) if token.isdecimal() else float(token))
        if kind == "variable":
            self._take()
            if token not in self._variables:
                raise JqSyntaxError(f"variable not defined: {token}")
            return lambda _, variables: iter((variables[token],))
        if kind == "word":
            return self._word(self._take())
        if kind == "format":
            raise JqSyntaxError(f"{token}: formats are not supported")
        return self._punctuated()

    def _punctuated(self) -> Filter:
        if self._accept(".."):
            return FUNCTIONS["recurse", 0]([])
        if self._peek() == ".":
            if self._next_is_string():
                self._take()
                return _piped_key(_identity, self._string(self._take()))
            if self._next() == "[":
                return _identity  # the bracket comes with its dot
            self._take()
            return _identity
        if self._accept("("):
            found = self._pipe()
            self._expect(")")
            return found
        if self._accept("["):
            if self._accept("]"):
                return _constant([])
            found = self._pipe()
            self._expect("]")
            return _collected(found)
        if self._accept("{"):
            return self._object()
        if self._accept("-"):
            return _operated("-", _constant(0), self._postfix())
        raise self._unexpected()

    def _word(self, name: str) -> Filter:
        if name == "if":
            return self._if()
        if name == "try":
            body = self._postfix()
            return _tried(body, self._postfix() if self._accept("catch") else _empty)
        arguments: list[Filter] = []
        if self._accept("("):
            arguments.append(self._pipe())
            while self._accept(";"):
                arguments.append(self._pipe())
            self._expect(")")
        if not arguments and name in PLAIN:
            return _called(PLAIN[name])
        found = FUNCTIONS.get((name, len(arguments)))
        if found is None:
            why = "not supported" if name in _REFUSED else "function not defined"
            raise JqSyntaxError(f"{why}: {name}/{len(arguments)}")
        return found(arguments)

    def _if(self) -> Filter:
        condition = self._pipe()
        self._expect("then")
        then = self._pipe()
        if self._accept("elif"):
            return _decided(condition, then, self._if())
        otherwise = self._pipe() if self._accept("else") else _identity
        self._expect("end")
        return _decided(condition, then, otherwise)

    def _object(self) -> Filter:
        pairs: list[tuple[Filter, Filter]] = []
        while not self._accept("}"):
            pairs.append(self._pair())
            if self._peek() != "}":
                self._expect(",")
        return _built(pairs)

    def _pair(self) -> tuple[Filter, Filter]:
        kind, token = self._kind(), self._take()
        if kind == "variable":
            return _constant(token[1:]), lambda _, variables: iter((variables[token],))
        if token == "(" and kind == "sign":
            key = self._pipe()
            self._expect(")")
        elif kind in ("word", "string"):
            key = self._string(token) if kind == "string" else _constant(token)
        else:
            self._at -= 1
            raise self._unexpected()
        if self._accept(":"):
            return key, self._alternative()
        return key, _piped_key(_identity, key)

    def _string(self, token: str) -> Filter:
        """A string, in which \\( ) is a query."""
        found = _INTERPOLATED.search(token)
        if found is None:
            try:
                return _constant(json.loads(token, strict=False))
            except ValueError as error:
                raise JqSyntaxError(f"invalid string {token}: {error}") from error
        before = self._string(f'{token[: found.start()]}"')
        depth, end = 1, found.end()
        while depth and end < len(token):
            depth += {"(": 1, ")": -1}.get(token[end], 0)
            end += 1
        inner = _Parser(token[found.end() : end - 1], self._variables).whole()
        after = self._string(f'"{token[end:]}')
        return _operated("+", before, _operated("+", _piped(inner, _called(text_of)), after))


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise JqSyntaxError(f"unexpected token {json.dumps(text[position])}")
        position = found.end()
        if found.lastgroup != "space":
            yield found.lastgroup or "", found[0]


def _identity(value: object, _variables: Variables) -> Iterator[object]:
    return iter((value,))


def _empty(_value: object, _variables: Variables) -> Iterator[object]:
    return iter(())


def _constant(constant: object) -> Filter:
    return lambda _value, _variables: iter((constant,))


def _called(call: Callable[[object], object]) -> Filter:
    def run(value: object, _variables: Variables) -> Iterator[object]:
        yield call(value)

    return run


def _piped(first: Filter, second: Filter) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        for found in first(value, variables):
            yield from second(found, variables)

    return run


def _piped_key(of: Filter, key: Filter) -> Filter:
    """`of[key]`; the key is made of the value that `of` is made of."""

    def run(value: object, variables: Variables) -> Iterator[object]:
        for found in of(value, variables):
            for one in key(value, variables):
                yield field(found, one)

    return run


def _sliced(of: Filter, start: Filter, end: Filter) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        for found in of(value, variables):
            for low in start(value, variables):
                for high in end(value, variables):
                    yield part(found, low, high)

    return run


def _iterated(of: Filter) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        for found in of(value, variables):
            yield from items(found)

    return run


def _in_turn(parts: list[Filter]) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        for one in parts:
            yield from one(value, variables)

    return run


def _alternatives(first: Filter, second: Filter) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        found = False
        try:
            for one in first(value, variables):
                if is_true(one):
                    found = True
                    yield one
        except JqError:
            pass
        if not found:
            yield from second(value, variables)

    return run


def _logical(first: Filter, second: Filter, *, decides: bool) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        for one in first(value, variables):
            if is_true(one) == decides:
                yield decides
            else:
                yield from (is_true(other) for other in second(value, variables))

    return run


def _operated(sign: str, first: Filter, second: Filter) -> Filter:
    operation = OPERATORS[sign]

    def run(value: object, variables: Variables) -> Iterator[object]:
        for right in second(value, variables):
            for left in first(value, variables):
                yield operation(left, right)

    return run


def _collected(of: Filter) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        yield list(of(value, variables))

    return run


def _decided(condition: Filter, then: Filter, otherwise: Filter) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        for one in condition(value, variables):
            yield from (then if is_true(one) else otherwise)(value, variables)

    return run


def _tried(of: Filter, caught: Filter) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        try:
            yield from of(value, variables)
        except JqError as error:
            yield from caught(error.value, variables)

    return run


def _built(pairs: list[tuple[Filter, Filter]]) -> Filter:
    def run(value: object, variables: Variables) -> Iterator[object]:
        made: list[dict[str, object]] = [{}]
        for key, item in pairs:
            keys, values = list(key(value, variables)), list(item(value, variables))
            for one in keys:
                if not isinstance(one, str):
                    raise JqError(f"expected a string for object key but got: {text_of(one)}")
            made = [{**so_far, str(k): v} for so_far in made for k in keys for v in values]
        yield from made

    return run
