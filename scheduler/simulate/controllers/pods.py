"""The kubelets and the owners of pods: pods start, end, and are created anew."""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from scheduler.api.core import Pod, PodCondition, PodStatus

if TYPE_CHECKING:
    from scheduler.assembly.simulated_cluster import SimulatedCluster

_STARTUP_SECONDS: Final = 1.0
_GRACE_SECONDS: Final = 30
#: The owners that keep the name of a pod, so that the old pod must be gone first.
_KEEPS_NAMES: Final = frozenset({"StatefulSet", "DaemonSet"})


def grace_seconds(pod: Pod) -> float:
    """Return the time that a deleted pod has to end."""
    seconds = pod.spec.termination_grace_period_seconds
    return _GRACE_SECONDS if seconds is None else seconds


class Kubelets:
    """Makes a bound pod ready after a second, and removes a deleted one after its grace period.

    Pods that have a node from the start are running. A deleted pod that is not ready yet, or that
    has no node, is removed at once.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster: Final = cluster
        #: The uids of bound pods that are not ready yet.
        self.starting: Final[set[str]] = set()
        cluster.core.informers.pods.add_event_handler(
            on_add=lambda pod, is_initial: self._changed(None, pod),
            on_update=self._changed,
            on_delete=lambda pod, final_state_unknown: self.starting.discard(pod.metadata.uid),
        )

    def _changed(self, old: Pod | None, new: Pod) -> None:
        if new.metadata.deletion_timestamp is not None:
            if old is None or old.metadata.deletion_timestamp is None:
                is_running = new.spec.node_name and new.metadata.uid not in self.starting
                self._cluster.remove_after(grace_seconds(new) if is_running else 0, new)
        elif old is not None and new.spec.node_name and not old.spec.node_name:
            self.starting.add(new.metadata.uid)
            self._cluster.after(_STARTUP_SECONDS, functools.partial(self._started, new))

    def _started(self, bound: Pod) -> None:
        pod = self._cluster.find_pod(bound)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return
        self.starting.discard(pod.metadata.uid)
        ready = PodCondition(type="Ready", status="True")
        others = (each for each in pod.status.conditions if each.type != "Ready")
        since = datetime.fromtimestamp(self._cluster.clock.now() - _STARTUP_SECONDS, UTC)
        status = replace(pod.status, phase="Running", start_time=since, conditions=(*others, ready))
        self._cluster.apply(replace(pod, status=status))


class Owners:
    """Creates an equal pod in the place of each deleted pod that has a controller.

    A ReplicaSet, a Job and any kind but StatefulSet and DaemonSet do so as soon as the pod is being
    deleted. A DaemonSet's pod comes back only while its node exists; the owner of a static pod is
    its node, and no such pod comes back.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster: Final = cluster
        self._created = 0
        #: The key of the pod that a created pod replaces, by the key of the created pod.
        self.replaced: Final[dict[str, str]] = {}
        cluster.core.informers.pods.add_event_handler(
            on_update=self._updated,
            on_delete=lambda pod, final_state_unknown: self._lost(pod, is_gone=True),
        )

    def _updated(self, old: Pod, new: Pod) -> None:
        if new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
            self._lost(new, is_gone=False)

    def _lost(self, pod: Pod, *, is_gone: bool) -> None:
        """React to a pod that begins to end, or that is gone."""
        owner = pod.metadata.controller
        if owner is None or owner.kind == "Node":
            return
        node = self._cluster.find_node(pod.spec.node_name)
        was_replaced = is_gone and pod.metadata.deletion_timestamp is not None
        if owner.kind not in _KEEPS_NAMES:
            is_due = not was_replaced
        else:
            is_due = is_gone and (owner.kind != "DaemonSet" or node is not None)
        if is_due:
            self._cluster.after(0, functools.partial(self._create, pod, owner.kind))

    def _create(self, pod: Pod, kind: str) -> None:
        self._created += 1
        name = pod.metadata.name
        if kind not in _KEEPS_NAMES:
            name = f"{name.rpartition('-')[0] or name}-new{self._created}"
        metadata = replace(
            pod.metadata,
            name=name,
            uid=f"created-{self._created}",
            creation_timestamp=datetime.fromtimestamp(self._cluster.clock.now(), UTC),
            deletion_timestamp=None,
            finalizers=(),
        )
        status = PodStatus(resource_claim_statuses=pod.status.resource_claim_statuses)
        new = Pod(metadata, replace(pod.spec, node_name=""), status)
        self.replaced[new.key] = pod.key
        self._cluster.apply(new)
