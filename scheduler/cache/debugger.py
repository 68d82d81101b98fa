"""Compares the cache with the informers' objects and prints its content.

Source: `pkg/scheduler/backend/cache/debugger` (comparer and dumper).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from scheduler.api import resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scheduler.api.core import Node, Pod
    from scheduler.cache.cache import Cache
    from scheduler.metrics import SchedulerMetrics
    from scheduler.snapshot.pod_info import PodInfo


class CacheDifference(NamedTuple):
    """Objects that only the informers have (missed) or only the cache has (redundant).

    Nodes by name, pods as `namespace/name (uid)`; all sorted.
    """

    missed_nodes: tuple[str, ...] = ()
    redundant_nodes: tuple[str, ...] = ()
    missed_pods: tuple[str, ...] = ()
    redundant_pods: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(self)

    def lines(self) -> Iterator[str]:
        """Yield a line for each kind of object with differences."""
        for kind, missed, redundant in (
            ("nodes", self.missed_nodes, self.redundant_nodes),
            ("pods", self.missed_pods, self.redundant_pods),
        ):
            if missed or redundant:
                yield (
                    f"Cache mismatch: missed {kind}: [{' '.join(missed)}], "
                    f"redundant {kind}: [{' '.join(redundant)}]"
                )

    def record(self, metrics: SchedulerMetrics) -> None:
        """Count this comparison, and set the gauges of divergence."""
        metrics.cache_comparisons[("different" if self else "equal",)] += 1
        for kind, missed, redundant in (
            ("nodes", self.missed_nodes, self.redundant_nodes),
            ("pods", self.missed_pods, self.redundant_pods),
        ):
            metrics.cache_divergence[kind, "missed"] = len(missed)
            metrics.cache_divergence[kind, "redundant"] = len(redundant)


def compare(
    cache: Cache, *, nodes: Iterable[Node], pods: Iterable[Pod], queued: Iterable[Pod]
) -> CacheDifference:
    """Compare the cache with the informers' `nodes` and `pods`.

    `queued` are all pods in the queue or in flight, which the scheduler knows as well. `pods` must
    not have pods of other schedulers without a node.
    """
    actual_nodes = {node.metadata.name for node in nodes}
    known_nodes = cache.nodes.keys()
    actual_pods = {pod.metadata.uid: pod for pod in pods}
    known_pods = {uid: info.pod for uid, info in cache.pods.items()}
    known_pods.update((pod.metadata.uid, pod) for pod in queued)
    return CacheDifference(
        tuple(sorted(actual_nodes - known_nodes)),
        tuple(sorted(known_nodes - actual_nodes)),
        _named(actual_pods[uid] for uid in actual_pods.keys() - known_pods.keys()),
        _named(known_pods[uid] for uid in known_pods.keys() - actual_pods.keys()),
    )


def dump_nodes(
    nodes: Mapping[str, Node], pods: Iterable[PodInfo], nominated_on: Mapping[str, list[PodInfo]]
) -> Iterator[str]:
    """Yield a paragraph per node: amounts requested and allocatable, pods, nominated pods.

    `nodes` and `pods` are those of the cache.
    """
    by_node: defaultdict[str, list[PodInfo]] = defaultdict(list)
    for pod in pods:
        by_node[pod.spec.node_name].append(pod)
    for name in sorted(nodes.keys() | by_node.keys()):
        node, on_node = nodes.get(name), by_node[name]
        offered = resources.node_allocatable(node.status.allocatable) if node else {}
        requested: defaultdict[str, int] = defaultdict(int)
        for pod in on_node:
            for resource, count in pod.requests.resources.items():
                requested[resource] += count
        lines = [
            f"Node name: {name}",
            f"Deleted: {'false' if node is not None else 'true'}",
            f"Requested Resources: {_counts(requested)}",
            f"Allocatable Resources: {_counts(offered)}",
            f"Scheduled Pods(number: {len(on_node)}):",
            *dump_pods(pod.pod for pod in on_node),
        ]
        if nominated := nominated_on.get(name):
            lines += [f"Nominated Pods(number: {len(nominated)}):"]
            lines += dump_pods(pod.pod for pod in nominated)
        yield "\n".join(lines)


def dump_pods(pods: Iterable[Pod]) -> Iterator[str]:
    """Yield a line per pod."""
    for pod in pods:
        metadata, status = pod.metadata, pod.status
        yield (
            f"name: {metadata.name}, namespace: {metadata.namespace}, uid: {metadata.uid}, "
            f"phase: {status.phase}, nominated node: {status.nominated_node_name}"
        )


def _named(pods: Iterable[Pod]) -> tuple[str, ...]:
    return tuple(sorted(f"{pod.key} ({pod.metadata.uid})" for pod in pods))


def _counts(counts: dict[str, int]) -> str:
    texts = (f"{name}={resources.count_text(name, counts[name])}" for name in sorted(counts))
    return " ".join(texts) or "none"
