"""Placement of a whole batch of pods at once, by minimum-cost flow: the plugin `FlowPlacement`.

Imported only if a profile names the plugin; needs the extra `flow`. See `docs/flow.md`.
"""

from scheduler.flow.plugin import FlowPlacement

__all__ = ["FlowPlacement"]
