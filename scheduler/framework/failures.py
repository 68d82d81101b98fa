"""The errors of plugins, and their exceptions as values for the log and for pods' stories.

FrameworkError
    PluginSetupError    a profile names plugins or arguments that do not work: refused at start
    PluginFailedError   a plugin raised or returned a wrong type: the pod is retried later
"""

from __future__ import annotations

import sys
import traceback
from typing import Final, NamedTuple, Self

from scheduler.api.text import well_formed


class FrameworkError(Exception):
    """The base of the errors of plugins; the text is upstream's."""


class PluginSetupError(FrameworkError):
    """A profile cannot be built; the text is one line that names the plugin and the mistake."""


class PluginFailedError(FrameworkError):
    """A plugin failed while a pod was scheduled. Its exception is the cause.

    `point` is upstream's name of the extension point. `node_name` is empty if the plugin was not
    called for a single node.
    """

    def __init__(
        self, text: str, *, plugin: str = "", point: str = "", node_name: str = ""
    ) -> None:
        super().__init__(text)
        self.plugin: Final = plugin
        self.point: Final = point
        self.node_name: Final = node_name

    @property
    def place(self) -> str:
        """`file:line` of the last frame of the plugin's exception; empty without an exception."""
        frames = traceback.extract_tb(self.__cause__.__traceback__) if self.__cause__ else []
        return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


class FilterPausedError(Exception):
    """A plugin is not done: it goes on when it is called again, after other tasks have run.

    Raised by PreFilter, Filter and GeneratePlacements, and only if the cycle state has `may_pause`.
    All plugins of the point are called again.
    """


class PluginFailure(NamedTuple):
    """An exception of a plugin at an extension point; `node` is empty without a single node."""

    plugin: str
    point: str
    node: str
    traceback: str

    @classmethod
    def from_exception(
        cls, error: BaseException, *, plugin: str, point: str, node: str = ""
    ) -> Self:
        # Interned: a plugin fails in the same way again and again, and stories keep many entries.
        text = sys.intern(well_formed("".join(traceback.format_exception(error))))
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
