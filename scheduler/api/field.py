"""Errors about one field of an object, with the texts of the Kubernetes API.

A `FieldError` reads `path: Kind of error: bad value: detail`; several errors are one line
(`FieldErrors`).
Source: apimachinery `pkg/util/validation/field/errors.go`, `pkg/util/errors/errors.go`.
"""

from __future__ import annotations

import difflib
import functools
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Go's escapes of these characters inside quotes.
_ESCAPES: Final[Mapping[str, str]] = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r",
    "\t": "\\t", "\v": "\\v",
}  # fmt: skip

#: The characters that Go escapes in JSON, because a browser could take them for markup.
GO_JSON_ESCAPES: Final = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def nearest(word: str, words: Iterable[str]) -> str:
    """Return ` (did you mean "x"?)` for the word most like `word`; an empty text if none is."""
    matches = difflib.get_close_matches(word, list(words), n=1)
    return f' (did you mean "{matches[0]}"?)' if matches else ""


class FieldError(ValueError):
    """An error about the field at `path`."""

    def __init__(self, path: str, body: str) -> None:
        super().__init__(f"{path}: {body}")
        self.path = path
        self.body = body


class FieldErrors(ValueError):
    """Errors about one or several fields, as one line."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__(aggregate(errors))
        self.errors = tuple(errors)


def child_path(path: str, key: str) -> str:
    """Return the path of a field below `path`, which may be empty."""
    return f"{path}.{key}" if path else key


def required(path: str, detail: str = "") -> FieldError:
    """Return the error for a missing value."""
    return FieldError(path, _with_detail("Required value", detail))


def invalid(path: str, bad_value: object, detail: str) -> FieldError:
    """Return the error for a value that is malformed or out of range."""
    return FieldError(path, _with_detail(f"Invalid value: {_render(bad_value)}", detail))


def forbidden(path: str, detail: str) -> FieldError:
    """Return the error for a valid value that is not allowed here."""
    return FieldError(path, _with_detail("Forbidden", detail))


def duplicate(path: str, bad_value: object) -> FieldError:
    """Return the error for a value that is not unique."""
    return FieldError(path, f"Duplicate value: {_render(bad_value)}")


def not_supported(path: str, bad_value: object, supported: Sequence[str]) -> FieldError:
    """Return the error for a value outside of an enumeration."""
    choices = ", ".join(quoted(choice) for choice in supported)
    detail = f"supported values: {choices}" if supported else ""
    return FieldError(path, _with_detail(f"Unsupported value: {_render(bad_value)}", detail))


def aggregate(errors: Iterable[Exception | str]) -> str:
    """Join errors into one text, without duplicates, in brackets if there are several."""
    texts = dict.fromkeys(str(error) for error in errors)
    return f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)


def quoted(text: str) -> str:
    """Quote a text, with escapes for what cannot be printed, as Go's `%q` does."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def _render(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    return msgspec.json.encode(value).decode().translate(GO_JSON_ESCAPES)


@functools.lru_cache(maxsize=4096)
def go_float(number: float) -> str:
    """Return the shortest digits as Go's `%g` writes them: with an exponent from 1e+06 on."""
    exact = Decimal(repr(number)).normalize()
    if not number or -4 <= exact.adjusted() < 6:
        return f"{exact:f}"
    mantissa, _, exponent = f"{exact:e}".partition("e")
    return f"{mantissa}e{int(exponent):+03d}"
