"""The volume controller and the provisioners: they bind claims, and create volumes for them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from scheduler.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.api.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from scheduler.api.volumes import (
    ANN_BIND_COMPLETED,
    ANN_SELECTED_NODE,
    bound_to_claim,
    claim_class,
    is_fully_bound,
)
from scheduler.client import NODES

if TYPE_CHECKING:
    from scheduler.api.core import Node
    from scheduler.api.storage import CSINode, PersistentVolumeClaim, StorageClass
    from scheduler.simulate.cluster import SimulatedCluster

_CLAIMS: Final = "persistentvolumeclaims"
_VOLUMES: Final = "persistentvolumes"
_ZONE: Final = "topology.kubernetes.io/zone"


class Volumes:
    """Binds a volume to the claim that it names, and provisions volumes within a moment."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster: Final = cluster
        by_kind = cluster.core.informers.by_kind
        if (claims := by_kind.get(_CLAIMS)) is not None:
            claims.add_event_handler(
                on_add=lambda claim, is_initial: self._claim_changed(claim),
                on_update=lambda old, new: self._claim_changed(new),
            )
        if (volumes := by_kind.get(_VOLUMES)) is not None:
            volumes.add_event_handler(on_update=lambda old, new: self._volume_changed(new))

    def _get(self, kind: str, name: str, namespace: str = "") -> Any:
        return self._cluster.api.objects(kind).get(name, namespace)

    def _claim_changed(self, claim: PersistentVolumeClaim) -> None:
        if not claim.spec.volume_name:
            metadata = claim.metadata
            work = functools.partial(self._provision, metadata.name, metadata.namespace)
            self._cluster.after(0, work)

    def _provision(self, name: str, namespace: str) -> None:
        """Create the volume of a claim, for the selected node or for a class that binds at once."""
        claim: PersistentVolumeClaim | None = self._get(_CLAIMS, name, namespace)
        if claim is None or claim.spec.volume_name:
            return
        storage_class: StorageClass | None = self._get("storageclasses", claim_class(claim))
        if storage_class is None:
            return
        selected = claim.metadata.annotations.get(ANN_SELECTED_NODE, "")
        if not selected and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return
        node: Node | None = self._get(NODES.plural, selected) if selected else None
        spec = PersistentVolumeSpec(
            capacity=claim.spec.resources.requests,
            access_modes=claim.spec.access_modes,
            storage_class_name=claim_class(claim),
            volume_mode=claim.spec.volume_mode,
            node_affinity=self._reach(node, storage_class.provisioner),
        )
        metadata = replace(
            claim.metadata, name=f"pvc-{claim.metadata.uid}", namespace="", annotations={}
        )
        volume, _ = bound_to_claim(PersistentVolume(metadata, spec), claim)
        self._cluster.apply(volume)
        self._bind(claim, volume)

    def _reach(self, node: Node | None, provisioner: str) -> VolumeNodeAffinity | None:
        """Return the nodes that reach a volume: the topology of the selected node."""
        if node is None:
            return None
        csi_node: CSINode | None = self._get("csinodes", node.metadata.name)
        drivers = csi_node.spec.drivers if csi_node is not None else ()
        keys = next((each.topology_keys for each in drivers if each.name == provisioner), (_ZONE,))
        labels = node.metadata.labels
        terms = tuple(
            NodeSelectorRequirement(key, "In", (labels[key],)) for key in keys if key in labels
        )
        if not terms:
            return None
        return VolumeNodeAffinity(NodeSelector((NodeSelectorTerm(match_expressions=terms),)))

    def _volume_changed(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is None:
            return
        claim = self._get(_CLAIMS, reference.name, reference.namespace)
        if claim is not None and not is_fully_bound(claim):
            self._cluster.after(0, functools.partial(self._bind, claim, volume))

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        stored: PersistentVolumeClaim | None = self._get(
            _CLAIMS, claim.metadata.name, claim.metadata.namespace
        )
        if stored is None or is_fully_bound(stored):
            return
        annotations = {**stored.metadata.annotations, ANN_BIND_COMPLETED: "yes"}
        self._cluster.apply(
            replace(
                stored,
                metadata=replace(stored.metadata, annotations=annotations),
                spec=replace(stored.spec, volume_name=volume.metadata.name),
                status=replace(stored.status, phase="Bound"),
            )
        )
