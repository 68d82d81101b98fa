"""Text from clients: bounds on its use of the event loop and of memory.

A text may be as long as a head or a body, so code that reads it takes time proportional to length:

- Digits go through `parse_int`: `int()` is quadratic, and refuses more than 4,300 of them.
- A pattern of `re` matches a text in one way only. Patterns of clients, and patterns with several
  ways to match the same text, are for google-re2.
- Nothing recurses over a text. Values nest at most `Limits.max_depth` levels.
- A cache has a bound on its entries, and on the length of its keys (`cached`).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

#: The longest text that is the key of a cache.
CACHED_LENGTH_MAX: Final = 512
#: The longest text of a client that a log shows.
LOGGED_LENGTH_MAX: Final = 1024


def cached(entries: int) -> Callable[[Callable[[str], _T]], Callable[[str], _T]]:
    """Cache the newest results of a function, except for long texts."""

    def decorate(function: Callable[[str], _T]) -> Callable[[str], _T]:
        remembered = functools.lru_cache(entries)(function)

        def call(text: str) -> _T:
            return remembered(text) if len(text) <= CACHED_LENGTH_MAX else function(text)

        return functools.update_wrapper(call, function)

    return decorate


def parse_int(text: str, *, bits: int, signed: bool = True) -> int | None:
    """Return the number of ASCII digits, None if it has more bits. Raises ValueError.

    As Go's ParseInt and ParseUint: any number of zeros, a sign only if `signed`, no blanks.
    """
    digits = text[1:] if signed and text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("invalid syntax")
    digits = digits.lstrip("0") or "0"
    if len(digits) > bits:  # a digit holds more than a bit
        return None
    number = -int(digits) if text[0] == "-" else int(digits)
    least, end = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    return number if least <= number < end else None


def shortened(text: str, length: int = LOGGED_LENGTH_MAX) -> str:
    """Return the beginning of a long text, by default for a log."""
    if len(text) <= length:
        return text
    return f"{text[:length]}... ({len(text)} characters)"
