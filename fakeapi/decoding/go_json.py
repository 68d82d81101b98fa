"""Why a text is no JSON, in the words of Go's decoder, which upstream's refusals quote.

Only texts that could not be decoded come here. Source: Go's encoding/json scanner.go.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from fakeapi.decoding import nesting
from fakeapi.types import gotext

_SPACE: Final = frozenset(b" \t\r\n")
_DIGITS: Final = frozenset(b"0123456789")
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")
_ESCAPES: Final = frozenset(b'bfnrt\\/"')
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_CLOSERS: Final = {ord("{"): ord("}"), ord("["): ord("]")}
_AFTER: Final = {ord("{"): "after object key:value pair", ord("["): "after array element"}
_DEPTH_MAX: Final = 10_000

_VALUE: Final = "looking for beginning of value"
_KEY: Final = "looking for beginning of object key string"
_COLON: Final = "after object key"
_DONE: Final = "after top-level value"


#: An escaped character: a pair of surrogates, half of one, or anything else.
_ESCAPED: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_STRAY: Final = re.compile("[\udc80-\udcff]")

_decode = msgspec.json.Decoder().decode


class GoJsonError(ValueError):
    """A text that is no JSON, or too deep; the message is that of Go's decoder, if it has one."""


def decode(raw: bytes) -> object:
    """The JSON value in a text, as Go reads it: no UTF-8 becomes U+FFFD. Raises GoJsonError."""
    try:
        try:
            value = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            mended = _mended(raw)
            if mended == raw:
                raise
            value = _decode(mended)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise GoJsonError(syntax_error(raw) or str(error)) from error
    except RecursionError as error:
        raise GoJsonError(syntax_error(raw) or nesting.TOO_DEEP) from error
    if nesting.is_too_deep(raw, value):
        raise GoJsonError(nesting.TOO_DEEP)
    return value


def _mended(raw: bytes) -> bytes:
    """The text with U+FFFD for each byte that is no UTF-8, and for each half of a pair."""
    text = _STRAY.sub("\ufffd", raw.decode(errors="surrogateescape"))
    return _ESCAPED.sub(lambda found: b"\\ufffd" if found[1] else found[0], text.encode())


class _Stop(Exception):
    """Where the scan ends; the text is what Go says."""


def syntax_error(raw: bytes) -> str:
    """What Go's decoder says of the text, empty if it finds nothing wrong with its syntax."""
    try:
        _Scanner(raw).scan()
    except _Stop as stop:
        return str(stop)
    return ""


class _Scanner:
    """One pass over a text. `_wants` is what Go would complain to be looking for."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw + b" "  # what Go feeds its scanner at the end
        self._at = 0
        self._open: list[int] = []
        self._wants = _VALUE
        self._may_close = False  # right after an opening bracket

    def scan(self) -> None:
        """Raises _Stop at the first thing that is wrong."""
        while self._at < len(self._raw):
            if self._raw[self._at] not in _SPACE:
                self._token()
            self._at += 1
        if self._wants != _DONE:
            raise _Stop("unexpected end of JSON input")

    def _token(self) -> None:
        byte = self._raw[self._at]
        may_close, self._may_close = self._may_close, False
        if may_close and byte == _CLOSERS[self._open[-1]]:
            self._close()
        elif self._wants == _VALUE:
            self._value(byte)
        elif self._wants == _KEY:
            self._expect(byte == ord('"'))
            self._string()
            self._wants = _COLON
        elif self._wants == _COLON:
            self._expect(byte == ord(":"))
            self._wants = _VALUE
        else:
            self._separator(byte)

    def _separator(self, byte: int) -> None:
        self._expect(bool(self._open) and byte in (ord(","), _CLOSERS[self._open[-1]]))
        if byte == ord(","):
            self._wants = _KEY if self._open[-1] == ord("{") else _VALUE
        else:
            self._close()

    def _value(self, byte: int) -> None:
        if byte in _CLOSERS:
            self._open.append(byte)
            if len(self._open) > _DEPTH_MAX:
                raise _Stop(f"invalid character {_quoted(byte)} exceeded max depth")
            self._wants, self._may_close = (_KEY if byte == ord("{") else _VALUE), True
            return
        if byte == ord('"'):
            self._string()
        elif byte in _LITERALS:
            self._literal(_LITERALS[byte])
        else:
            self._expect(byte in _DIGITS or byte == ord("-"))
            self._number()
        self._ended()

    def _close(self) -> None:
        self._open.pop()
        self._ended()

    def _ended(self) -> None:
        self._wants = _AFTER[self._open[-1]] if self._open else _DONE

    def _expect(self, is_right: bool, context: str = "") -> None:  # noqa: FBT001
        if not is_right:
            shown = _quoted(self._raw[self._at])
            raise _Stop(f"invalid character {shown} {context or self._wants}")

    def _next(self) -> int:
        self._at += 1
        if self._at >= len(self._raw):
            raise _Stop("unexpected end of JSON input")
        return self._raw[self._at]

    def _string(self) -> None:
        while (byte := self._next()) != ord('"'):
            self._expect(byte >= ord(" "), "in string literal")
            if byte != ord("\\"):
                continue
            byte = self._next()
            self._expect(byte in _ESCAPES or byte == ord("u"), "in string escape code")
            for _ in range(4 if byte == ord("u") else 0):
                self._expect(self._next() in _HEX, "in \\u hexadecimal character escape")

    def _literal(self, word: bytes) -> None:
        for expected in word[1:]:
            context = f"in literal {word.decode()} (expecting {_quoted(expected)})"
            self._expect(self._next() == expected, context)

    def _number(self) -> None:
        if self._raw[self._at] == ord("-"):
            self._expect(self._next() in _DIGITS, "in numeric literal")
        if self._raw[self._at] != ord("0"):
            self._digits()
        if self._peek() == ord("."):
            self._at += 1
            self._expect(self._next() in _DIGITS, "after decimal point in numeric literal")
            self._digits()
        if self._peek() in (ord("e"), ord("E")):
            self._at += 1
            byte = self._next()
            if byte in (ord("+"), ord("-")):
                byte = self._next()
            self._expect(byte in _DIGITS, "in exponent of numeric literal")
            self._digits()

    def _digits(self) -> None:
        while self._peek() in _DIGITS:
            self._at += 1

    def _peek(self) -> int:
        return self._raw[self._at + 1] if self._at + 1 < len(self._raw) else -1


def _quoted(byte: int) -> str:
    """A byte as Go's scanner quotes a character."""
    if byte == ord("'"):
        return "'\\''"
    if byte == ord('"'):
        return "'\"'"
    return f"'{gotext.quoted(chr(byte))[1:-1]}'"
