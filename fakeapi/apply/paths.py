"""Path elements: the steps from an object to one of its fields, as text.

    f:NAME        the field of a struct, or the entry of a map
    k:{"a":1}     the element of a list that has these values in its key fields
    v:"x"         the element of a list that is a set of scalars
    i:3           the element of a list at an index: read, never written

Two elements are equal if and only if their texts are. So each has one text: key fields sorted by
name, JSON without blanks, and `<`, `>`, `&` escaped as Go does.

Source: structured-merge-diff fieldpath/{element,serialize-pe}.go of v6.3.3.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.types.client_text import cached
from fakeapi.types.objects import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FIELD: Final = "f:"
KEY: Final = "k:"
VALUE: Final = "v:"
INDEX: Final = "i:"
#: Marks an inner node of a set as a member itself.
SELF: Final = "."

_KINDS: Final = (FIELD, KEY, VALUE, INDEX)
_ESCAPED: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
_needs_escape = re.compile("[<>&]").search
_escape = re.compile("[<>&]").sub
_decode = msgspec.json.Decoder().decode
_WHOLE_FLOAT: Final = 1e15


class PathError(ValueError):
    """The text of a path element is invalid."""


def json_text(value: object) -> str:
    """Return a scalar as Go writes it into a path element."""
    if type(value) is int:
        return str(value)
    if type(value) is str and value.isascii() and value.replace("-", "a").isalnum():
        return f'"{value}"'
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE_FLOAT:
        value = int(value)
    text = encode(value).decode()
    return _escape(lambda match: _ESCAPED[match[0]], text) if _needs_escape(text) else text


def key_element(fields: Mapping[str, object]) -> str:
    """Return the element of an associative list, from its key fields."""
    pairs = ",".join(f'"{name}":{json_text(fields[name])}' for name in sorted(fields))
    return f"{KEY}{{{pairs}}}"


def string_key_element(name: str, value: str) -> str:
    """Return `key_element` of one string key field, the most frequent case."""
    return f'{KEY}{{"{name}":{json_text(value)}}}'


def value_element(value: object) -> str:
    """Return the element of a set of scalars."""
    return VALUE + json_text(value)


def canonical(element: str) -> str | None:
    """Return the one text of the element, None for unknown kinds. Raises PathError."""
    return element if element.startswith(FIELD) else _canonical(element)


@cached(8192)
def _canonical(element: str) -> str | None:
    if len(element) < 2 or element[1] != ":":
        raise PathError(f"missing colon: {element}")
    kind, rest = element[:2], element[2:]
    if kind not in _KINDS:
        return None
    try:
        value = _decode(rest)
    except msgspec.DecodeError as error:
        raise PathError(str(error)) from error
    if kind == KEY:
        if not isinstance(value, dict):
            raise PathError(f"the key is not an object: {element}")
        return key_element(value)
    if kind == INDEX and not isinstance(value, int):
        raise PathError(f"the index is not a number: {element}")
    return kind + json_text(value)


def order(element: str) -> tuple[object, ...]:
    """Return the sort key of an element: fields, keys, values, indices; numbers by value."""
    return (0, element) if element.startswith(FIELD) else _order(element)


@cached(8192)
def _order(element: str) -> tuple[object, ...]:
    kind, rest = element[:2], element[2:]
    value = _decode(rest)
    if kind == KEY:
        assert isinstance(value, dict)
        return (1, tuple((name, *_rank(value[name])) for name in sorted(value)))
    return (_KINDS.index(kind), *_rank(value))


def _rank(value: object) -> tuple[int, object]:
    """Return the sort key of a scalar in Go's order: numbers, strings, booleans, null."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    return (1, value) if isinstance(value, str) else (3, "")


def shown(path: Iterable[str]) -> str:
    """Return a path as messages show it: .spec.containers[name="c"].image"""
    return "".join(_shown_element(element) for element in path)


def _shown_element(element: str) -> str:
    kind, rest = element[:2], element[2:]
    if kind == FIELD:
        return f".{rest}"
    if kind == INDEX:
        return f"[{rest}]"
    value = _decode(rest)
    if kind == KEY:
        assert isinstance(value, dict)
        pairs = (f"{name}={_shown_value(value[name])}" for name in sorted(value))
        return f"[{','.join(pairs)}]"
    return f"[={_shown_value(value)}]"


def _shown_value(value: object) -> str:
    return encode(value).decode()
