"""What can go wrong while plugins are set up and run.

FrameworkError
    PluginSetupError    a profile names plugins or arguments that do not work: refused at start
    PluginFailedError   a plugin raised, or answered nonsense: the pod is tried again later
"""

from __future__ import annotations


class FrameworkError(Exception):
    """The base of this package's errors; the text is upstream's."""


class PluginSetupError(FrameworkError):
    """A profile cannot be built; the text is one line that names the plugin and what is wrong."""


class PluginFailedError(FrameworkError):
    """A plugin failed while a pod was scheduled; what it raised is chained."""
