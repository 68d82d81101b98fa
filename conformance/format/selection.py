"""Select cases."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .case import Case


def select(cases: Iterable[Case], pattern: str) -> list[Case]:
    """Return the cases whose `area/name` contains the pattern, or matches its wildcards.

    The comparison ignores case. Wildcards are `*`, `?` and `[...]`.
    """
    wanted = pattern.lower()
    if any(character in wanted for character in "*?["):
        return [case for case in cases if fnmatch.fnmatchcase(case.id.lower(), wanted)]
    return [case for case in cases if wanted in case.id.lower()]
