"""Random batches of pods, and the total score of a placement, by another way than the planner's."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from scheduler.api.core import Node, Pod
from scheduler.testing import decide, make_node, make_pod


class RandomBatch(NamedTuple):
    """Nodes with pods, and pods of several sizes that wait, in the order of the queue."""

    nodes: Sequence[Node]
    running: Sequence[Pod]
    waiting: Sequence[Pod]

    def score(self, node_of: Mapping[str, str]) -> tuple[int, int]:
        """Return the number of pods with a node, and the total score of their nodes.

        A pod's score is the profile's, over the cluster with the pods that came before it.
        """
        objects: list[Node | Pod] = [*self.nodes, *self.running]
        placed = total = 0
        for pod in self.waiting:
            if name := node_of[pod.metadata.name]:
                placed += 1
                total += sum(decide(objects, pod).scores[name].values())
                objects.append(replace(pod, spec=replace(pod.spec, node_name=name)))
        return placed, total


def random_batch(seed: int) -> RandomBatch:
    """Return a batch of up to 16 pods for up to 10 nodes, some of which are too few."""
    rng = random.Random(seed)
    nodes = [
        make_node(
            f"node-{number}",
            allocatable={
                "cpu": str(rng.randint(1, 8)),
                "memory": f"{rng.randint(2, 16)}Gi",
                "pods": str(rng.randint(2, 8)),
            },
            labels={"disk": rng.choice(("ssd", "hdd"))},
            taints=[{"key": "kept", "effect": "NoSchedule"}] if rng.random() < 0.2 else [],
        )
        for number in range(rng.randint(2, 10))
    ]
    sizes = [_size(rng) for _ in range(rng.randint(1, 4))]
    running = [
        make_pod(f"running-{number}", requests=rng.choice(sizes), node_name=node.metadata.name)
        for number, node in enumerate(nodes)
        if rng.random() < 0.3
    ]
    waiting = [
        make_pod(
            f"waiting-{number:02}",
            requests=rng.choice(sizes),
            node_selector={"disk": rng.choice(("ssd", "hdd"))} if rng.random() < 0.3 else {},
            tolerations=[{"key": "kept", "operator": "Exists"}] if rng.random() < 0.3 else [],
        )
        for number in range(rng.randint(2, 16))
    ]
    return RandomBatch(nodes, running, waiting)


def _size(rng: random.Random) -> dict[str, str]:
    return {"cpu": f"{rng.randint(1, 20)}00m", "memory": f"{rng.randint(1, 40)}00Mi"}
