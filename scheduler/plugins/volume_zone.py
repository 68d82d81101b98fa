"""VolumeZone: reject nodes outside the zones and regions of the pod's volumes.

The labels of a bound volume may name its zones and regions, several of them joined by `__`. A node
with any zone or region label must have one of these values. Claims that are bound when the pod has
a node are ignored.
Mirrors `pkg/scheduler/framework/plugins/volumezone/volume_zone.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.api.core import Node
from scheduler.api.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.api.volumes import claim_class
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin, Remedy
from scheduler.framework.status import Rejections, Status, reject, skip, unresolvable
from scheduler.plugins._queueing_hints import queue_for_named_claim, volumes_and_namespace

if TYPE_CHECKING:
    from scheduler.snapshot.columns import BoolArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo

_NO_AVAILABLE_ZONE: Final = unresolvable("node(s) had no available volume zone")
_CLAIM_WITHOUT_NAME: Final = unresolvable("PersistentVolumeClaim had no name")
_NEITHER_VOLUME_NOR_CLASS: Final = unresolvable(
    "PersistentVolumeClaim had no pv name and storageClass name"
)
_NOT_BOUND: Final = unresolvable("PersistentVolume had no name")

#: The stable label that a node may have instead of a deprecated one.
_STABLE_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_TOPOLOGY_LABELS: Final = (*_STABLE_LABELS, *_STABLE_LABELS.values())
_DELIMITER: Final = "__"


class _Topology(NamedTuple):
    """A requirement of a volume: the node's label must have one of these values."""

    volume: str
    key: str
    values: frozenset[str]


_TOPOLOGIES: Final = StateKey[tuple[_Topology, ...]]("PreFilterVolumeZone")


class VolumeZone(Plugin):
    """Keep pods in the zones and regions of their bound volumes."""

    ignores_resizes = True
    reads = ("persistentvolumes", "persistentvolumeclaims", "storageclasses")

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip pods whose volumes name no zone or region."""
        topologies = self._topologies_of(pod)
        if isinstance(topologies, Status):
            return topologies
        if not topologies:
            return skip()
        state.write(_TOPOLOGIES, topologies)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes whose zone or region labels do not match every volume."""
        if not pod.spec.volumes:
            return None
        topologies = state.find(_TOPOLOGIES)
        if topologies is None:  # a profile may have only the filter
            wanted = self._topologies_of(pod)
            if isinstance(wanted, Status):
                return reject(np.ones(len(nodes), dtype=np.bool_), wanted)
            topologies = wanted
        if not topologies:
            return None
        elsewhere = np.zeros(len(nodes), dtype=np.bool_)
        for topology in topologies:
            elsewhere |= ~_within(topology, nodes)
        return reject(elsewhere & _has_topology(nodes), _NO_AVAILABLE_ZONE)

    def remedies(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[Remedy]:
        """Name the volumes in other zones or regions than the node."""
        topologies = state.find(_TOPOLOGIES) or self._topologies_of(pod)
        if isinstance(topologies, Status):
            return []
        labels = node.labels
        remedies = []
        for volume, key, values in topologies:
            found = labels.get(key, labels.get(_STABLE_LABELS.get(key, key)))
            if found not in values:
                name = key.rpartition("/")[2]
                here = f"has no {name}" if found is None else f"is in {found}"
                wanted = " or ".join(sorted(values))
                remedies.append(Remedy(f"volume {volume} is in {name} {wanted}, the node {here}"))
        return remedies

    def _topologies_of(self, pod: PodInfo) -> tuple[_Topology, ...] | Status:
        """Return the requirements of the pod's bound volumes, or the status that rejects the pod.

        Claims of ephemeral volumes are ignored.
        """
        topologies: list[_Topology] = []
        for name in pod.volumes.claims:
            volume = self._volume_of(name, pod.namespace)
            if isinstance(volume, Status):
                return volume
            if volume is not None:
                topologies.extend(_topologies(volume))
        return tuple(topologies)

    def _volume_of(self, claim_name: str, namespace: str) -> PersistentVolume | Status | None:
        """Return the claim's volume, or a rejection; None if the claim waits for its pod's node."""
        if not claim_name:
            return _CLAIM_WITHOUT_NAME
        claim = self.handle.lister(PersistentVolumeClaim).get(claim_name, namespace)
        if claim is None:
            return unresolvable(f'persistentvolumeclaim "{claim_name}" not found')
        volume_name = claim.spec.volume_name
        if not volume_name:
            return self._status_of_unbound(claim)
        volume = self.handle.lister(PersistentVolume).get(volume_name)
        if volume is None:
            return unresolvable(f'persistentvolume "{volume_name}" not found')
        return volume

    def _status_of_unbound(self, claim: PersistentVolumeClaim) -> Status | None:
        class_name = claim_class(claim)
        if not class_name:
            return _NEITHER_VOLUME_NOR_CLASS
        storage_class = self.handle.lister(StorageClass).get(class_name)
        if storage_class is None:
            return unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
        mode = storage_class.volume_binding_mode
        if mode is None:
            return unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"')
        return None if mode == WAIT_FOR_FIRST_CONSUMER else _NOT_BOUND

    def events_to_register(self) -> list[ClusterEventWithHint]:
        add_or_update = ActionType.ADD | ActionType.UPDATE
        volume_change = self.is_schedulable_after_persistent_volume_change
        return [
            on(StorageClass, ActionType.ADD, self.is_schedulable_after_storage_class_added),
            on(Node, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(PersistentVolumeClaim, add_or_update, queue_for_named_claim),
            on(PersistentVolume, add_or_update, volume_change),
        ]

    def is_schedulable_after_storage_class_added(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if claims of the class wait for their pod: such claims do not reject it."""
        _, added = as_kind(StorageClass, None, new)
        return QueueingHint(
            added is not None and added.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        )

    def is_schedulable_after_persistent_volume_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the volume is new or its zone or region labels changed."""
        original, modified = as_kind(PersistentVolume, old, new)
        if original is None:
            return QueueingHint.QUEUE
        now = _topologies(modified) if modified is not None else []
        return QueueingHint(_topologies(original) != now)

    hints_depend_on = staticmethod(volumes_and_namespace)


def _topologies(volume: PersistentVolume) -> list[_Topology]:
    """Return the requirements of a volume's labels. A label with an empty value is ignored."""
    labels = volume.metadata.labels
    topologies = []
    for key in _TOPOLOGY_LABELS:
        if key in labels:
            values = frozenset(value.strip() for value in labels[key].split(_DELIMITER))
            if "" not in values:
                topologies.append(_Topology(volume.metadata.name, key, values))
    return topologies


def _within(topology: _Topology, nodes: Nodes) -> BoolArray:
    """Return the nodes that meet the requirement, by the label or its stable name."""
    labels = nodes.labels(topology.key)
    within = labels.isin(topology.values)
    stable = _STABLE_LABELS.get(topology.key)
    if stable is not None:
        within = within | (~labels.present & nodes.labels(stable).isin(topology.values))
    return within


def _has_topology(nodes: Nodes) -> BoolArray:
    """Return the nodes with a zone or region label. Nodes without any are never rejected."""
    has_any = np.zeros(len(nodes), dtype=np.bool_)
    for key in _TOPOLOGY_LABELS:
        has_any |= nodes.labels(key).present
    return has_any
