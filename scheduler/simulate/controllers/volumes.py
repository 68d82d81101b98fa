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

if TYPE_CHECKING:
    from scheduler.api.storage import PersistentVolumeClaim, StorageClass
    from scheduler.assembly.simulated_cluster import SimulatedCluster

_CLAIMS: Final = "persistentvolumeclaims"
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
        if (volumes := by_kind.get("persistentvolumes")) is not None:
            volumes.add_event_handler(on_update=lambda old, new: self._volume_changed(new))

    def _find(self, kind: str, name: str, namespace: str = "") -> Any:
        return self._cluster.api.objects(kind).get(name, namespace)

    def _claim_changed(self, claim: PersistentVolumeClaim) -> None:
        if not claim.spec.volume_name:
            self._cluster.after(0, functools.partial(self._provision, claim))

    def _provision(self, changed: PersistentVolumeClaim) -> None:
        """Create the volume of a claim, for the selected node or for a class that binds at once."""
        metadata = changed.metadata
        claim: PersistentVolumeClaim | None = self._find(_CLAIMS, metadata.name, metadata.namespace)
        if claim is None or claim.spec.volume_name:
            return
        storage_class: StorageClass | None = self._find("storageclasses", claim_class(claim))
        selected = claim.metadata.annotations.get(ANN_SELECTED_NODE, "")
        if storage_class is None or (
            not selected and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        ):
            return
        spec = PersistentVolumeSpec(
            capacity=claim.spec.resources.requests,
            access_modes=claim.spec.access_modes,
            storage_class_name=claim_class(claim),
            volume_mode=claim.spec.volume_mode,
            node_affinity=self._reach(selected),
        )
        name = f"pvc-{claim.metadata.uid}"
        metadata = replace(claim.metadata, name=name, namespace="", annotations={})
        volume, _ = bound_to_claim(PersistentVolume(metadata, spec), claim)
        self._cluster.apply(volume)
        self._bind(claim, volume)

    def _reach(self, node_name: str) -> VolumeNodeAffinity | None:
        """Return the nodes that reach a volume: the zone of the selected node."""
        node = self._cluster.find_node(node_name)
        if node is None or (zone := node.metadata.labels.get(_ZONE)) is None:
            return None
        in_zone = NodeSelectorRequirement(_ZONE, "In", (zone,))
        return VolumeNodeAffinity(NodeSelector((NodeSelectorTerm((in_zone,)),)))

    def _volume_changed(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is not None:
            claim = self._find(_CLAIMS, reference.name, reference.namespace)
            if claim is not None:
                self._cluster.after(0, functools.partial(self._bind, claim, volume))

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        metadata = claim.metadata
        stored: PersistentVolumeClaim | None = self._find(
            _CLAIMS, metadata.name, metadata.namespace
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
