"""DynamicResources: devices of resource claims."""

from scheduler.plugins.dynamic_resources.dynamic_resources import DynamicResources

__all__ = ["DynamicResources"]
