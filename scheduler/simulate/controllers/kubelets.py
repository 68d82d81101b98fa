"""The kubelets of all nodes: they start bound pods, and end deleted ones."""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from scheduler.api.core import PodCondition

if TYPE_CHECKING:
    from scheduler.api.core import Pod
    from scheduler.simulate.cluster import SimulatedCluster

_STARTUP_SECONDS: Final = 1.0
_GRACE_SECONDS: Final = 30


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
            on_add=self._on_add, on_update=self._on_update, on_delete=self._on_delete
        )

    def _on_add(self, pod: Pod, *, is_initial: bool) -> None:
        if pod.metadata.deletion_timestamp is not None:
            self._end(pod)

    def _on_update(self, old: Pod, new: Pod) -> None:
        if new.metadata.deletion_timestamp is not None:
            if old.metadata.deletion_timestamp is None:
                self._end(new)
        elif new.spec.node_name and not old.spec.node_name:
            self.starting.add(new.metadata.uid)
            self._cluster.after(_STARTUP_SECONDS, functools.partial(self._started, new))

    def _on_delete(self, pod: Pod, *, final_state_unknown: bool) -> None:
        self.starting.discard(pod.metadata.uid)

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

    def _end(self, pod: Pod) -> None:
        seconds = pod.spec.termination_grace_period_seconds
        seconds = _GRACE_SECONDS if seconds is None else seconds
        if not pod.spec.node_name or pod.metadata.uid in self.starting:
            seconds = 0
        self._cluster.after(seconds, functools.partial(self._remove, pod))

    def _remove(self, pod: Pod) -> None:
        if self._cluster.find_pod(pod) is not None:
            self._cluster.remove(pod)
