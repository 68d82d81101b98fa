"""The tree of a template. Source: text/template/parse/{node,parse}.go of Go 1.26."""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import TYPE_CHECKING, Final, TypeAlias

from fakeapi.actors.templates import lexer
from fakeapi.actors.templates.functions import SPRIG
from fakeapi.actors.templates.values import TemplateError
from fakeapi.types.gotext import quoted

if TYPE_CHECKING:
    from fakeapi.actors.templates.lexer import Piece, Token


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
    """An operand and its arguments."""

    operands: tuple[Operand, ...]
    line: int


@dataclasses.dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands; the result of one is the last argument of the next."""

    commands: tuple[Command, ...]
    variables: tuple[str, ...] = ()
    assigns: bool = False
    text: str = "(...)"


Operand: TypeAlias = Constant | Dot | Field | Variable | Call | Chain | Pipeline


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """Literal text."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Action:
    """A pipeline; its value is written unless it sets variables."""

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


MAIN: Final = ""
_NAMED: Final = {"true": True, "false": False, "nil": None}
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))",
    re.DOTALL,
)
_SIMPLE: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"',
}  # fmt: skip


def parse_templates(text: str, functions: frozenset[str]) -> dict[str, tuple[Node, ...]]:
    """Parse a template; return its tree as MAIN, and those of the templates it defines by name.

    `functions` are the names of the functions that may be called. Raises TemplateError.
    """
    parser = _Parser(text, functions)
    body, _ = parser.body(ends=())
    return {MAIN: body, **parser.defined}


class _Parser:
    def __init__(self, text: str, functions: frozenset[str]) -> None:
        self._pieces = list(lexer.pieces(text))
        self._at = 0
        self._functions = functions
        self._variables = ["$"]
        self._ranges = 0
        self._line = 1
        self.defined: dict[str, tuple[Node, ...]] = {}

    def body(self, *, ends: tuple[str, ...]) -> tuple[tuple[Node, ...], _Tokens | None]:
        """Return the nodes up to an action that begins with one of those words, and its tokens."""
        found: list[Node] = []
        while self._at < len(self._pieces):
            piece = self._pieces[self._at]
            self._at += 1
            self._line = piece.line
            if piece.tokens is None:
                found.append(Text(piece.text))
                continue
            tokens = _Tokens(piece)
            word = tokens.keyword()
            if word in ("end", "else"):
                if word not in ends:
                    raise tokens.error(f"unexpected {{{{{word}}}}}")
                return tuple(found), tokens
            node = self._node(word, tokens)
            if node is not None:
                found.append(node)
        if ends:
            raise TemplateError("unexpected EOF", self._line)
        return tuple(found), None

    def _node(self, word: str, tokens: _Tokens) -> Node | None:
        if word in ("if", "with", "range"):
            tokens.take()
            return self._branch(word, tokens)
        if word in ("break", "continue"):
            tokens.take()
            if not self._ranges:
                raise tokens.error(f"{{{{{word}}}}} outside {{{{range}}}}")
            tokens.finish(f"{{{{{word}}}}}")
            return Jump(word)
        if word == "define":
            tokens.take()
            self._define(tokens)
            return None
        if word in ("template", "block"):
            tokens.take()
            return self._include(word, tokens)
        pipeline = self._pipeline(tokens, "command")
        tokens.finish("command")
        return Action(pipeline, tokens.line)

    def _branch(self, word: str, tokens: _Tokens) -> Branch:
        known = len(self._variables)
        pipeline = self._pipeline(tokens, word)
        tokens.finish(word)
        self._ranges += word == "range"
        body, end = self.body(ends=("else", "end"))
        self._ranges -= word == "range"
        otherwise = self._otherwise(word, end) if end is not None else ()
        del self._variables[known:]
        return Branch(word, pipeline, body, otherwise, tokens.line)

    def _otherwise(self, word: str, end: _Tokens) -> tuple[Node, ...]:
        if end.take().text == "end":
            end.finish("end")
            return ()
        if end.keyword() == word and word in ("if", "with"):
            end.take()
            return (self._branch(word, end),)
        end.finish("else")
        nodes, last = self.body(ends=("end",))
        if last is not None:
            last.take()
            last.finish("end")
        return nodes

    def _define(self, tokens: _Tokens) -> None:
        name = self._name(tokens, "define clause")
        tokens.finish("define clause")
        self.defined[name] = self._apart(tokens)

    def _include(self, word: str, tokens: _Tokens) -> Include:
        name = self._name(tokens, f"{word} clause")
        pipeline = None if tokens.is_done() else self._pipeline(tokens, f"{word} clause")
        tokens.finish(f"{word} clause")
        if word == "block":
            if pipeline is None:
                raise tokens.error("missing value for block clause")
            self.defined[name] = self._apart(tokens)
        return Include(name, pipeline, tokens.line)

    def _apart(self, tokens: _Tokens) -> tuple[Node, ...]:
        """Parse the body of another template, which has its own variables."""
        outer, ranges = self._variables, self._ranges
        self._variables, self._ranges = ["$"], 0
        nodes, last = self.body(ends=("end",))
        if last is None:
            raise tokens.error("unexpected EOF")
        self._variables, self._ranges = outer, ranges
        return nodes

    @staticmethod
    def _name(tokens: _Tokens, context: str) -> str:
        token = None if tokens.is_done() else tokens.take()
        if token is None or token.kind not in ("string", "raw"):
            raise tokens.error(f"unexpected {_shown(token)} in {context}")
        return _string(token)

    def _pipeline(self, tokens: _Tokens, context: str) -> Pipeline:
        declared, assigns = self._declarations(tokens, context)
        commands: list[Command] = []
        while not tokens.is_done() and tokens.peek().text != ")":
            commands.append(self._command(tokens, context))
            if not tokens.is_done() and tokens.peek().text == "|":
                tokens.take()
        if not commands:
            raise tokens.error(f"missing value for {context}")
        for number, command in enumerate(commands[1:], 2):
            if isinstance(command.operands[0], Constant | Dot):
                raise tokens.error(f"non executable command in pipeline stage {number}")
        self._variables += declared if not assigns else []
        return Pipeline(tuple(commands), tuple(declared), assigns)

    def _declarations(self, tokens: _Tokens, context: str) -> tuple[list[str], bool]:
        names: list[str] = []
        while not tokens.is_done() and tokens.peek().kind == "variable":
            following = tokens.peek(1)
            if following.text not in ("=", ":=", ","):
                break
            name = tokens.take().text
            sign = tokens.take().text
            if sign == "," and (context != "range" or names):
                raise tokens.error(f"too many declarations in {context}")
            names.append(name)
            if sign != ",":
                if sign == "=":
                    for one in names:
                        self._check_variable(one, tokens)
                return names, sign == "="
            if tokens.is_done() or tokens.peek().kind != "variable":
                raise tokens.error("range can only initialize variables")
        if names:
            raise tokens.error("range can only initialize variables")
        return names, False

    def _command(self, tokens: _Tokens, context: str) -> Command:
        operands = [self._operand(tokens, context)]
        line = tokens.line
        while not tokens.is_done() and tokens.peek().text not in ("|", ")"):
            if not tokens.peek().spaced:
                raise tokens.error(f"unexpected {_shown(tokens.peek())} in operand")
            operands.append(self._operand(tokens, context))
        return Command(tuple(operands), line)

    def _operand(self, tokens: _Tokens, context: str) -> Operand:
        first = tokens.take()
        names = [first.text[1:]] if first.kind == "field" else []
        term = self._term(first, tokens, context)
        text = first.text
        while not tokens.is_done() and tokens.peek().kind == "field" and not tokens.peek().spaced:
            field = tokens.take()
            names.append(field.text[1:])
            text += field.text
        if isinstance(term, Field):
            return Field(tuple(names), text)
        if isinstance(term, Variable):
            return Variable(term.name, tuple(names), text)
        if not names:
            return term
        if isinstance(term, Constant | Dot):
            raise tokens.error(f"unexpected . after term {quoted(first.text)}")
        return Chain(term, tuple(names), text)

    def _term(self, token: Token, tokens: _Tokens, context: str) -> Operand:
        if token.kind in ("string", "raw", "char", "number"):
            return Constant(_constant(token), token.text)
        if token.kind == "dot":
            return Dot()
        if token.kind == "field":
            return Field((token.text[1:],), token.text)
        if token.kind == "variable":
            self._check_variable(token.text, tokens)
            return Variable(token.text, (), token.text)
        if token.kind == "identifier" and token.text not in lexer.KEYWORDS:
            if token.text in _NAMED:
                return Constant(_NAMED[token.text], token.text)
            self._check_function(token.text, tokens)
            return Call(token.text, token.text)
        if token.text == "(":
            pipeline = self._pipeline(tokens, "parenthesized pipeline")
            tokens.take()
            return pipeline
        raise tokens.error(f"unexpected {_shown(token)} in {context}")

    def _check_function(self, name: str, tokens: _Tokens) -> None:
        if name not in self._functions:
            why = f"sprig's functions are not served, except {' and '.join(SPRIG)}"
            raise tokens.error(f"function {quoted(name)} not defined ({why})")

    def _check_variable(self, name: str, tokens: _Tokens) -> None:
        if name not in self._variables:
            raise tokens.error(f"undefined variable {quoted(name)}")


class _Tokens:
    """The tokens of one action."""

    def __init__(self, piece: Piece) -> None:
        self._tokens = piece.tokens or ()
        self._next = 0
        self.line = piece.line

    def is_done(self) -> bool:
        return self._next >= len(self._tokens)

    def keyword(self) -> str:
        """Return the next token if it is a keyword, else an empty string."""
        if self.is_done():
            return ""
        token = self.peek()
        is_one = token.kind == "identifier" and token.text in lexer.KEYWORDS
        return token.text if is_one else ""

    def peek(self, ahead: int = 0) -> Token:
        index = self._next + ahead
        return self._tokens[index] if index < len(self._tokens) else _END

    def take(self) -> Token:
        if self.is_done():
            raise self.error("unexpected end of action")
        token = self._tokens[self._next]
        self._next += 1
        self.line = token.line
        return token

    def finish(self, context: str) -> None:
        if not self.is_done():
            raise self.error(f"unexpected {_shown(self.peek())} in {context}")

    def error(self, message: str) -> TemplateError:
        return TemplateError(message, self.line)


_END: Final = lexer.Token("end", "", 0, spaced=True)


def _shown(token: Token | None) -> str:
    return quoted(token.text) if token is not None else '"}}"'


def _constant(token: Token) -> object:
    if token.kind in ("string", "raw"):
        return _string(token)
    if token.kind == "char":
        letters = _unescaped(token)
        if len(letters) != 1:
            raise TemplateError(f"malformed character constant: {token.text}", token.line)
        return ord(letters)
    return _number(token)


def _string(token: Token) -> str:
    return token.text[1:-1] if token.kind == "raw" else _unescaped(token)


def _unescaped(token: Token) -> str:
    def letter(found: re.Match[str]) -> str:
        simple, *codes, octal, unknown = found.groups()
        if unknown:
            raise TemplateError(f"invalid syntax: {token.text}", token.line)
        if simple:
            return _SIMPLE[str(simple)]
        return chr(int(octal, 8) if octal else int(next(code for code in codes if code), 16))

    return _ESCAPE.sub(letter, token.text[1:-1])


def _number(token: Token) -> int | float:
    """Return a float if the number has a point or an exponent, else an integer."""
    text = token.text.replace("_", "")
    try:
        if re.fullmatch(r"[+-]?0[0-7]+", text):
            return int(text, 8)
        if re.fullmatch(r"[+-]?0[xX].*[.pP].*", text):
            return float.fromhex(text)
        value = ast.literal_eval(text.lstrip("+"))
    except (ValueError, SyntaxError):
        raise TemplateError(f"bad number syntax: {quoted(token.text)}", token.line) from None
    if not isinstance(value, int | float):
        raise TemplateError(f"bad number syntax: {quoted(token.text)}", token.line)
    return value
