"""Regular expressions of schemas and of CEL: Go's syntax, matched by Google's RE2.

The few patterns that only Go compiles are accepted and not enforced, and the writer of the
definition is warned.
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

import re2

from fakeapi.clock import processor_seconds
from fakeapi.types.errors import forbidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakeapi.types.errors import FieldError

#: Of a client's pattern with RE2's cache of states, and of one of this program.
_MEMORY_MAX_BYTES: Final = 4 << 20
_OWN_MEMORY_MAX_BYTES: Final = 8 << 20
_LENGTH_MAX: Final = 4096
_TOO_LARGE: Final = "pattern too large"
#: Errors of RE2 for patterns that Go compiles: large ones, and Unicode classes by alias.
_GO_COMPILES: Final = (
    _TOO_LARGE,
    r"invalid character class range: \p",
    r"invalid character class range: \P",
)


#: Of processor time, for the patterns of a definition. They are compiled once.
_DEFINITION_SECONDS: Final = 0.1
_left_seconds: ContextVar[list[float] | None] = ContextVar("left_seconds", default=None)


#: About the processor time for one value and one alternative of its schema.
_CHECK_SECONDS: Final = 5e-6


class TooExpensive(Exception):
    """The schema takes too long."""


def limited(
    check: Callable[[], list[FieldError]], *, seconds: float = _DEFINITION_SECONDS
) -> list[FieldError]:
    """Return the errors of a check, or the one of a schema that takes too long.

    A schema with thousands of alternatives, values of enums, required fields or defaults and an
    object of thousands of values are small bodies, but take millions of checks.
    """
    token = _left_seconds.set([seconds])
    try:
        return check()
    except TooExpensive:
        why = f"patterns, alternatives and defaults take more than {seconds:g} s of processor time"
        return [forbidden("<nil>", why)]
    finally:
        _left_seconds.reset(token)


def spend(seconds: float) -> None:
    """Count time for a pattern. Raises TooExpensive if there is none left."""
    left = _left_seconds.get()
    if left is not None:
        left[0] -= seconds
        if left[0] < 0:
            raise TooExpensive


def count(checks: float) -> None:
    """Count time for checks of alternatives. Raises TooExpensive if there is none left."""
    spend(checks * _CHECK_SECONDS)


class Match(Protocol):
    """A place where a pattern matches."""

    def group(self) -> str:
        """Return the text of the match."""


class Pattern(Protocol):
    """A compiled pattern. Its size times the size of the text bounds the time of a search."""

    programsize: int

    def search(self, value: str) -> Match | None:
        """Return the first match."""

    def finditer(self, value: str) -> Iterator[Match]:
        """Return all matches."""


def go(pattern: str, *, memory_bytes: int = _OWN_MEMORY_MAX_BYTES) -> Any:
    """Compile a pattern, by default one of this program. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory_bytes
    return re2.compile(pattern, options)


@functools.lru_cache(maxsize=64)
def _compiled(pattern: str) -> Pattern | str:
    """Return the pattern, or RE2's error. Raises TooExpensive."""
    if len(pattern) > _LENGTH_MAX:
        return _TOO_LARGE
    began = processor_seconds()
    found: Pattern | str
    try:
        found = go(pattern, memory_bytes=_MEMORY_MAX_BYTES)
    except re2.error as error:
        found = error.args[0].decode(errors="replace")
    spend(processor_seconds() - began)
    return found


def compiled(pattern: str) -> Pattern | None:
    """Return the pattern, None if it cannot be enforced. Raises TooExpensive."""
    found = _compiled(pattern)
    return None if isinstance(found, str) else found


def problem(pattern: str) -> str:
    """Return the error of a pattern that Go does not compile, else an empty string."""
    result = _compiled(pattern)
    if isinstance(result, str) and result and not result.startswith(_GO_COMPILES):
        return f"error parsing regexp: {result}"
    return ""
