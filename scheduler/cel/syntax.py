"""The parser of CEL: text to a tree, with the macros recognised.

Every node has the position in the text that an error of it names: the operator of a call, the dot
of a selection, otherwise its beginning. The texts of errors are cel-go's.
Source: cel-go `parser/gen/CEL.g4`, `parser/parser.go`, `parser/macro.go`, v0.26.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

#: The parts of an escape: a letter or sign, two digits, `u` or `U` with digits, octal digits.
_ESCAPED: Final = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})"
    r"|(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})|([0-3][0-7]{2}))"
)
_SHORT_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_CODE_POINT_MAX: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)
_TOKEN: Final = re.compile(
    r"""
    (?P<space>[\t\ \r\n\f]+|//[^\n]*)
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<raw>(?:[bB]?[rR])(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n\r]*"|'[^'\n\r]*'))
  | (?P<string>[bB]?(?:
        \"{3}(?:[^\\]|ESCAPE)*?\"{3} | '{3}(?:[^\\]|ESCAPE)*?'{3}
      | "(?:[^\\"\n\r]|ESCAPE)*" | '(?:[^\\'\n\r]|ESCAPE)*'))
  | (?P<ident>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<escaped>`[_a-zA-Z0-9.\-/\ ]+`)
  | (?P<operator>&&|\|\||==|!=|<=|>=|\?\.|[-+*/%<>!?:.,()\[\]{}])
    """.replace("ESCAPE", _ESCAPED.pattern),
    re.VERBOSE | re.DOTALL,
)
_RESERVED: Final = frozenset({
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
    "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
_OPERAND: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, "
    "BYTES, IDENTIFIER}"
)
#: By rank: the binary operators, the weakest first.
_BINARY: Final = (
    ("||",), ("&&",), ("<", "<=", ">=", ">", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_INT_BITS: Final = 64


class SyntaxProblem(Exception):
    """The text is no CEL; `position` is an index into it."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position: Final = position


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: None, bool, int, float, str, bytes, or `UInt`."""

    position: int
    value: object


@dataclass(frozen=True, slots=True)
class Ident:
    """A name."""

    position: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A field of an operand; with `is_test` (`has`) its presence, with `is_optional` `a.?b`."""

    position: int
    operand: Node
    field: str
    is_test: bool = False
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function or an operator; `target` is the receiver of a method."""

    position: int
    function: str
    target: Node | None
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list of elements."""

    position: int
    elements: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapNode:
    """A map of keys and values."""

    position: int
    entries: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro over the elements of a range, or a binding of a variable to it (`cel.bind`).

    `name` is `all`, `exists`, `exists_one`, `map`, `filter`, `sortBy`, `transformList`,
    `transformMap`, `transformMapEntry`, `bind`, `optMap` or `optFlatMap`.
    """

    position: int
    name: str
    range: Node
    variables: tuple[str, ...]
    bodies: tuple[Node, ...]


Node = Literal | Ident | Select | Call | ListNode | MapNode | Macro


class UInt(int):
    """An unsigned integer."""

    __slots__ = ()


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse(text: str) -> Node:
    """Return the tree of an expression; raises `SyntaxProblem`."""
    parser = _Parser(_tokens(text))
    node = parser.expression()
    if parser.token.kind != "end":
        raise SyntaxProblem(
            parser.token.position,
            f"Syntax error: extraneous input '{parser.token.text}' expecting <EOF>",
        )
    return node


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            shown = text[position] if text[position] not in "\"'" else text[position:]
            raise SyntaxProblem(position, f"Syntax error: token recognition error at: '{shown}'")
        kind = match.lastgroup or ""
        if kind != "space":
            tokens.append(_Token(kind, match[0], position))
        position = match.end()
    tokens.append(_Token("end", "<EOF>", position))
    return tokens


class _Parser:
    """Reads tokens by recursive descent; one method per level of the grammar."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens: Final = tokens
        self._index = 0

    @property
    def token(self) -> _Token:
        return self._tokens[self._index]

    def expression(self) -> Node:
        """Read a ternary, the weakest operator."""
        condition = self._binary(0)
        question = self.token
        if not self._accept("?"):
            return condition
        truthy = self._binary(0)
        self._expect(":")
        falsy = self.expression()
        return Call(question.position, "_?_:_", None, (condition, truthy, falsy))

    def _binary(self, rank: int) -> Node:
        if rank == len(_BINARY):
            return self._unary()
        left = self._binary(rank + 1)
        while self.token.text in _BINARY[rank] and self.token.kind in ("operator", "ident"):
            operator = self._take()
            name = "@in" if operator.text == "in" else f"_{operator.text}_"
            left = Call(operator.position, name, None, (left, self._binary(rank + 1)))
        return left

    def _unary(self) -> Node:
        token = self.token
        if token.kind == "operator" and token.text in ("!", "-"):
            self._take()
            following = self.token
            if token.text == "-" and following.kind in ("int", "float"):
                self._take()
                return self._members(_number(following, token.position, negative=True))
            count = 1
            while self.token.text == token.text and self.token.kind == "operator":
                self._take()
                count += 1
            operand = self._members(self._primary())
            if count % 2 == 0:
                return operand
            return Call(token.position, f"{token.text}_", None, (operand,))
        return self._members(self._primary())

    def _members(self, node: Node) -> Node:
        while True:
            token = self.token
            if self._accept("."):
                is_optional = self._accept("?")
                node = self._member(node, token, is_optional=is_optional)
            elif self._accept("["):
                name = "_[?_]" if self._accept("?") else "_[_]"
                index = self.expression()
                if not self._accept("]"):
                    self._fail_missing("]")
                node = Call(token.position, name, None, (node, index))
            else:
                return node

    def _member(self, operand: Node, dot: _Token, *, is_optional: bool) -> Node:
        field = self.token
        if field.kind not in ("ident", "escaped"):
            text = f"Syntax error: no viable alternative at input '.{field.text}'"
            raise SyntaxProblem(field.position, text)
        self._take()
        opened = self.token
        if field.kind == "ident" and not is_optional and self._accept("("):
            return _method(opened.position, field.text, operand, self._arguments(")"))
        return Select(dot.position, operand, field.text.strip("`"), is_optional=is_optional)

    def _primary(self) -> Node:
        token = self.token
        if token.kind in ("int", "uint", "float"):
            return _number(self._take(), token.position, negative=False)
        if token.kind in ("string", "raw"):
            return Literal(token.position, _text(self._take()))
        self._accept(".")
        if self.token.kind == "ident" and self.token.text != "in":
            return self._ident()
        if self._accept("("):
            node = self.expression()
            if not self._accept(")"):
                self._fail_missing(")")
            return node
        if self._accept("["):
            return ListNode(token.position, self._arguments("]"))
        if self._accept("{"):
            return MapNode(token.position, self._entries())
        return self._fail(_OPERAND)

    def _ident(self) -> Node:
        token = self._take()
        if token.text in ("true", "false", "null"):
            return Literal(token.position, {"true": True, "false": False, "null": None}[token.text])
        if token.text in _RESERVED:
            raise SyntaxProblem(token.position, f"reserved identifier: {token.text}")
        opened = self.token
        if self._accept("("):
            return _function(opened.position, token.text, self._arguments(")"))
        return Ident(token.position, token.text)

    def _arguments(self, closing: str) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while not self._accept(closing):
            if nodes:
                if not self._accept(","):
                    self._fail_extraneous(closing)
                if closing == "]" and self._accept("]"):
                    break
            nodes.append(self.expression())
        return tuple(nodes)

    def _entries(self) -> tuple[tuple[Node, Node], ...]:
        entries: list[tuple[Node, Node]] = []
        while not self._accept("}"):
            if entries:
                if not self._accept(","):
                    self._fail("{'}', ','}")
                if self._accept("}"):
                    break
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
        return tuple(entries)

    def _take(self) -> _Token:
        token = self.token
        self._index += 1
        return token

    def _accept(self, text: str) -> bool:
        is_next = self.token.kind == "operator" and self.token.text == text
        self._index += is_next
        return is_next

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            self._fail(f"'{text}'")

    def _fail(self, expected: str) -> NoReturn:
        token = self.token
        text = f"Syntax error: mismatched input '{token.text}' expecting {expected}"
        raise SyntaxProblem(token.position, text)

    def _fail_extraneous(self, closing: str) -> NoReturn:
        token = self.token
        if token.kind == "end":
            self._fail(f"{{'{closing}', ','}}")
        text = f"Syntax error: extraneous input '{token.text}' expecting {{'{closing}', ','}}"
        raise SyntaxProblem(token.position, text)

    def _fail_missing(self, text: str) -> NoReturn:
        token = self.token
        raise SyntaxProblem(token.position, f"Syntax error: missing '{text}' at '{token.text}'")


def _number(token: _Token, position: int, *, negative: bool) -> Literal:
    sign = -1 if negative else 1
    if token.kind == "float":
        return Literal(position, sign * float(token.text))
    digits = token.text.rstrip("uU")
    value = sign * int(digits, 16 if digits.startswith("0x") else 10)
    if token.kind == "uint":
        if value >= 2**_INT_BITS:
            raise SyntaxProblem(position, "invalid uint literal")
        return Literal(position, UInt(value))
    if not -(2 ** (_INT_BITS - 1)) <= value < 2 ** (_INT_BITS - 1):
        raise SyntaxProblem(position, "invalid int literal")
    return Literal(position, value)


def _text(token: _Token) -> str | bytes:
    """Return the value of a string or bytes literal."""
    prefix = token.text[: token.text.find(token.text[-1])].lower()
    body = token.text[len(prefix) :]
    quotes = 3 if body[:3] in ('"""', "'''") else 1
    text = re.sub(r"\r\n?", "\n", body[quotes:-quotes])
    if "b" not in prefix:
        return text if "r" in prefix else _ESCAPED.sub(partial(_unescaped, token.position), text)
    if "r" not in prefix:
        # Each character stands for one byte.
        text = text.encode().decode("latin-1")
        if any(match[3] for match in _ESCAPED.finditer(text)):
            raise SyntaxProblem(token.position, "unable to unescape string")
        return _ESCAPED.sub(partial(_unescaped, token.position), text).encode("latin-1")
    return text.encode()


def _unescaped(position: int, match: re.Match[str]) -> str:
    """Return the character that an escape stands for."""
    if match[1]:
        return _SHORT_ESCAPES.get(match[1], match[1])
    code = int(match[4], 8) if match[4] else int(match[2] or match[3][1:], 16)
    if code > _CODE_POINT_MAX or code in _SURROGATES:
        raise SyntaxProblem(position, "invalid unicode code point")
    return chr(code)


def _function(position: int, name: str, arguments: tuple[Node, ...]) -> Node:
    """Return a call of a function, or the macro `has`."""
    if name == "has" and len(arguments) == 1:
        (tested,) = arguments
        if not isinstance(tested, Select):
            raise SyntaxProblem(tested.position, "invalid argument to has() macro")
        return Select(position, tested.operand, tested.field, is_test=True)
    return Call(position, name, None, arguments)


def _method(position: int, name: str, target: Node, arguments: tuple[Node, ...]) -> Node:
    """Return a call of a method, or a macro."""
    if (
        name == "bind"
        and isinstance(target, Ident)
        and target.name == "cel"
        and len(arguments) == 3
    ):
        variable = _variable(arguments[0], "cel.bind() variable names must be simple identifiers")
        return Macro(position, "bind", arguments[1], (variable,), arguments[2:])
    if name in ("optMap", "optFlatMap") and len(arguments) == 2:
        message = f"{name}() variable name must be a simple identifier"
        variable = _variable(arguments[0], message)
        return Macro(position, name, target, (variable,), arguments[1:])
    macro = _MACROS.get(name)
    if macro is None or len(arguments) not in macro.counts:
        return Call(position, name, target, arguments)
    variables = macro.variables(len(arguments))
    names = [_variable(a, "argument must be a simple name") for a in arguments[:variables]]
    name = "exists_one" if name == "existsOne" else name
    return Macro(position, name, target, tuple(names), arguments[variables:])


def _variable(node: Node, message: str) -> str:
    if not isinstance(node, Ident):
        raise SyntaxProblem(node.position, message)
    return node.name


class _Range(NamedTuple):
    """The numbers of arguments of a macro, and how many of them are names of variables."""

    counts: tuple[int, ...]
    variables: Callable[[int], int]


_PREDICATE: Final = _Range((2, 3), lambda count: count - 1)
_MACROS: Final = {
    "all": _PREDICATE,
    "exists": _PREDICATE,
    "exists_one": _PREDICATE,
    "existsOne": _Range((3,), lambda count: 2),
    "map": _Range((2, 3), lambda count: 1),
    "filter": _Range((2,), lambda count: 1),
    "sortBy": _Range((2,), lambda count: 1),
    **dict.fromkeys(
        ("transformList", "transformMap", "transformMapEntry"), _Range((3, 4), lambda count: 2)
    ),
}
