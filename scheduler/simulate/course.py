"""Records what happens in a simulated cluster, step by step."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from scheduler.api import resources
from scheduler.cycle.schedule_one import Found
from scheduler.framework.types import FitError
from scheduler.reports.build import cluster_report, owner_of
from scheduler.simulate.answers import (
    Change,
    EvictedPod,
    Outcome,
    PlacedPod,
    Step,
    WaitingPod,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from scheduler.api.core import Node, Pod
    from scheduler.assembly.simulated_cluster import SimulatedCluster
    from scheduler.cycle.pod_group.results import PodGroupAttempt
    from scheduler.explain.references import MissingKinds
    from scheduler.queue import QueuedPodInfo
    from scheduler.reports.model import ClusterReport

#: The resources that a node's bars show.
_SHOWN: Final = (resources.CPU, resources.MEMORY)
_ZONE: Final = "topology.kubernetes.io/zone"
_POD_SCHEDULED: Final = "PodScheduled"


class Course:
    """The steps since `begin`, and the outcome. `replaced` is kept by the owners.

    A step ends with a cycle of the scheduler, or when its text changes.
    """

    def __init__(
        self, cluster: SimulatedCluster, replaced: Mapping[str, str], missing: MissingKinds
    ) -> None:
        self._cluster: Final = cluster
        self._replaced: Final = replaced
        self._missing: Final = missing
        self._steps: Final[list[Step]] = []
        self._changes: Final[list[Change]] = []
        self._note: Final = self._changes.append
        self._lost: Final[dict[str, tuple[Pod, str]]] = {}
        self._text = ""
        self._start = 0.0
        self._before: ClusterReport | None = None
        self._had_node: Collection[str] = ()
        #: The keys of the pods that have waited when the course began.
        self.waited: Sequence[str] = ()
        #: The error of the last cycle that has found no node.
        self.failure: FitError | None = None
        cluster.core.informers.pods.on_change(self._pod_changed)
        cluster.core.informers.nodes.on_change(self._node_changed)
        cluster.on_cycle = self._cycle_ended

    def begin(self) -> None:
        """Forget what has happened so far; the cluster is now as it is before."""
        self._before = cluster_report(self._cluster.core.cache.table)
        self._start = self._cluster.clock.now()
        pods = self._cluster.pods
        self._had_node = {pod.metadata.uid for pod in pods if pod.spec.node_name}
        self.waited = sorted(pod.key for pod in pods if not pod.spec.node_name)
        for kept in (self._steps, self._changes, self._lost):
            kept.clear()

    def now(self, text: str) -> None:
        """Name the cause of the following changes."""
        self.end_step()
        self._text = text

    def end_step(self) -> None:
        """Let the next change begin a step."""
        if self._changes:
            seconds = round(self._cluster.clock.now() - self._start, 3)
            self._steps.append(Step(seconds=seconds, text=self._text, changes=(*self._changes,)))
            self._changes.clear()

    def outcome(self) -> Outcome:
        """Return what has happened since `begin`."""
        self.end_step()
        assert self._before is not None, "the course has begun"
        pods = sorted(self._cluster.pods, key=lambda pod: pod.key)
        before, after = self._before, cluster_report(self._cluster.core.cache.table)
        return Outcome(
            cluster=before,
            waiting_before=(*self.waited,),
            steps=(*self._steps,),
            placed=tuple(
                PlacedPod(pod=pod.key, owner=owner_of(pod), node=pod.spec.node_name)
                for pod in pods
                if pod.spec.node_name and pod.metadata.uid not in self._had_node
            ),
            waiting=tuple(self.waiting()),
            evicted=tuple(self._evicted({pod.key: pod.spec.node_name for pod in pods})),
            requested={
                name: (_mean_share(before, name), _mean_share(after, name)) for name in _SHOWN
            },
            seconds=round(self._cluster.clock.now() - self._start, 3),
        )

    def waiting(self) -> list[WaitingPod]:
        """Return the pods without a node, by key, with the scheduler's reasons."""
        return [
            WaitingPod(
                pod=pod.key,
                owner=owner_of(pod),
                reason=self._reason(pod),
                unsure=self._missing.kinds_for(pod),
            )
            for pod in sorted(self._cluster.pods, key=lambda pod: pod.key)
            if not pod.spec.node_name and pod.metadata.deletion_timestamp is None
        ]

    def _reason(self, pod: Pod) -> str:
        queued = self._cluster.core.queue.find(pod.key)
        if queued is not None and queued.is_gated:
            return f"gated by {queued.gating_plugin}"
        if pod.spec.scheduler_name not in self._cluster.core.profiles:
            return f"no profile is named {pod.spec.scheduler_name}"
        conditions = pod.status.conditions
        return next((each.message for each in conditions if each.type == _POD_SCHEDULED), "")

    def _evicted(self, nodes: Mapping[str, str]) -> Iterator[EvictedPod]:
        """Yield the pods that have lost their node; `nodes` has the node of each present pod."""
        successors = {old: new for new, old in self._replaced.items()}
        for pod, cause in self._lost.values():
            successor = successors.get(pod.key, "")
            while successor and successor not in nodes and successors.get(successor):
                successor = successors[successor]
            preemptor = self._cluster.preemptors.get(pod.metadata.uid)
            yield EvictedPod(
                pod=pod.key,
                owner=owner_of(pod),
                node=pod.spec.node_name,
                cause=f"preempted by {preemptor}" if preemptor else cause,
                successor=successor,
                successor_node=nodes.get(successor, ""),
            )

    # Changes.

    def _cycle_ended(self, queued: QueuedPodInfo, found: Found | PodGroupAttempt | None) -> None:
        self.end_step()
        status = found.status if isinstance(found, Found) else None
        if status is not None and isinstance(status.cause, FitError):
            self.failure = status.cause

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is not None:
            self._pod_updated(old, new)
        elif old is not None:
            self._pod_gone(old)
        elif new is not None and not new.spec.node_name:
            self._note(Change(kind="created", pod=new.key))

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        node = new.spec.node_name
        if node and not old.spec.node_name:
            self._note(Change(kind="placed", pod=new.key, node=node, shares=self._shares(new)))
        if new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
            self._ends(new)

    def _pod_gone(self, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp is None:
            self._ends(pod)
        self._note(
            Change(kind="gone", pod=pod.key, node=pod.spec.node_name, shares=self._shares(pod))
        )

    def _ends(self, pod: Pod) -> None:
        if node := pod.spec.node_name:
            self._lost[pod.metadata.uid] = pod, self._text
            self._note(Change(kind="evicted", pod=pod.key, node=node, text=self._text))

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._note(Change(kind="lost", node=old.metadata.name))
            return
        name = new.metadata.name
        if old is None:
            pods_max = resources.node_allocatable(new.status.allocatable).get(resources.PODS, 0)
            zone = new.metadata.labels.get(_ZONE, "")
            self._note(Change(kind="added", node=name, pods_max=pods_max, zone=zone))
        elif new.spec.unschedulable and not old.spec.unschedulable:
            self._note(Change(kind="cordoned", node=name))

    def _shares(self, pod: Pod) -> dict[str, float]:
        """Return the parts of its node's resources that a pod requests."""
        node = self._cluster.find_node(pod.spec.node_name)
        if node is None:
            return {}
        allocatable = resources.node_allocatable(node.status.allocatable)
        requests = resources.counted(resources.pod_requests(pod))
        return {
            name: round(requests.get(name, 0) / allocatable[name], 5)
            for name in _SHOWN
            if allocatable.get(name)
        }


def _mean_share(cluster: ClusterReport, resource: str) -> float:
    """Return the requested part of a resource, all nodes alike."""
    return round(statistics.fmean([node.shares[resource] for node in cluster.nodes] or [0.0]), 4)
