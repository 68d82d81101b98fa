"""Exceptions of plugins: for a pod's story, and for the log, which has each traceback once."""

from __future__ import annotations

import sys
import traceback
from typing import Final, NamedTuple, Self


class PluginFailure(NamedTuple):
    """An exception of a plugin at an extension point; `node` is empty if it was not about one."""

    plugin: str
    point: str
    node: str
    traceback: str

    @classmethod
    def from_exception(
        cls, error: BaseException, *, plugin: str, point: str, node: str = ""
    ) -> Self:
        # Interned: a plugin fails in the same way again and again, and stories keep many entries.
        text = sys.intern("".join(traceback.format_exception(error)))
        return cls(plugin, point, node, text)


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
