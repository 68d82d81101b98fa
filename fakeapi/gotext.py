"""Values as Go prints them in messages."""

from __future__ import annotations

from typing import Final

_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n",
    "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def quoted(value: str) -> str:
    """A string in quotes as Go's %q writes it."""
    if value.isprintable() and "\\" not in value and '"' not in value:
        return f'"{value}"'
    return '"' + "".join(_quoted_letter(letter) for letter in value) + '"'


def _quoted_letter(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isprintable():
        return letter
    number = ord(letter)
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def plain(value: object) -> str:
    """What %v makes of a decoded JSON value."""
    if isinstance(value, dict):
        pairs = (f"{name}:{plain(value[name])}" for name in sorted(value))
        return f"map[{' '.join(pairs)}]"
    if isinstance(value, list):
        return f"[{' '.join(plain(item) for item in value)}]"
    if isinstance(value, str):
        return value
    return _scalar(value)


def source(value: object) -> str:
    """What %#v makes of a decoded JSON value: as it would be written in Go."""
    if isinstance(value, dict):
        pairs = (f"{quoted(name)}:{source(value[name])}" for name in sorted(value))
        return f"map[string]interface {{}}{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(source(item) for item in value)}}}"
    return quoted(value) if isinstance(value, str) else _scalar(value)


def _scalar(value: object) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e21 else f"{value:e}"
    return str(value)
