"""A version of kube-scheduler, as cases and options name it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ..errors import InputError

_FORM: Final = re.compile(r"v?(?P<major>[0-9]+)\.(?P<minor>[0-9]+)(\.[0-9]+([-+].*)?)?")


class Version(NamedTuple):
    """A version without its patch number: behaviour changes with minor versions only."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @classmethod
    def parse(cls, text: str) -> Version:
        """Parse `1.36`, `1.36.3` or `v1.36.3`. Raises InputError."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise InputError(f"expected a version such as 1.36, got {text!r}")
        return cls(int(match["major"]), int(match["minor"]))


#: The version whose behaviour the built-in cases expect, unless they name others.
SUITE_VERSION: Final = Version(1, 36)
