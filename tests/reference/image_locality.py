"""ImageLocality: `imagelocality/image_locality.go`, `addNodeImageStates` in `cache.go`."""

from __future__ import annotations

from scheduler.api.core import Node, Pod
from tests.reference.cluster import Cluster
from tests.reference.go_integers import divide

MIB = 1024 * 1024


def full_name(image: str) -> str:
    last_part = image.split("/")[-1]
    return image if ":" in last_part else image + ":latest"


def images_of(node: Node) -> set[str]:
    return {name for image in node.status.images for name in image.names}


def size_of(name: str, cluster: Cluster) -> int:
    """Return the size of the image on the first node that has it."""
    for node in cluster.nodes:
        for image in node.status.images:
            if name in image.names:
                return image.size_bytes
    raise LookupError(name)


def score(pod: Pod, node: Node, cluster: Cluster) -> int:
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    wanted = [container.image for container in containers]
    wanted += [volume.image.reference for volume in pod.spec.volumes if volume.image]
    total = 0
    for name in map(full_name, wanted):
        if name in images_of(node):
            having = sum(name in images_of(other) for other in cluster.nodes)
            total += int(float(size_of(name, cluster)) * (having / len(cluster.nodes)))
    low, high = 23 * MIB, 1000 * MIB * len(containers)
    total = low if total < low else min(total, high)
    return divide(100 * (total - low), high - low)
