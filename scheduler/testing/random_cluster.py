"""Small random clusters for `check_plugin`, the same for the same seed.

The clusters have everything that in-tree plugins read: zones, taints, tolerations, cordon, extended
resources, host ports, images, selectors, affinities, priorities.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.testing.builders import make_node, make_pod

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.api.core import Node, Pod

_NODES_MAX: Final = 10
_PODS_PER_NODE_MAX: Final = 3
_INCOMING: Final = 3
_GPU: Final = "example.com/gpu"

#: Labels that nodes and pods may carry, and their values.
_LABELS: Final[Mapping[str, Sequence[str]]] = {
    "app": ("web", "db"),
    "disk": ("hdd", "nvme", "ssd"),
    "gpu": ("a100", "t4"),
}
_ZONE_LABEL: Final = "topology.kubernetes.io/zone"
_ZONES: Final = ("", "zone-a", "zone-b", "zone-c")
_TAINTS: Final = tuple(
    {"key": key, "value": "x", "effect": effect}
    for key in ("dedicated", "maintenance")
    for effect in ("NoSchedule", "PreferNoSchedule", "NoExecute")
)
_TOLERATIONS: Final = (
    {"operator": "Exists"},
    {"key": "dedicated", "operator": "Exists"},
    {"key": "maintenance", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
)
_IMAGES: Final = {"registry/app:1": 300 * 1024**2, "registry/db:2": 900 * 1024**2}


class RandomCluster(NamedTuple):
    """Nodes, their running pods, and pods without a node."""

    nodes: Sequence[Node]
    running: Sequence[Pod]
    incoming: Sequence[Pod]

    @property
    def objects(self) -> Sequence[Node | Pod]:
        """The nodes and the pods on them."""
        return [*self.nodes, *self.running]


def random_cluster(
    seed: int,
    *,
    labels: Mapping[str, Sequence[str]] | None = None,
    annotations: Mapping[str, Sequence[str]] | None = None,
) -> RandomCluster:
    """Return a cluster of one to ten nodes.

    `labels` and `annotations` add keys, and the values to draw from for each.
    """
    rng = random.Random(seed)
    maker = RandomObjects(rng, labels=labels, annotations=annotations)
    nodes = [maker.node(f"node-{n}") for n in range(rng.randint(1, _NODES_MAX))]
    running = [
        maker.pod(f"running-{node.metadata.name}-{n}", node=node.metadata.name)
        for node in nodes
        for n in range(maker.rng.randint(0, _PODS_PER_NODE_MAX))
    ]
    return RandomCluster(nodes, running, [maker.pod(f"incoming-{n}") for n in range(_INCOMING)])


class RandomObjects:
    """Draws nodes and pods from one random generator."""

    def __init__(
        self,
        rng: random.Random,
        *,
        labels: Mapping[str, Sequence[str]] | None = None,
        annotations: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.rng: Final = rng
        self._labels: Final = {**_LABELS, **(labels or {})}
        self._annotations: Final = annotations or {}

    def node(self, name: str) -> Node:
        """Return a node with random properties."""
        allocatable = {"cpu": f"{self.rng.randint(1, 8)}", "memory": f"{self.rng.randint(1, 16)}Gi"}
        allocatable["pods"] = f"{self.rng.choice((2, 5, 110))}"
        if self._one_in(3):
            allocatable[_GPU] = "4"
        return make_node(
            name,
            labels=self._some_of(self._labels),
            annotations=self._some_of(self._annotations),
            zone=self.rng.choice(_ZONES),
            allocatable=allocatable,
            taints=[self.rng.choice(_TAINTS)] if self._one_in(3) else [],
            unschedulable=self._one_in(8),
            images={image: size for image, size in _IMAGES.items() if self._one_in(3)},
        )

    def pod(self, name: str, *, node: str = "") -> Pod:
        """Return a pod with random properties, on `node` unless this is empty."""
        requests = {"cpu": f"{self.rng.choice((100, 500, 2000))}m", "memory": "256Mi", _GPU: "1"}
        requests = {r: amount for r, amount in requests.items() if self._one_in(2)}
        return make_pod(
            name,
            namespace=self.rng.choice(("default", "other")),
            labels=self._some_of(self._labels),
            annotations=self._some_of(self._annotations),
            requests=requests,
            image=self.rng.choice(("", *_IMAGES)),
            host_ports=[self.rng.choice((80, 8080))] if self._one_in(4) else [],
            node_name=node,
            priority=self.rng.choice((None, 0, 10)),
            tolerations=[t for t in _TOLERATIONS if self._one_in(4)],
            node_selector={"disk": self.rng.choice(_LABELS["disk"])} if self._one_in(6) else {},
            affinity=self._affinity() if self._one_in(4) else None,
        )

    def _one_in(self, number: int) -> bool:
        # The last, not the first: Hypothesis shrinks to 0, that is, to less.
        return self.rng.randrange(number) == number - 1

    def _some_of(self, choices: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Return some of the keys, each with one of its values."""
        return {
            key: self.rng.choice(list(values)) for key, values in choices.items() if self._one_in(2)
        }

    def _affinity(self) -> dict[str, object]:
        zones = {"key": _ZONE_LABEL, "operator": "In", "values": ["zone-a", "zone-b"]}
        term = {"matchExpressions": [zones]}
        like = {
            "labelSelector": {"matchLabels": {"app": self.rng.choice(_LABELS["app"])}},
            "topologyKey": _ZONE_LABEL,
        }
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        kinds: tuple[dict[str, object], ...] = (
            {"nodeAffinity": {required: {"nodeSelectorTerms": [term]}}},
            {"nodeAffinity": {preferred: [{"weight": 5, "preference": term}]}},
            {"podAffinity": {required: [like]}},
            {"podAntiAffinity": {preferred: [{"weight": 3, "podAffinityTerm": like}]}},
        )
        return self.rng.choice(kinds)
