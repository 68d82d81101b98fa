"""Run the plugins of one profile: create them, order them, call them, handle their failures."""

from scheduler.framework.failures import FrameworkError, PluginFailedError, PluginSetupError
from scheduler.runtime.binding import BindingPlugins, PreFlight
from scheduler.runtime.framework import Framework
from scheduler.runtime.handle import PluginHandle
from scheduler.runtime.pods_in_pre_bind import PodsInPreBind
from scheduler.runtime.registry import Registry, load_plugin_class
from scheduler.runtime.waiting_pods import WaitingPods

__all__ = [
    "BindingPlugins",
    "Framework",
    "FrameworkError",
    "PluginFailedError",
    "PluginHandle",
    "PluginSetupError",
    "PodsInPreBind",
    "PreFlight",
    "Registry",
    "WaitingPods",
    "load_plugin_class",
]
