"""The two functions of sprig v3.3 that KWOK's own Stages use; no other is served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.templates.functions import function
from fakeapi.types.gotext import plain

if TYPE_CHECKING:
    from fakeapi.actors.templates.functions import Function
    from fakeapi.types.objects import Json


def _default(default: object, *given: object) -> object:
    return given[0] if given and given[0] else default


def _dict(*pairs: object) -> Json:
    padded = (*pairs, "")[: len(pairs) + len(pairs) % 2]
    return {plain(padded[at]): padded[at + 1] for at in range(0, len(padded), 2)}


SPRIG: Final[dict[str, Function]] = {
    "default": function("default", _default),
    "dict": function("dict", _dict),
}
