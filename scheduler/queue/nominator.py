"""Which pods are expected on which node, though they are not there yet.

A pod is nominated to a node when preemption has made room for it there, or when somebody wrote the
node into its status. Until it is assumed on a node, pods of lower priority treat it as if it ran
there. What the scheduler knows may be ahead of the pod's status, so the nominations live here.
Source: `backend/queue/nominator.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.framework.types import NominatingInfo, NominatingMode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from scheduler.api.core import Pod
    from scheduler.snapshot.pod_info import PodInfo


class Nominator:
    """The nominations; satisfies `scheduler.framework.handle.PodNominator`.

    `pod_lister` gives a pod as the informers know it, by namespace and name, or None.
    """

    def __init__(self, pod_lister: Callable[[str, str], Pod | None]) -> None:
        self._pod_lister: Final = pod_lister
        self._node_of: Final[dict[str, str]] = {}
        self._pods_on: Final[dict[str, dict[str, PodInfo]]] = {}

    @property
    def nominated_nodes(self) -> Collection[str]:
        """The nodes on which any pod is expected."""
        return self._pods_on.keys() - {""}

    def add_nominated_pod(self, pod: PodInfo, nominating_info: NominatingInfo | None) -> None:
        """Expect a pod on the node given, or on the one its status names, and nowhere else.

        With `NominatingMode.OVERRIDE` the given name counts even if it is empty: the pod is then
        expected on no node, whatever its status says. A pod that the informers no longer know, or
        know to be assigned, is expected nowhere.
        """
        self.forget(pod.uid)
        node_name = pod.pod.status.nominated_node_name
        if nominating_info is not None and nominating_info.mode == NominatingMode.OVERRIDE:
            node_name = nominating_info.nominated_node_name
        elif not node_name:
            return
        known = self._pod_lister(pod.namespace, pod.name)
        if known is None or known.spec.node_name:
            return
        self._node_of[pod.uid] = node_name
        self._pods_on.setdefault(node_name, {})[pod.uid] = pod

    def update_nominated_pod(self, old: Pod, pod: PodInfo) -> None:
        """Follow an update of a pod.

        While neither version names a node the nomination stays as it is: such an update may have
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
        """Expect the pod nowhere."""
        self.forget(pod.uid)

    def forget(self, uid: str) -> None:
        """Expect the pod of this uid nowhere."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        pods = self._pods_on[node_name]
        del pods[uid]
        if not pods:
            del self._pods_on[node_name]

    def refresh(self, pod: PodInfo) -> None:
        """Take a newer version of a pod where the pod is nominated; the node stays."""
        node_name = self._node_of.get(pod.uid)
        if node_name is not None:
            self._pods_on[node_name][pod.uid] = pod

    def nominated_pods_for_node(self, node_name: str) -> list[PodInfo]:
        """The pods expected on a node, in the order of their nomination."""
        return list(self._pods_on.get(node_name, {}).values())

    def node_of(self, uid: str) -> str | None:
        """Where a pod is expected; None if nowhere, "" if it was nominated to no node."""
        return self._node_of.get(uid)

    def nominated_pod(self, uid: str) -> PodInfo | None:
        """The pod of this uid as it is nominated; None if it is not."""
        node_name = self._node_of.get(uid)
        return None if node_name is None else self._pods_on[node_name][uid]

    @property
    def nominations(self) -> Mapping[str, str]:
        """The node of each nominated pod, by the pod's uid."""
        return dict(self._node_of)

    def complaints(self) -> Iterator[str]:
        """What is wrong, one line each: nothing, unless there is a bug."""
        by_node = {uid: name for name, pods in self._pods_on.items() for uid in pods}
        if by_node != self._node_of or not all(self._pods_on.values()):
            yield f"nominations by node {by_node} differ from those by pod {self._node_of}"
