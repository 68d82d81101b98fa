"""The scheduling order of nodes: one of each zone in turn.

Source: `pkg/scheduler/backend/cache/node_tree.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.snapshot.nodes import zone_key

if TYPE_CHECKING:
    from scheduler.api.core import Node


class NodeTree:
    """Node names by zone; zones in the order of their first node, nodes in order of arrival."""

    def __init__(self) -> None:
        # Inner dictionaries serve as ordered sets.
        self._zones: Final[dict[str, dict[str, None]]] = {}

    def __len__(self) -> int:
        return sum(len(names) for names in self._zones.values())

    def add_node(self, node: Node) -> None:
        """Add a node at the end of its zone; no-op if it is in that zone."""
        self._zones.setdefault(zone_key(node), {}).setdefault(node.metadata.name, None)

    def remove_node(self, node: Node) -> bool:
        """Remove a node, and its zone with the last node; return False for an unknown node."""
        zone = zone_key(node)
        names = self._zones.get(zone, {})
        if node.metadata.name not in names:
            return False
        del names[node.metadata.name]
        if not names:
            del self._zones[zone]
        return True

    def update_node(self, old: Node | None, new: Node) -> None:
        """Move a node whose zone has changed to the end of its new zone."""
        if old is not None:
            if zone_key(old) == zone_key(new):
                return
            self.remove_node(old)
        self.add_node(new)

    def list(self) -> list[str]:
        """Return all names: the first of each zone, then the second of each, and so on."""
        zones = [list(names) for names in self._zones.values()]
        longest = max(map(len, zones), default=0)
        return [names[i] for i in range(longest) for names in zones if i < len(names)]
