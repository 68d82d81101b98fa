"""Hypothesis strategies for nodes, pods and clusters, for property-based tests of plugins.

    @given(cluster=strategies.clusters(labels={"gpu": ["a100", "t4"]}))
    def test_gpu_nodes_are_kept(cluster):
        for pod in cluster.incoming:
            decision = decide(cluster.objects, pod, plugins=[GpuGuard])
            ...

Values shrink to few nodes without labels, taints and pods. It needs the package `hypothesis`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.api.core import Node, Pod
from scheduler.testing.random_cluster import RandomCluster, RandomObjects

T = TypeVar("T", Node, Pod)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Values = Mapping[str, Sequence[str]]


def nodes(
    *, name: str = "node", labels: Values | None = None, annotations: Values | None = None
) -> st.SearchStrategy[Node]:
    """Return a strategy for nodes. `labels` and `annotations` map further keys to values."""
    return st.randoms(use_true_random=False).map(
        lambda rng: RandomObjects(rng, labels=labels, annotations=annotations).node(name)
    )


def pods(
    *,
    name: str = "pod",
    node_name: str = "",
    labels: Values | None = None,
    annotations: Values | None = None,
) -> st.SearchStrategy[Pod]:
    """Return a strategy for pods, on a node if `node_name` is given."""
    return st.randoms(use_true_random=False).map(
        lambda rng: RandomObjects(rng, labels=labels, annotations=annotations).pod(
            name, node=node_name
        )
    )


@st.composite
def clusters(
    draw: st.DrawFn,
    *,
    nodes_max: int = 5,
    pods_per_node_max: int = 3,
    incoming_max: int = 3,
    labels: Values | None = None,
    annotations: Values | None = None,
) -> RandomCluster:
    """Draw a cluster of one to `nodes_max` nodes, with running pods and pods without a node."""
    any_node = nodes(labels=labels, annotations=annotations)
    any_pod = pods(labels=labels, annotations=annotations)
    drawn = draw(st.lists(any_node, min_size=1, max_size=nodes_max))
    named = [_named(node, f"node-{number}") for number, node in enumerate(drawn)]
    running = [
        _named(pod, f"running-{node.metadata.name}-{number}", node_name=node.metadata.name)
        for node in named
        for number, pod in enumerate(draw(st.lists(any_pod, max_size=pods_per_node_max)))
    ]
    waiting = draw(st.lists(any_pod, min_size=1, max_size=incoming_max))
    incoming = [_named(pod, f"incoming-{number}") for number, pod in enumerate(waiting)]
    return RandomCluster(named, running, incoming)


def _named(obj: T, name: str, *, node_name: str = "") -> T:
    """Return the object under a name; a pod on a node if `node_name` is given."""
    labels = obj.metadata.labels
    if isinstance(obj, Node):
        labels = {**labels, "kubernetes.io/hostname": name}
    metadata = replace(obj.metadata, name=name, uid=f"uid-{name}", labels=labels)
    if node_name:
        return replace(obj, metadata=metadata, spec=replace(obj.spec, node_name=node_name))
    return replace(obj, metadata=metadata)
