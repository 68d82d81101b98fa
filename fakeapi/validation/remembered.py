"""Checks that remember what was fine: the pods of a workload have one spec, checked once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from fakeapi.types.memo import Memo
from fakeapi.types.sharing import text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.types.objects import Json

__all__ = ["remembering"]

_Finding = TypeVar("_Finding")


def remembering(
    check: Callable[[Json], list[_Finding]], read: Callable[[Json], object]
) -> Callable[[Json], list[_Finding]]:
    """The same check, which is not repeated for what it found nothing in.

    It must depend on nothing but what `read` reads from the object.
    """
    fine: Memo[None] = Memo()

    def check_or_remember(obj: Json) -> list[_Finding]:
        key = text_of(read(obj))
        if key in fine:
            return []
        found = check(obj)
        if not found:
            fine.keep(key, None)
        return found

    return check_or_remember
