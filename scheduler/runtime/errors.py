"""The errors of plugins while they are set up and run.

FrameworkError
    PluginSetupError    a profile names plugins or arguments that do not work: refused at start
    PluginFailedError   a plugin raised or returned a wrong type: the pod is retried later
"""

from __future__ import annotations

import traceback
from typing import Final


class FrameworkError(Exception):
    """The base of this package's errors; the text is upstream's."""


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
