"""The owners of pods: they create a pod anew when it is deleted."""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from scheduler.api.core import Pod, PodStatus

if TYPE_CHECKING:
    from scheduler.api.core import OwnerReference
    from scheduler.simulate.cluster import SimulatedCluster

#: The owners that keep the name of a pod, so that the old pod must be gone first.
_KEEPS_NAMES: Final = frozenset({"StatefulSet", "DaemonSet"})
#: The owner of a static pod is its node: the kubelet creates the pod, and no scheduler.
_NODE: Final = "Node"


def controller_of(pod: Pod) -> OwnerReference | None:
    """Return the owner that creates a pod anew; None if no object does."""
    references = pod.metadata.owner_references
    return next((each for each in references if each.controller), None)


class Owners:
    """Creates an equal pod in the place of each deleted pod that has a controller.

    A ReplicaSet, a Job and any kind but StatefulSet and DaemonSet do so as soon as the pod is being
    deleted. A DaemonSet's pod comes back only while its node exists.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster: Final = cluster
        self._created = 0
        #: The key of the pod that a created pod replaces, by the key of the created pod.
        self.replaced: Final[dict[str, str]] = {}
        cluster.core.informers.pods.add_event_handler(
            on_update=self._on_update, on_delete=self._on_delete
        )

    def _on_update(self, old: Pod, new: Pod) -> None:
        begins = new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp
        owner = controller_of(new)
        if begins and owner is not None and owner.kind not in _KEEPS_NAMES:
            self._replace(new)

    def _on_delete(self, pod: Pod, *, final_state_unknown: bool) -> None:
        owner = controller_of(pod)
        was_deleting = pod.metadata.deletion_timestamp is not None
        if owner is not None and (owner.kind in _KEEPS_NAMES or not was_deleting):
            self._replace(pod)

    def _replace(self, pod: Pod) -> None:
        owner = controller_of(pod)
        assert owner is not None, "the caller has looked"
        if owner.kind == _NODE:
            return  # a static pod
        if owner.kind == "DaemonSet" and self._cluster.find_node(pod.spec.node_name) is None:
            return
        self._cluster.after(0, functools.partial(self._create, pod, owner.kind))

    def _create(self, pod: Pod, kind: str) -> None:
        metadata = pod.metadata
        name = metadata.name if kind in _KEEPS_NAMES else self._new_name(metadata.name)
        self._created += 1
        created = replace(
            metadata,
            name=name,
            uid=f"created-{self._created}",
            creation_timestamp=datetime.fromtimestamp(self._cluster.clock.now(), UTC),
            deletion_timestamp=None,
            finalizers=(),
        )
        claims = pod.status.resource_claim_statuses
        new = Pod(
            created, replace(pod.spec, node_name=""), PodStatus(resource_claim_statuses=claims)
        )
        self.replaced[new.key] = pod.key
        self._cluster.apply(new)

    def _new_name(self, name: str) -> str:
        return f"{name.rpartition('-')[0] or name}-new{self._created + 1}"
