"""Exceptions of plugins: log the traceback of each once, however many pods meet it."""

from __future__ import annotations

import traceback
from typing import Final


class SeenFailures:
    """The lines of plugins from which exceptions have come."""

    def __init__(self) -> None:
        self._seen: Final[set[tuple[str, str, str]]] = set()

    def is_new(self, plugin: str, error: BaseException) -> bool:
        """True if no exception of this type has come from this line of the plugin before."""
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        failure = (plugin, type(error).__name__, place)
        if failure in self._seen:
            return False
        self._seen.add(failure)
        return True
