"""Functions of Kubernetes' CEL libraries: lists, regex, strings, isIP and isCIDR.

The names of arguments are from cel-go's documentation. An exception is the error of the rule.

Source: apiserver pkg/cel/library and cel-go ext/strings.go v0.26.
"""

from __future__ import annotations

import itertools
import math
import string
from typing import TYPE_CHECKING, Any, Final

from fakeapi.cel import patterns
from fakeapi.types.addresses import is_mapped, is_network, version_of

if TYPE_CHECKING:
    from collections.abc import Callable

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)


def _pattern(text: str) -> patterns.Pattern:
    """Return a compiled pattern. Raises ValueError."""
    compiled = patterns.compiled(text)
    if compiled is None:
        raise ValueError(patterns.problem(text) or f"{text}: the pattern is not supported")
    return compiled


def _find(value: str, pattern: str) -> str:
    match = _pattern(pattern).search(value)
    return match.group() if match else ""


def _find_all(value: str, pattern: str, limit: int = -1) -> list[str]:
    matches = (match.group() for match in _pattern(pattern).finditer(value))
    return list(itertools.islice(matches, None if limit < 0 else limit))


def _index_of(value: Any, item: Any, start: int = 0) -> int:
    if isinstance(value, str):
        return value.find(item, _checked(start)) if item else start
    return value.index(item) if item in value else -1


def _last_index_of(value: Any, item: Any, last: int | None = None) -> int:
    if isinstance(value, str):
        if last is None or not item:
            return value.rfind(item) if last is None else last
        return value.rfind(item, 0, _checked(last) + len(item)) if last < len(value) else -1
    return len(value) - 1 - value[::-1].index(item) if item in value else -1


def _checked(index: int, most: float = math.inf) -> int:
    if not 0 <= index <= most:
        raise ValueError(f"index out of range: {index}")
    return index


def _char_at(value: str, index: int) -> str:
    return value[_checked(index, len(value)) : index + 1]


def _substring(value: str, start: int, end: int | None = None) -> str:
    length = len(value)
    if end is not None and start > end:
        raise ValueError(f"invalid substring range. start: {start}, end: {end}")
    return value[_checked(start, length) : length if end is None else _checked(end, length)]


def _split(value: str, separator: str, limit: int = -1) -> list[str]:
    if not limit:
        return []
    if separator:
        return value.split(separator, limit - 1 if limit > 0 else -1)
    return list(value) if limit < 0 else [*value[: limit - 1], *filter(None, [value[limit - 1 :]])]


FUNCTIONS: Final[dict[str, Callable[..., object]]] = {
    "isSorted": lambda values: all(a <= b for a, b in itertools.pairwise(values)),
    "sum": lambda values: sum(values[1:], start=values[0]) if values else 0,
    "min": lambda *values: min(values[0] if isinstance(values[0], list) else values),
    "max": lambda *values: max(values[0] if isinstance(values[0], list) else values),
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "find": _find,
    "findAll": _find_all,
    "charAt": _char_at,
    "join": lambda values, separator="": separator.join(values),
    "lowerAscii": lambda value: value.translate(_LOWER),
    "upperAscii": lambda value: value.translate(_UPPER),
    "replace": lambda value, old, new, limit=-1: value.replace(old, new, limit),
    "split": _split,
    "substring": _substring,
    "trim": lambda value: value.strip(),
    "isIP": lambda value: version_of(value) > 0 and not is_mapped(value),
    "isCIDR": lambda value: is_network(value) and not is_mapped(value),
}
