"""Translation of in-tree volumes to volumes of the CSI drivers that replace the in-tree plugins.

    in-tree plugin                  driver                       inline in pods, or in volumes
    kubernetes.io/aws-ebs           ebs.csi.aws.com              awsElasticBlockStore
    kubernetes.io/gce-pd            pd.csi.storage.gke.io        gcePersistentDisk
    kubernetes.io/azure-disk        disk.csi.azure.com           azureDisk
    kubernetes.io/cinder            cinder.csi.openstack.org     cinder
    kubernetes.io/portworx-volume   pxd.portworx.com             portworxVolume
    kubernetes.io/azure-file        file.csi.azure.com           azureFile
    kubernetes.io/vsphere-volume    csi.vsphere.vmware.com       vsphereVolume

A node's CSINode lists the plugins that are migrated there. Drivers have zone labels of their own,
so that the node affinity of a volume is translated as well.
Source: csi-translation-lib `translate.go`, `plugins/*.go`, v0.36.3.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import msgspec

from scheduler.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.api.storage import VolumeNodeAffinity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.api.core import Volume
    from scheduler.api.storage import CSINode, PersistentVolume, PersistentVolumeSpec

#: In-tree plugins with a CSI driver as replacement.
AWS_EBS: Final = "kubernetes.io/aws-ebs"
GCE_PD: Final = "kubernetes.io/gce-pd"
AZURE_DISK: Final = "kubernetes.io/azure-disk"
AZURE_FILE: Final = "kubernetes.io/azure-file"
CINDER: Final = "kubernetes.io/cinder"
PORTWORX: Final = "kubernetes.io/portworx-volume"
VSPHERE: Final = "kubernetes.io/vsphere-volume"

#: The driver that replaces each in-tree plugin.
CSI_DRIVERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        AWS_EBS: "ebs.csi.aws.com",
        GCE_PD: "pd.csi.storage.gke.io",
        AZURE_DISK: "disk.csi.azure.com",
        AZURE_FILE: "file.csi.azure.com",
        CINDER: "cinder.csi.openstack.org",
        PORTWORX: "pxd.portworx.com",
        VSPHERE: "csi.vsphere.vmware.com",
    }
)

_BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_ZONE: Final = "topology.kubernetes.io/zone"
_ZONES_DELIMITER: Final = "__"
_UNSPECIFIED: Final = "UNSPECIFIED"
_EBS_VOLUME: Final = re.compile(r"vol-[^/]*")


class CsiTranslationError(ValueError):
    """A volume cannot be translated for its CSI driver."""


def in_tree_plugin_of_inline_volume(volume: Volume) -> str | None:
    """Return the in-tree plugin of a pod's volume if a CSI driver replaces it."""
    sources = (
        (volume.aws_elastic_block_store, AWS_EBS),
        (volume.gce_persistent_disk, GCE_PD),
        (volume.azure_disk, AZURE_DISK),
        (volume.cinder, CINDER),
        (volume.portworx_volume, PORTWORX),
        (volume.azure_file, AZURE_FILE),
        (volume.vsphere_volume, VSPHERE),
    )
    return next((plugin for source, plugin in sources if source is not None), None)


def handle_of_inline_volume(volume: Volume) -> str | None:
    """Return the driver's volume handle for a pod's in-tree volume; None if never attached.

    Raises `CsiTranslationError`.
    """
    if volume.gce_persistent_disk is not None:
        return _gce_handle("zones", _UNSPECIFIED, volume.gce_persistent_disk.pd_name)
    return _handle(volume)


def handle_of_volume(volume: PersistentVolume) -> str | None:
    """Return the driver's volume handle for an in-tree volume; None if never attached.

    Raises `CsiTranslationError`.
    """
    spec = volume.spec
    if spec.gce_persistent_disk is not None:
        return _gce_handle(*_gce_place(volume), spec.gce_persistent_disk.pd_name)
    return _handle(spec)


def _handle(volume: Volume | PersistentVolumeSpec) -> str | None:
    if volume.aws_elastic_block_store is not None:
        return _ebs_handle(volume.aws_elastic_block_store.volume_id)
    if (azure_disk := volume.azure_disk) is not None:
        kind = azure_disk.kind
        if kind is not None and kind.lower() != "managed":
            raise CsiTranslationError(f"kind({kind}) is not supported in csi migration")
        return azure_disk.disk_uri
    by_id = volume.cinder or volume.portworx_volume
    return by_id.volume_id if by_id is not None else None


def _ebs_handle(name: str) -> str:
    """Return the id of a volume that may be given as `aws://zone/id`."""
    if not name.startswith("aws://"):
        return name
    path = unquote(urlsplit(name).path).strip("/")
    if not _EBS_VOLUME.fullmatch(path):
        raise CsiTranslationError(
            "failed to translate Kubernetes ID to EBS Volume ID "
            f"Invalid format for AWS volume ({name})"
        )
    return path


def _gce_handle(kind_of_place: str, place: str, disk: str) -> str:
    return f"projects/{_UNSPECIFIED}/{kind_of_place}/{place}/disks/{disk}"


def _gce_place(volume: PersistentVolume) -> tuple[str, str]:
    """Return `zones` and the disk's zone, or `regions` and its region if it has several zones."""
    labels = volume.metadata.labels
    zones = (labels.get(_BETA_ZONE) or labels.get(_ZONE, "")).split(_ZONES_DELIMITER)
    if len(zones) > 1:
        return "regions", _gce_region(zones)
    return "zones", zones[0] or _UNSPECIFIED


def _gce_region(zones: Sequence[str]) -> str:
    failed = "failed to get region from zones"
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise CsiTranslationError(
                f"{failed}: zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, "
                f"got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise CsiTranslationError(
            f"{failed}: multiple or no regions gotten from zones, got: map[{listed}]"
        )
    return regions.pop()


#: Annotation of a CSINode: the in-tree plugins that are migrated on the node, comma-separated.
MIGRATED_PLUGINS_ANNOTATION: Final = "storage.alpha.kubernetes.io/migrated-plugins"

_REGION: Final = "topology.kubernetes.io/region"
_BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"


#: The zone label of the driver by plugin. Affinities of other plugins are not translated.
_TOPOLOGY_KEYS: Final = {
    AWS_EBS: "topology.ebs.csi.aws.com/zone",
    GCE_PD: "topology.gke.io/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}


def in_tree_plugin(spec: PersistentVolumeSpec) -> str | None:
    """Return the in-tree plugin of a volume if it can be migrated on nodes."""
    sources = (
        (spec.gce_persistent_disk, GCE_PD),
        (spec.aws_elastic_block_store, AWS_EBS),
        (spec.cinder, CINDER),
        (spec.azure_disk, AZURE_DISK),
        (spec.portworx_volume, PORTWORX),
    )
    return next((plugin for source, plugin in sources if source is not None), None)


def migrated_plugins(csi_node: CSINode) -> frozenset[str]:
    """Return the in-tree plugins that are migrated on the node."""
    names = csi_node.metadata.annotations.get(MIGRATED_PLUGINS_ANNOTATION, "")
    return frozenset(names.split(",")) if names else frozenset()


def migrated_node_affinity(volume: PersistentVolume, plugin: str) -> VolumeNodeAffinity | None:
    """Return the node affinity of an in-tree volume with the zone label of its driver.

    Raises `CsiTranslationError`. Source: `translateTopologyFromInTreeToCSI`.
    """
    handle_of_volume(volume)
    key = _TOPOLOGY_KEYS.get(plugin)
    if key is None:
        return volume.spec.node_affinity
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    terms = required.node_selector_terms if required is not None else ()
    zone, region = _labels_in_use(terms, volume)
    if _has_values(terms, zone):
        terms = _renamed(terms, zone, key)
    else:
        label = volume.metadata.labels.get(zone)
        zones = {name.strip() for name in label.split(_ZONES_DELIMITER)} if label else set()
        zones.discard("")
        if zones:
            terms = _with_zones(terms, key, tuple(sorted(zones)))
    if region == _BETA_REGION and _has_values(terms, region):
        terms = _renamed(terms, region, _REGION)
    if required is None and not terms:
        return affinity
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))


def _labels_in_use(
    terms: tuple[NodeSelectorTerm, ...], volume: PersistentVolume
) -> tuple[str, str]:
    """Return the keys of the zone and region labels that the affinity or the labels use."""
    in_terms = {e.key for term in terms for e in term.match_expressions}
    for keys in (in_terms, volume.metadata.labels):
        if _ZONE in keys:
            return _ZONE, _REGION
        if _BETA_ZONE in keys:
            return _BETA_ZONE, _BETA_REGION
    return _ZONE, _REGION


def _has_values(terms: tuple[NodeSelectorTerm, ...], key: str) -> bool:
    return any(e.key == key and e.values for term in terms for e in term.match_expressions)


def _renamed(
    terms: tuple[NodeSelectorTerm, ...], old: str, new: str
) -> tuple[NodeSelectorTerm, ...]:
    replace = msgspec.structs.replace
    return tuple(
        replace(
            term,
            match_expressions=tuple(
                replace(e, key=new) if e.key == old else e for e in term.match_expressions
            ),
        )
        for term in terms
    )


def _with_zones(
    terms: tuple[NodeSelectorTerm, ...], key: str, zones: tuple[str, ...]
) -> tuple[NodeSelectorTerm, ...]:
    zone = NodeSelectorRequirement(key=key, operator="In", values=zones)
    return tuple(
        msgspec.structs.replace(term, match_expressions=(*term.match_expressions, zone))
        for term in terms or (NodeSelectorTerm(),)
    )
