"""The objects, beside pods and nodes, that the reference rules of volumes read."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)


class VolumeObjects(NamedTuple):
    """Objects by kind; lookups are linear searches."""

    claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    classes: tuple[StorageClass, ...] = ()
    csi_nodes: tuple[CSINode, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        for claim in self.claims:
            if (claim.metadata.namespace, claim.metadata.name) == (namespace, name):
                return claim
        return None

    def volume(self, name: str) -> PersistentVolume | None:
        return next((v for v in self.volumes if v.metadata.name == name), None)

    def storage_class(self, name: str) -> StorageClass | None:
        return next((c for c in self.classes if c.metadata.name == name), None)

    def csi_node(self, name: str) -> CSINode | None:
        return next((n for n in self.csi_nodes if n.metadata.name == name), None)
