"""What was worked out before, by the JSON text it was made from; bounded in number and size."""

from __future__ import annotations

from typing import Final, TypeVar

__all__ = ["Memo"]

_ENTRIES_MAX: Final = 1024
#: What is larger comes too rarely to be worth its room.
_TEXT_BYTES_MAX: Final = 16 * 1024
_Found = TypeVar("_Found")


class Memo(dict[bytes, _Found]):
    """A dictionary that `keep` fills; when it is full it begins anew."""

    def keep(self, text: bytes, found: _Found) -> None:
        """Remember what was found for a text, unless it is too long."""
        if len(text) > _TEXT_BYTES_MAX:
            return
        if len(self) >= _ENTRIES_MAX:
            self.clear()
        self[text] = found
