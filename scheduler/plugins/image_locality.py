"""ImageLocality: prefer nodes that already have large images of the pod.

An image on a node counts with its size times the share of all nodes that have it, so that pods do
not pile up on the few nodes that pulled it first. The sum is mapped from 23 MiB..1000 MiB per
container to 0..100. Images of volumes count since 1.36; the sum may be larger with them only since
1.37.
Mirrors `pkg/scheduler/framework/plugins/imagelocality/image_locality.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.config.versions import SchedulerVersion
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

    def __init__(self) -> None:
        version = self.handle.version
        has_volumes = version >= SchedulerVersion.V1_36
        self._images: Final = _all_images if has_volumes else _container_images
        volumes_count = version >= SchedulerVersion.V1_37
        self._counted: Final = _all_images if volumes_count else _container_images

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """Return scores from 0 to 100; 0 for a node without any of the pod's images."""
        sums: IntArray = uniform(len(nodes), np.int64(0))
        has_images = False
        for name in self._images(pod.spec):
            image = nodes.image(normalized_image_name(name))
            if image is not None:
                has_images = True
                spread = image.num_nodes / nodes.total
                sums = sums + image.present * np.int64(float(image.size_bytes) * spread)
        return _priority(sums, len(self._counted(pod.spec))) if has_images else sums


def _container_images(spec: PodSpec) -> list[str]:
    """Return the images of all containers; repeated images count again."""
    return [container.image for container in (*spec.init_containers, *spec.containers)]


def _all_images(spec: PodSpec) -> list[str]:
    """Return the images of containers and image volumes; repeated images count again."""
    volumes = [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return [*_container_images(spec), *volumes]


def _priority(sums: IntArray, images: int) -> IntArray:
    highest = _MAX_CONTAINER_THRESHOLD_BYTES * images
    too_small = sums < _MIN_THRESHOLD_BYTES
    clamped = np.where(too_small, _MIN_THRESHOLD_BYTES, np.minimum(sums, highest))
    above = MAX_NODE_SCORE * (clamped - _MIN_THRESHOLD_BYTES)
    return truncated_div(above, highest - _MIN_THRESHOLD_BYTES)


def normalized_image_name(name: str) -> str:
    """Return an image's name as nodes report it: with the tag `latest` if it has none."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
