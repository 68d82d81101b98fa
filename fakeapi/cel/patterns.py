"""Regular expressions of schemas and of CEL: Go's syntax, matched by Google's RE2.

The few patterns that only Go compiles are accepted and not enforced, and the writer of the
definition is warned.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, Protocol

import re2

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEMORY_MAX_BYTES: Final = 8 * 1024 * 1024
#: Errors of RE2 for patterns that Go compiles: large ones, and Unicode classes by alias.
_GO_COMPILES: Final = (
    "pattern too large",
    r"invalid character class range: \p",
    r"invalid character class range: \P",
)


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


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_MAX_BYTES
    return options


def go(pattern: str) -> Any:
    """Compile a pattern of this program, for texts of clients. Raises re2.error."""
    return re2.compile(pattern, _options())


@functools.lru_cache(maxsize=128)
def _compiled(pattern: str) -> Pattern | str:
    """Return the pattern, or RE2's error."""
    try:
        result: Pattern = go(pattern)
    except re2.error as error:
        why: str = error.args[0].decode(errors="replace")
        return why
    return result


def compiled(pattern: str) -> Pattern | None:
    """Return the pattern, None if it cannot be enforced."""
    result = _compiled(pattern)
    return None if isinstance(result, str) else result


def problem(pattern: str) -> str:
    """Return the error of a pattern that Go does not compile, else an empty string."""
    result = _compiled(pattern)
    if isinstance(result, str) and result and not result.startswith(_GO_COMPILES):
        return f"error parsing regexp: {result}"
    return ""
