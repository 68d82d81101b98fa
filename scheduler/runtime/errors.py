"""The errors of plugins while they are set up and run.

FrameworkError
    PluginSetupError    a profile names plugins or arguments that do not work: refused at start
    PluginFailedError   a plugin raised or returned a wrong type: the pod is retried later
"""

from __future__ import annotations


class FrameworkError(Exception):
    """The base of this package's errors; the text is upstream's."""


class PluginSetupError(FrameworkError):
    """A profile cannot be built; the text is one line that names the plugin and the mistake."""


class PluginFailedError(FrameworkError):
    """A plugin failed while a pod was scheduled. Its exception is the cause."""
