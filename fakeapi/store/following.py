"""What the server itself does about a kind as soon as an object of it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeapi.store.store import Collection

__all__ = ["follow"]


def follow(collection: Collection, see_to: Callable[[], None]) -> None:
    """Call back now, and in the middle of each write to the collection from now on.

    Not for what `see_to` itself writes: that it has to see to before it returns.
    """
    is_busy = False

    def changed() -> None:
        nonlocal is_busy
        if is_busy:
            return
        is_busy = True
        try:
            see_to()
        finally:
            is_busy = False

    collection.listeners[see_to] = changed
    changed()
