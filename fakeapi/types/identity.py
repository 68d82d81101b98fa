"""Names and uids the server invents, from a seed: the same seed invents the same ones."""

from __future__ import annotations

import random
from typing import Final

#: Letters and digits without vowels and look-alikes, so that no word appears by chance.
_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
#: The digit of a UUID in which two bits are given.
_VARIANT: Final = {f"{digit:x}": f"{digit & 3 | 8:x}" for digit in range(16)}
_PREFIX_LENGTH_MAX: Final = 63 - _SUFFIX_LENGTH


class IdSource:
    """The one source of randomness of a server."""

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed
        self._random = random.Random(seed)

    def go_on(self, resource_version: int) -> None:
        """Invent others than an earlier server with the same seed, which got to that version."""
        if self._seed is not None:
            self._random = random.Random(f"{self._seed} after {resource_version}")

    def uid(self) -> str:
        """A new version 4 UUID."""
        digits = self._random.getrandbits(128).to_bytes(16, "big").hex()
        clock = f"{_VARIANT[digits[16]]}{digits[17:20]}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{clock}-{digits[20:]}"

    def name(self, prefix: str) -> str:
        """A name that begins with a generateName, cut to leave room for five characters."""
        letters = self._random.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH)
        return prefix[:_PREFIX_LENGTH_MAX] + "".join(letters)

    def between(self, low: float, high: float) -> float:
        """A number in a range, all equally likely."""
        return self._random.uniform(low, high)
