"""Nominations: pods that are expected on a node and do not run there yet.

A pod is nominated to a node when preemption has made room for it there, or when its status names
the node. Until the pod is assumed on a node, pods of lower priority are scheduled as if it ran on
the nominated one. The scheduler's knowledge may be ahead of the pod's status, so the nominations
are kept here.
Source: `backend/queue/nominator.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.api.core import ObjectMeta, Pod
from scheduler.framework.types import NominatingInfo, NominatingMode
from scheduler.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set


_NO_PODS: Final[Mapping[str, PodInfo]] = {}


def _bare(pod: PodInfo) -> PodInfo:
    """Return a pod with the same name and uid, and nothing else."""
    metadata = ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid)
    return PodInfo(Pod(metadata=metadata))


class Nominator:
    """The nominations; implements `scheduler.framework.handle.PodNominator`.

    `pod_lister` returns a pod as the informers know it, by namespace and name, or None. With
    `counts_gated` the nomination of a new pod counts even if the pod is gated (v1.37).
    """

    def __init__(
        self, pod_lister: Callable[[str, str], Pod | None], *, counts_gated: bool = False
    ) -> None:
        self._pod_lister: Final = pod_lister
        self._counts_gated: Final = counts_gated
        #: The uids of the pods that are being scheduled; the queue sets this.
        self.in_flight: Set[str] = frozenset()
        self._node_of: Final[dict[str, str]] = {}
        self._pods_on: Final[dict[str, dict[str, PodInfo]]] = {}

    @property
    def nominated_nodes(self) -> Collection[str]:
        """The nodes to which any pod is nominated."""
        names = self._pods_on.keys()
        return names - {""} if "" in names else names

    def add_nominated_pod(self, pod: PodInfo, nominating_info: NominatingInfo | None) -> None:
        """Nominate a pod to the given node, or to the one in its status, and to no other.

        With `NominatingMode.OVERRIDE` the given name is used even if it is empty: the pod is then
        nominated to no node, whatever its status names. For a pod that has a node or that the
        informers no longer have, an earlier nomination is removed, and none is added.
        """
        self.forget(pod.uid)
        node_name = pod.pod.status.nominated_node_name
        if nominating_info is not None and nominating_info.mode == NominatingMode.OVERRIDE:
            node_name = nominating_info.nominated_node_name
        elif not node_name:
            return
        current = self._pod_lister(pod.namespace, pod.name)
        if current is None or current.spec.node_name:
            return
        self._node_of[pod.uid] = node_name
        self._pods_on.setdefault(node_name, {})[pod.uid] = pod

    def enter(self, pod: PodInfo) -> None:
        """Nominate a new pod to the node in its status, before the pod is gated or active."""
        if self._counts_gated:
            self.add_nominated_pod(pod, None)

    def update_nominated_pod(self, old: Pod, pod: PodInfo) -> None:
        """Replace a pod that has changed.

        If neither version names a node, the nomination stays as it is: such an update may have
        been under way when the pod was nominated in memory.
        """
        node_name = self._node_of.get(old.metadata.uid)
        self.forget(old.metadata.uid)
        named = old.status.nominated_node_name or pod.pod.status.nominated_node_name
        if node_name is None or named:
            self.add_nominated_pod(pod, None)
        else:
            self.add_nominated_pod(pod, NominatingInfo(node_name, NominatingMode.OVERRIDE))

    def delete_nominated_pod_if_exists(self, pod: PodInfo) -> None:
        self.forget(pod.uid)

    def forget(self, uid: str) -> None:
        """Remove the nomination of a pod; a no-op if there is none."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        pods = self._pods_on[node_name]
        del pods[uid]
        if not pods:
            del self._pods_on[node_name]

    def refresh(self, pod: PodInfo) -> None:
        """Replace a nominated pod by a newer version; the node stays."""
        node_name = self._node_of.get(pod.uid)
        if node_name is not None:
            self._pods_on[node_name][pod.uid] = pod

    def strip(self, pod: PodInfo) -> None:
        """Leave a nominated pod without priority and requests: it is no longer in the queue.

        A pod that is being deleted is skipped, and stays nominated until it is gone.
        """
        self.refresh(_bare(pod))

    def nominated_pods_for_node(self, node_name: str) -> list[PodInfo]:
        """Return the pods that are nominated to a node, in the order of their nomination.

        A pod that is being scheduled has no priority and no requests, as upstream, which looks for
        the pod in the queue in vain. This matters to the members of a pod group.
        """
        return self.nominated_pods_for_nodes((node_name,))[0]

    def nominated_pods_for_nodes(
        self, node_names: Iterable[str]
    ) -> tuple[list[PodInfo], list[int]]:
        """Return the pods that are nominated to some nodes, and their number on each node."""
        on_nodes = [self._pods_on.get(name, _NO_PODS) for name in node_names]
        pods = [pod for on_node in on_nodes for pod in on_node.values()]
        counts = [*map(len, on_nodes)]
        in_flight = self.in_flight
        if not in_flight.isdisjoint(self._node_of):
            pods = [_bare(pod) if pod.uid in in_flight else pod for pod in pods]
        return pods, counts

    def nominated_pod(self, uid: str) -> PodInfo | None:
        """Return the nominated version of a pod; None if the pod is not nominated."""
        node_name = self._node_of.get(uid)
        return None if node_name is None else self._pods_on[node_name][uid]

    @property
    def nominations(self) -> Mapping[str, str]:
        """The node of each nominated pod, by the pod's uid."""
        return dict(self._node_of)

    def complaints(self) -> Iterator[str]:
        """Yield a line for each broken invariant."""
        by_node = {uid: name for name, pods in self._pods_on.items() for uid in pods}
        if by_node != self._node_of or not all(self._pods_on.values()):
            yield f"nominations by node {by_node} differ from those by pod {self._node_of}"
