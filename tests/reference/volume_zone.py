"""VolumeZone: `volumezone/volume_zone.go`."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.api.core import Node, Pod
from tests.reference.cluster import UNRESOLVABLE, Verdict
from tests.reference.volume_objects import VolumeObjects

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"


class PvTopology(NamedTuple):
    key: str
    values: set[str]


class Rejected(Exception):
    """PreFilter rejects the pod."""


def pv_topologies(pod: Pod, objects: VolumeObjects) -> list[PvTopology]:
    """Raises Rejected."""
    topologies = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is None:
            continue
        name = volume.persistent_volume_claim.claim_name
        if not name:
            raise Rejected("PersistentVolumeClaim had no name")
        claim = objects.claim(pod.metadata.namespace, name)
        if claim is None:
            raise Rejected(f'persistentvolumeclaim "{name}" not found')
        if not claim.spec.volume_name:
            class_name = claim.spec.storage_class_name or ""
            class_name = claim.metadata.annotations.get(BETA_CLASS, class_name)
            if not class_name:
                raise Rejected("PersistentVolumeClaim had no pv name and storageClass name")
            storage_class = objects.storage_class(class_name)
            if storage_class is None:
                raise Rejected(f'storageclass.storage.k8s.io "{class_name}" not found')
            if storage_class.volume_binding_mode is None:
                raise Rejected(f'VolumeBindingMode not set for StorageClass "{class_name}"')
            if storage_class.volume_binding_mode == "WaitForFirstConsumer":
                continue
            raise Rejected("PersistentVolume had no name")
        found = objects.volume(claim.spec.volume_name)
        if found is None:
            raise Rejected(f'persistentvolume "{claim.spec.volume_name}" not found')
        for key in (BETA_ZONE, BETA_REGION, ZONE, REGION):
            if key not in found.metadata.labels:
                continue
            values = [part.strip() for part in found.metadata.labels[key].split("__")]
            if all(values):
                topologies.append(PvTopology(key, set(values)))
    return topologies


def filter_node(pod: Pod, node: Node, objects: VolumeObjects) -> Verdict | None:
    try:
        topologies = pv_topologies(pod, objects)
    except Rejected as rejected:
        return UNRESOLVABLE, (str(rejected),)
    labels = node.metadata.labels
    if not any(key in labels for key in (BETA_ZONE, BETA_REGION, ZONE, REGION)):
        return None
    for key, values in topologies:
        value = labels.get(key)
        if value is None and key == BETA_ZONE:
            value = labels.get(ZONE)
        if value is None and key == BETA_REGION:
            value = labels.get(REGION)
        if value is None or value not in values:
            return UNRESOLVABLE, ("node(s) had no available volume zone",)
    return None
