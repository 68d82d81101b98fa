"""Random names and uids of a server; the same seed gives the same names and uids."""

from __future__ import annotations

import random
from typing import Final

#: Letters and digits without vowels and look-alikes, so that they form no words.
_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
#: The digit of a UUID with two fixed bits.
_VARIANT: Final = {f"{digit:x}": f"{digit & 3 | 8:x}" for digit in range(16)}
_PREFIX_LENGTH_MAX: Final = 63 - _SUFFIX_LENGTH


class IdSource:
    """The source of randomness of a server."""

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed
        self._random = random.Random(seed)  # noqa: S311 - chance that a seed repeats

    def continue_after(self, resource_version: int) -> None:
        """Continue after a server with the same seed that reached this version, without repeats."""
        if self._seed is not None:
            self._random = random.Random(f"{self._seed} after {resource_version}")  # noqa: S311 - as above

    def uid(self) -> str:
        """Return a new version 4 UUID."""
        digits = self._random.getrandbits(128).to_bytes(16, "big").hex()
        clock = f"{_VARIANT[digits[16]]}{digits[17:20]}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{clock}-{digits[20:]}"

    def name(self, prefix: str) -> str:
        """Return a random name for a generateName, cut to leave room for five characters."""
        letters = self._random.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH)
        return prefix[:_PREFIX_LENGTH_MAX] + "".join(letters)

    def between(self, low: float, high: float) -> float:
        """Return a random number in a range, uniformly distributed."""
        return self._random.uniform(low, high)
