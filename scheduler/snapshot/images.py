"""The container images on the nodes.

The cache updates them with node objects, and the snapshot copies them image by image. The size of
an image is the size that the first node with it reported.
Source: `pkg/scheduler/backend/cache/cache.go` (`addNodeImageStates`). Unlike upstream, whose copies
count an image's nodes as of the last change of *each* node, all nodes here have the same count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduler.api.core import Node
    from scheduler.snapshot.columns import BoolArray


class Image(NamedTuple):
    """The size of an image and the names of the nodes with it."""

    size_bytes: int
    node_names: frozenset[str]


class ImageStates:
    """Every image by name, as node objects report them."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._nodes: dict[str, set[str]] = {}
        self._changed: set[str] = set()

    def add_node(self, node: Node) -> None:
        """Add a node's images."""
        for image in node.status.images:
            for name in image.names:
                self._sizes.setdefault(name, image.size_bytes)
                self._nodes.setdefault(name, set()).add(node.metadata.name)
                self._changed.add(name)

    def remove_node(self, node: Node) -> None:
        """Remove a node's images; `node` is the object that `add_node` got."""
        for image in node.status.images:
            for name in image.names:
                if (nodes := self._nodes.get(name)) is None:
                    continue
                nodes.discard(node.metadata.name)
                self._changed.add(name)
                if not nodes:
                    del self._nodes[name], self._sizes[name]

    def take_changes(self) -> dict[str, Image | None]:
        """Return the images that changed since the last call; None for images without nodes."""
        changes = {
            name: Image(self._sizes[name], frozenset(self._nodes[name]))
            if name in self._nodes
            else None
            for name in self._changed
        }
        self._changed.clear()
        return changes


class ImageTable:
    """The snapshot's images, with their nodes as rows."""

    def __init__(self) -> None:
        self._images: Final[dict[str, Image]] = {}
        self._masks: Final[dict[str, BoolArray]] = {}

    def get(self, name: str) -> Image | None:
        """Return an image; None if no node has it."""
        return self._images.get(name)

    def mask(self, name: str, row_of: Mapping[str, int], rows_total: int) -> BoolArray:
        """Return True for rows with the image, one flag per row of the snapshot's table; cached."""
        mask = self._masks.get(name)
        if mask is None:
            mask = np.zeros(rows_total, dtype=np.bool_)
            names = self._images[name].node_names
            mask[[row for node in names if (row := row_of.get(node)) is not None]] = True
            self._masks[name] = mask
        return mask

    def apply(self, changes: Mapping[str, Image | None]) -> None:
        """Apply the changes of the cache's `ImageStates`."""
        for name, image in changes.items():
            self._masks.pop(name, None)
            if image is None:
                self._images.pop(name, None)
            else:
                self._images[name] = image

    def forget_rows(self) -> None:
        """Drop the cached masks: the rows of nodes have changed."""
        self._masks.clear()

    def names(self) -> Iterable[str]:
        """All image names."""
        return self._images.keys()
