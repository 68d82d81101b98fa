"""DynamicResources: devices of resource claims."""

from scheduler.plugins.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]
