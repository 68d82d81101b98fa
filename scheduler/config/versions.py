"""The versions of kube-scheduler as which the scheduler can decide.

    version = SchedulerVersion.parse("1.35")      # raises ValueError with the list

A plugin reads `handle.version` when it is created, and chooses between two named functions.
"""

from __future__ import annotations

import enum
from typing import Final


class SchedulerVersion(enum.IntEnum):
    """A version of kube-scheduler: its minor number. Later versions are greater."""

    V1_34 = 34
    V1_35 = 35
    V1_36 = 36
    V1_37 = 37

    @classmethod
    def parse(cls, text: str) -> SchedulerVersion:
        """Return the version named by `1.36`. Raises ValueError for any other text."""
        for version in cls:
            if text == version.label:
                return version
        raise ValueError(f"expected {', '.join(VERSION_LABELS[:-1])} or {VERSION_LABELS[-1]}")

    @property
    def label(self) -> str:
        """The version as flags name it: `1.36`."""
        return f"1.{self.value}"

    @property
    def release(self) -> str:
        """The release whose decisions are reproduced: `v1.36.3`."""
        return f"v{self.label}.{_PATCHES[self]}"


#: The patch release of each minor version whose source and recordings were followed.
_PATCHES: Final = {34: 4, 35: 4, 36: 3, 37: 2}

VERSION_LABELS: Final = tuple(version.label for version in SchedulerVersion)
DEFAULT_SCHEDULER_VERSION: Final = SchedulerVersion.V1_36
