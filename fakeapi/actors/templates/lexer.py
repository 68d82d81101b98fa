"""Tokens of a template. Source: text/template/parse/lex.go of Go 1.26."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

from fakeapi.actors.templates.values import TemplateError
from fakeapi.types.gotext import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYWORDS: Final = frozenset({
    "block", "break", "continue", "define", "else", "end", "if", "range", "template", "with",
})  # fmt: skip
_TRIM: Final = " \t\r\n"
_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<raw>`[^`]*`)
  | (?P<char>'(?:[^'\\\n]|\\.)+')
  | (?P<declare>:=)
  | (?P<punctuation>[=|(),])
  | (?P<variable>\$[\w]*)
  | (?P<field>\.[^\W\d]\w*)
  | (?P<number>[+-]?(?:0[xX][0-9a-fA-F_.]+(?:[pP][+-]?[0-9_]+)?|0[oObB][0-7_]+
        |(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?))
  | (?P<dot>\.)
  | (?P<identifier>[^\W\d]\w*)
    """,
    re.VERBOSE,
)
_OPERANDS: Final = ("dot", "field", "variable", "identifier", "number")
_ENDS_OPERAND: Final = frozenset(" \t\r\n.,|:)(=")
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """One token of an action; `spaced` if there is space before it."""

    kind: str
    text: str
    line: int
    spaced: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """A text, if `tokens` is None, or an action."""

    text: str
    tokens: tuple[Token, ...] | None
    line: int


def pieces(template: str) -> Iterator[Piece]:
    """Yield texts, trimmed, and actions. Raises TemplateError."""
    position, line, trims_next = 0, 1, False
    while True:
        start = template.find("{{", position)
        text = template[position : start if start >= 0 else len(template)]
        written = text.lstrip(_TRIM) if trims_next else text
        trims_before = start >= 0 and re.match(r"-[ \t\r\n]", template[start + 2 :]) is not None
        if trims_before:
            written = written.rstrip(_TRIM)
        if written:
            yield Piece(written, None, line)
        line += text.count("\n")
        if start < 0:
            return
        inside = start + (3 if trims_before else 2)
        tokens, position, trims_next = _action(template, inside, line)
        if tokens is not None:
            yield Piece("", tokens, line)
        line += template.count("\n", start, position)


def _action(template: str, start: int, line: int) -> tuple[tuple[Token, ...] | None, int, bool]:
    """Return an action's tokens (None for a comment), its end, and True if it trims after it."""
    begin = start + (template[start - 1] == "-")  # a space follows the dash
    if template.startswith("/*", begin):
        closed = _COMMENT.search(template, start)
        if closed is None:
            raise TemplateError("unclosed comment", line)
        end = re.compile(r"[ \t\r\n]+-\}\}|\}\}").match(template, closed.end())
        if end is None:
            raise TemplateError("comment ends before closing delimiter", line)
        return None, end.end(), end[0] != "}}"
    tokens: list[Token] = []
    position, spaced, depth = start, False, 0
    while True:
        trimmed = spaced and template.startswith("-}}", position)
        if trimmed or template.startswith("}}", position):
            if depth:
                raise TemplateError("unclosed left paren", line)
            return tuple(tokens), position + (3 if trimmed else 2), trimmed
        if position >= len(template):
            raise TemplateError("unclosed action", line)
        found = _TOKEN.match(template, position)
        if found is None:
            raise TemplateError(_complaint(template, position), line)
        position = found.end()
        kind = found.lastgroup or ""
        if kind == "space":
            line += found[0].count("\n")
            spaced = True
            continue
        _check_end(template, kind, position, line)
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth < 0:
            raise TemplateError("unexpected right paren", line)
        tokens.append(Token(kind, found[0], line, spaced))
        line += found[0].count("\n")
        spaced = False


def _check_end(template: str, kind: str, position: int, line: int) -> None:
    following = template[position : position + 1]
    if kind not in _OPERANDS or not following or following in _ENDS_OPERAND:
        return
    if not template.startswith("}}", position):
        if kind == "number":
            raise TemplateError(f"bad number syntax: {quoted(_word(template, position))}", line)
        raise TemplateError(f"bad character {_rune(following)}", line)


def _word(template: str, position: int) -> str:
    begin = position
    while begin and template[begin - 1] not in _TRIM + "({":
        begin -= 1
    return template[begin : position + 1]


def _complaint(template: str, position: int) -> str:
    letter = template[position]
    if letter == '"':
        return "unterminated quoted string"
    if letter == "`":
        return "unterminated raw quoted string"
    if letter == "'":
        return "unterminated character constant"
    if letter == ":":
        return "expected :="
    return f"unrecognized character in action: {_rune(letter)}"


def _rune(letter: str) -> str:
    return f"U+{ord(letter):04X} '{letter}'"
