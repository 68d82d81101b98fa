"""NodeVolumeLimits: `nodevolumelimits/csi.go`, csi-translation-lib."""

from __future__ import annotations

from collections import Counter

from scheduler.api.core import Node, Pod, Volume
from scheduler.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim
from tests.reference.cluster import UNRESOLVABLE, UNSCHEDULABLE, Cluster, Verdict
from tests.reference.volume_objects import VolumeObjects

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
GA_ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"

EBS, GCE = "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"
AZURE_DISK, AZURE_FILE = "kubernetes.io/azure-disk", "kubernetes.io/azure-file"
CINDER, PORTWORX = "kubernetes.io/cinder", "kubernetes.io/portworx-volume"
VSPHERE = "kubernetes.io/vsphere-volume"

DRIVER = {
    EBS: "ebs.csi.aws.com",
    GCE: "pd.csi.storage.gke.io",
    AZURE_DISK: "disk.csi.azure.com",
    AZURE_FILE: "file.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    PORTWORX: "pxd.portworx.com",
    VSPHERE: "csi.vsphere.vmware.com",
}


class CycleError(Exception):
    """The filter fails: upstream's status Error."""


class NotFound(Exception):
    """A claim of the new pod is missing."""


class Untranslatable(Exception):
    """No driver could handle the in-tree volume."""


def migration_on(csi_node: CSINode | None, plugin: str) -> bool:
    return csi_node is not None and plugin in (EBS, PORTWORX, GCE, AZURE_DISK, CINDER)


def ebs_id(name: str) -> str:
    if not name.startswith("aws://"):
        return name
    _, _, path = name.removeprefix("aws://").partition("/")
    found = path.strip("/")
    if not found.startswith("vol-") or "/" in found:
        raise Untranslatable(
            "failed to translate Kubernetes ID to EBS Volume ID "
            f"Invalid format for AWS volume ({name})"
        )
    return found


def managed(kind: str | None) -> None:
    if kind is not None and kind.lower() != "managed":
        raise Untranslatable(f"kind({kind}) is not supported in csi migration")


def inline(volume: Volume, csi_node: CSINode | None) -> tuple[str, str] | None:
    """Driver and handle of a migrated volume in a pod's spec."""
    if volume.aws_elastic_block_store:
        plugin = EBS
    elif volume.gce_persistent_disk:
        plugin = GCE
    elif volume.azure_disk:
        plugin = AZURE_DISK
    elif volume.cinder:
        plugin = CINDER
    elif volume.portworx_volume:
        plugin = PORTWORX
    else:
        return None
    if not migration_on(csi_node, plugin):
        return None
    try:
        return DRIVER[plugin], inline_handle(volume)
    except Untranslatable as error:
        raise CycleError(f"converting volume({volume.name}) from inline to csi: {error}") from error


def inline_handle(volume: Volume) -> str:
    if volume.aws_elastic_block_store:
        return ebs_id(volume.aws_elastic_block_store.volume_id)
    if volume.gce_persistent_disk:
        name = volume.gce_persistent_disk.pd_name
        return f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{name}"
    if volume.azure_disk:
        managed(volume.azure_disk.kind)
        return volume.azure_disk.disk_uri
    if volume.cinder:
        return volume.cinder.volume_id
    assert volume.portworx_volume
    return volume.portworx_volume.volume_id


def translated(volume: PersistentVolume, csi_node: CSINode | None) -> tuple[str, str] | None:
    """Driver and handle of a migrated volume."""
    spec = volume.spec
    if spec.aws_elastic_block_store and migration_on(csi_node, EBS):
        return DRIVER[EBS], ebs_id(spec.aws_elastic_block_store.volume_id)
    if spec.gce_persistent_disk and migration_on(csi_node, GCE):
        return DRIVER[GCE], gce_handle(volume, spec.gce_persistent_disk.pd_name)
    if spec.azure_disk and migration_on(csi_node, AZURE_DISK):
        managed(spec.azure_disk.kind)
        return DRIVER[AZURE_DISK], spec.azure_disk.disk_uri
    if spec.cinder and migration_on(csi_node, CINDER):
        return DRIVER[CINDER], spec.cinder.volume_id
    if spec.portworx_volume and migration_on(csi_node, PORTWORX):
        return DRIVER[PORTWORX], spec.portworx_volume.volume_id
    return None


def gce_handle(volume: PersistentVolume, name: str) -> str:
    labels = volume.metadata.labels
    zones = (labels.get(BETA_ZONE) or labels.get(GA_ZONE) or "").split("__")
    if len(zones) == 1:
        zone = zones[0] or "UNSPECIFIED"
        return f"projects/UNSPECIFIED/zones/{zone}/disks/{name}"
    if any(len(zone.split("-")) != 3 for zone in zones):
        raise Untranslatable(zones)
    regions = {zone.rsplit("-", 1)[0] for zone in zones}
    if len(regions) != 1:
        raise Untranslatable(regions)
    return f"projects/UNSPECIFIED/regions/{regions.pop()}/disks/{name}"


def behind_claim(
    claim: PersistentVolumeClaim, csi_node: CSINode | None, objects: VolumeObjects
) -> tuple[str, str] | None:
    name = claim.spec.volume_name
    volume = objects.volume(name) if name else None
    if volume is None:
        return from_class(claim, csi_node, objects)
    if volume.spec.csi is not None:
        return volume.spec.csi.driver, volume.spec.csi.volume_handle
    try:
        return translated(volume, csi_node)
    except Untranslatable:
        return None


def from_class(
    claim: PersistentVolumeClaim, csi_node: CSINode | None, objects: VolumeObjects
) -> tuple[str, str] | None:
    name = claim.metadata.annotations.get(BETA_CLASS, claim.spec.storage_class_name or "")
    storage_class = objects.storage_class(name) if name else None
    if storage_class is None:
        return None
    handle = f"random-{claim.metadata.namespace}/{claim.metadata.name}"
    provisioner = storage_class.provisioner
    if provisioner in DRIVER:
        return (DRIVER[provisioner], handle) if migration_on(csi_node, provisioner) else None
    return provisioner, handle


def attachable(
    pod: Pod, csi_node: CSINode | None, objects: VolumeObjects, *, is_new: bool
) -> set[tuple[str, str]]:
    """Raises NotFound, CycleError."""
    found: set[tuple[str, str]] = set()
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            name = f"{pod.metadata.name}-{volume.name}"
        else:
            in_tree = inline(volume, csi_node)
            if in_tree is not None:
                found.add(in_tree)
            continue
        if not name:
            raise CycleError("PersistentVolumeClaim had no name")
        claim = objects.claim(namespace, name)
        if claim is None:
            if not is_new:
                continue
            raise NotFound(
                f'looking up PVC {namespace}/{name}: persistentvolumeclaim "{name}" not found'
            )
        if volume.persistent_volume_claim is None:
            owners = [o.uid for o in claim.metadata.owner_references if o.controller]
            if pod.metadata.uid not in owners:
                raise CycleError(
                    f"PVC {namespace}/{name} was not created for pod "
                    f"{namespace}/{pod.metadata.name} (pod is not owner)"
                )
        behind = behind_claim(claim, csi_node, objects)
        if behind is not None and all(behind):
            found.add(behind)
    return found


def filter_node(pod: Pod, node: Node, cluster: Cluster, objects: VolumeObjects) -> Verdict | None:
    """Raises CycleError."""
    csi_node = objects.csi_node(node.metadata.name)
    try:
        new = attachable(pod, csi_node, objects, is_new=True)
    except NotFound as error:
        return UNRESOLVABLE, (str(error),)
    limits = {
        driver.name: driver.allocatable.count
        for driver in (csi_node.spec.drivers if csi_node else ())
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
    if not new or not limits:
        return None
    of_pods: set[tuple[str, str]] = set()
    for other in cluster.pods_on(node):
        of_pods |= attachable(other, csi_node, objects, is_new=False)
    attached = set(of_pods)
    for attachment in objects.attachments:
        spec = attachment.spec
        if spec.node_name == node.metadata.name and spec.source.persistent_volume_name:
            volume = objects.volume(spec.source.persistent_volume_name)
            if spec.attacher and volume is not None and volume.spec.csi is not None:
                attached.add((spec.attacher, volume.spec.csi.volume_handle))
    there = Counter(driver for driver, _ in attached)
    for driver, count in Counter(driver for driver, _ in new - of_pods).items():
        if driver in limits and there[driver] + count > limits[driver]:
            return UNSCHEDULABLE, ("node(s) exceed max volume count",)
    return None
