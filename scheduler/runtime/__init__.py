"""Runs plugins for one profile: creates them, orders them, asks them, and minds their failures."""

from scheduler.runtime.binding import BindingPlugins, PodsInPreBind, PreFlight, WaitingPods
from scheduler.runtime.errors import FrameworkError, PluginFailedError, PluginSetupError
from scheduler.runtime.framework import Framework
from scheduler.runtime.handle import ProfileHandle, SchedulerParts
from scheduler.runtime.registry import Registry, load_plugin_class, registry_of
from scheduler.runtime.scoring import NodeScores

__all__ = [
    "BindingPlugins",
    "Framework",
    "FrameworkError",
    "NodeScores",
    "PluginFailedError",
    "PluginSetupError",
    "PodsInPreBind",
    "PreFlight",
    "ProfileHandle",
    "Registry",
    "SchedulerParts",
    "WaitingPods",
    "load_plugin_class",
    "registry_of",
]
