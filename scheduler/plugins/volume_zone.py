"""VolumeZone: a pod goes to a zone where its volumes are.

A bound volume may say in its labels which zones and regions it can be reached from, several of them
joined by `__`. A node that has any such label of its own must have one of those values. Volumes
that are yet to be made where the pod goes say nothing here.
Mirrors `pkg/scheduler/framework/plugins/volumezone/volume_zone.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from scheduler.api.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.api.volumes import claim_class
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    as_kind,
)
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Rejections, Status, reject, skip, unresolvable
from scheduler.plugins._queueing_hints import queue_for_claim, volumes_and_namespace

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.snapshot.columns import BoolArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_NO_AVAILABLE_ZONE: Final = unresolvable("node(s) had no available volume zone")
_CLAIM_WITHOUT_NAME: Final = unresolvable("PersistentVolumeClaim had no name")
_NEITHER_VOLUME_NOR_CLASS: Final = unresolvable(
    "PersistentVolumeClaim had no pv name and storageClass name"
)
_NOT_BOUND: Final = unresolvable("PersistentVolume had no name")

#: What a node may be asked in place of a label that is out of use.
_SUCCESSORS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_TOPOLOGY_LABELS: Final = (*_SUCCESSORS, *_SUCCESSORS.values())
_DELIMITER: Final = "__"


class _Topology(NamedTuple):
    """Where a volume can be reached: one of these values of a label."""

    volume: str
    key: str
    values: frozenset[str]


_TOPOLOGIES: Final = StateKey[tuple[_Topology, ...]]("PreFilterVolumeZone")


class VolumeZone(Plugin):
    """Keep a pod in the zones and regions of its bound volumes."""

    reads = ("persistentvolumes", "persistentvolumeclaims", "storageclasses")

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Find out where the pod's volumes are; skip pods whose volumes say nothing of it."""
        topologies = self._topologies_of(pod)
        if isinstance(topologies, Status):
            return topologies
        if not topologies:
            return skip()
        state.write(_TOPOLOGIES, topologies)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes with zone labels that are not those of every volume."""
        if not pod.spec.volumes:
            return None
        topologies = state.find(_TOPOLOGIES)
        if topologies is None:  # a profile may have only the filter
            found = self._topologies_of(pod)
            if isinstance(found, Status):
                return reject(np.ones(len(nodes), dtype=np.bool_), found)
            topologies = found
        if not topologies:
            return None
        elsewhere = np.zeros(len(nodes), dtype=np.bool_)
        for topology in topologies:
            elsewhere |= ~_within(topology, nodes)
        return reject(elsewhere & _has_topology(nodes), _NO_AVAILABLE_ZONE)

    def _topologies_of(self, pod: PodInfo) -> tuple[_Topology, ...] | Status:
        """Where the pod's bound volumes are, or why that cannot be told."""
        topologies: list[_Topology] = []
        # Those that the pod names itself; claims made for ephemeral volumes do not count here.
        for name in pod.volumes.claims:
            volume = self._volume_of(name, pod.namespace)
            if isinstance(volume, Status):
                return volume
            if volume is not None:
                topologies.extend(_topologies(volume))
        return tuple(topologies)

    def _volume_of(self, claim_name: str, namespace: str) -> PersistentVolume | Status | None:
        """The volume a claim is bound to; None for one that waits for a pod to be placed."""
        if not claim_name:
            return _CLAIM_WITHOUT_NAME
        found = self.handle.lister("persistentvolumeclaims").get(claim_name, namespace)
        if found is None:
            return unresolvable(f'persistentvolumeclaim "{claim_name}" not found')
        claim = cast("PersistentVolumeClaim", found)
        volume_name = claim.spec.volume_name
        if not volume_name:
            return self._verdict_on_unbound(claim)
        volume = self.handle.lister("persistentvolumes").get(volume_name)
        if volume is None:
            return unresolvable(f'persistentvolume "{volume_name}" not found')
        return cast("PersistentVolume", volume)

    def _verdict_on_unbound(self, claim: PersistentVolumeClaim) -> Status | None:
        class_name = claim_class(claim)
        if not class_name:
            return _NEITHER_VOLUME_NOR_CLASS
        found = self.handle.lister("storageclasses").get(class_name)
        if found is None:
            return unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
        mode = cast("StorageClass", found).volume_binding_mode
        if mode is None:
            return unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"')
        return None if mode == WAIT_FOR_FIRST_CONSUMER else _NOT_BOUND

    def events_to_register(self) -> list[ClusterEventWithHint]:
        added_or_changed = ActionType.ADD | ActionType.UPDATE
        node_change = ClusterEvent(
            EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        )
        claim_change = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, added_or_changed)
        volume_change = ClusterEvent(EventResource.PERSISTENT_VOLUME, added_or_changed)
        return [
            ClusterEventWithHint(
                ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD),
                self.is_schedulable_after_storage_class_added,
            ),
            ClusterEventWithHint(node_change),
            ClusterEventWithHint(
                claim_change, self.is_schedulable_after_persistent_volume_claim_change
            ),
            ClusterEventWithHint(volume_change, self.is_schedulable_after_persistent_volume_change),
        ]

    def is_schedulable_after_storage_class_added(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if claims of the class wait for their pod: only then is an unbound one no bar."""
        _, added = as_kind(StorageClass, None, new)
        return QueueingHint(
            added is not None and added.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        )

    def is_schedulable_after_persistent_volume_claim_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the pod names the claim."""
        return queue_for_claim(pod, old, new, names=pod.volumes.claims)

    def is_schedulable_after_persistent_volume_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if a volume is new, or is now said to be elsewhere."""
        original, modified = as_kind(PersistentVolume, old, new)
        if original is None:
            return QueueingHint.QUEUE
        now = _topologies(modified) if modified is not None else []
        return QueueingHint(_topologies(original) != now)

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        return volumes_and_namespace(pod)


def _topologies(volume: PersistentVolume) -> list[_Topology]:
    """Where a volume's labels place it. A label with an empty name among its values is ignored."""
    labels = volume.metadata.labels
    topologies = []
    for key in _TOPOLOGY_LABELS:
        if key in labels:
            values = frozenset(value.strip() for value in labels[key].split(_DELIMITER))
            if "" not in values:
                topologies.append(_Topology(volume.metadata.name, key, values))
    return topologies


def _within(topology: _Topology, nodes: Nodes) -> BoolArray:
    """Which nodes have one of the values, be it under the label's present name."""
    labels = nodes.labels(topology.key)
    within = labels.isin(topology.values)
    successor = _SUCCESSORS.get(topology.key)
    if successor is not None:
        within = within | (~labels.present & nodes.labels(successor).isin(topology.values))
    return within


def _has_topology(nodes: Nodes) -> BoolArray:
    """Which nodes have a zone or region label at all. Those without are in a cluster of one."""
    has_any = np.zeros(len(nodes), dtype=np.bool_)
    for key in _TOPOLOGY_LABELS:
        has_any |= nodes.labels(key).present
    return has_any
