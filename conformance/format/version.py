"""A version of kube-scheduler, as cases and options name it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ..errors import InputError

_FORM: Final = re.compile(r"v?(?P<major>[0-9]+)\.(?P<minor>[0-9]+)(\.(?P<patch>[0-9]+)([-+].*)?)?")
#: The patch releases of which the suite has results, by minor version.
_MEASURED: Final = {34: 4, 35: 4, 36: 3, 37: 2}


class Version(NamedTuple):
    """A version of kube-scheduler.

    A scheduler's version without a patch number is the release of which the suite has results. In
    `since` and `until` it stands for all patch releases.
    """

    major: int
    minor: int
    patch: int | None = None

    def __str__(self) -> str:
        patch = "" if self.patch is None else f".{self.patch}"
        return f"{self.without_patch}{patch}"

    @property
    def without_patch(self) -> str:
        """The version as a scheduler's own `--scheduler-version` names it."""
        return f"{self.major}.{self.minor}"

    @classmethod
    def parse(cls, text: str) -> Version:
        """Parse `1.36`, `1.36.3` or `v1.36.3`. Raises InputError."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise InputError(f"expected a version such as 1.36, got {text!r}")
        patch = match["patch"]
        return cls(int(match["major"]), int(match["minor"]), int(patch) if patch else None)

    def is_before(self, since: Version) -> bool:
        """Return True if a scheduler of this version is older than `since`."""
        return self._compared(since) < 0

    def is_after(self, until: Version) -> bool:
        """Return True if a scheduler of this version is newer than `until`."""
        return self._compared(until) > 0

    def _compared(self, other: Version) -> int:
        own, bound = self[:2], other[:2]
        if own != bound:
            return -1 if own < bound else 1
        if other.patch is None:
            return 0
        patch = _MEASURED.get(self.minor, 0) if self.patch is None else self.patch
        return patch - other.patch


def is_empty_range(since: Version, until: Version) -> bool:
    """Return True if there is no version from `since` to `until`."""
    if since[:2] != until[:2]:
        return since[:2] > until[:2]
    return until.patch is not None and (since.patch or 0) > until.patch


#: The version whose behaviour the built-in cases expect, unless they name others.
SUITE_VERSION: Final = Version(1, 36)
