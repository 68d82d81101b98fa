"""ImageLocality: prefer nodes that already have large images of the pod.

An image on a node counts with its size times the share of all nodes that have it, so that pods do
not pile up on the few nodes that pulled it first. The sum is mapped from 23 MiB..1000 MiB per
container to 0..100.
Mirrors `pkg/scheduler/framework/plugins/imagelocality/image_locality.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.framework.arithmetic import MAX_NODE_SCORE, truncated_div
from scheduler.framework.interface import Plugin
from scheduler.snapshot.columns import IntArray, uniform

if TYPE_CHECKING:
    from scheduler.api.core import PodSpec
    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_MIB: Final = 1024 * 1024

#: Most images on public registries are between these two sizes.
_MIN_THRESHOLD_BYTES: Final = 23 * _MIB
_MAX_CONTAINER_THRESHOLD_BYTES: Final = 1000 * _MIB


class ImageLocality(Plugin):
    """Prefer nodes that need not pull images."""

    only_ranks = True

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """Return scores from 0 to 100; 0 for a node without any of the pod's images."""
        sums: IntArray = uniform(len(nodes), np.int64(0))
        has_images = False
        for name in _images_of(pod.spec):
            image = nodes.image(name)
            if image is not None:
                has_images = True
                spread = image.num_nodes / nodes.total
                sums = sums + image.present * np.int64(float(image.size_bytes) * spread)
        containers = len(pod.spec.init_containers) + len(pod.spec.containers)
        return _priority(sums, containers) if has_images else sums


def _images_of(spec: PodSpec) -> list[str]:
    """Return the images of containers and image volumes; repeated images count again."""
    names = [container.image for container in (*spec.init_containers, *spec.containers)]
    names += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return [normalized_image_name(name) for name in names]


def _priority(sums: IntArray, containers: int) -> IntArray:
    highest = _MAX_CONTAINER_THRESHOLD_BYTES * containers
    too_small = sums < _MIN_THRESHOLD_BYTES
    clamped = np.where(too_small, _MIN_THRESHOLD_BYTES, np.minimum(sums, highest))
    above = MAX_NODE_SCORE * (clamped - _MIN_THRESHOLD_BYTES)
    return truncated_div(above, highest - _MIN_THRESHOLD_BYTES)


def normalized_image_name(name: str) -> str:
    """Return an image's name as nodes report it: with the tag `latest` if it has none."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
