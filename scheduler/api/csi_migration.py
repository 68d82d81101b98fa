"""In-tree volumes as the CSI drivers know them that have taken over from the in-tree plugins.

    in-tree plugin                  driver                       inline in pods, or in volumes
    kubernetes.io/aws-ebs           ebs.csi.aws.com              awsElasticBlockStore
    kubernetes.io/gce-pd            pd.csi.storage.gke.io        gcePersistentDisk
    kubernetes.io/azure-disk        disk.csi.azure.com           azureDisk
    kubernetes.io/cinder            cinder.csi.openstack.org     cinder
    kubernetes.io/portworx-volume   pxd.portworx.com             portworxVolume
    kubernetes.io/azure-file        file.csi.azure.com           azureFile
    kubernetes.io/vsphere-volume    csi.vsphere.vmware.com       vsphereVolume

Source: csi-translation-lib `translate.go`, `plugins/*.go`, v0.36.3.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.api.core import Volume
    from scheduler.api.storage import PersistentVolume

#: The in-tree plugins that CSI drivers have taken over from.
AWS_EBS: Final = "kubernetes.io/aws-ebs"
GCE_PD: Final = "kubernetes.io/gce-pd"
AZURE_DISK: Final = "kubernetes.io/azure-disk"
AZURE_FILE: Final = "kubernetes.io/azure-file"
CINDER: Final = "kubernetes.io/cinder"
PORTWORX: Final = "kubernetes.io/portworx-volume"
VSPHERE: Final = "kubernetes.io/vsphere-volume"

#: The driver that has taken over from each in-tree plugin.
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
    """A volume that cannot be what its CSI driver would need it to be."""


class _WithVolumeId(Protocol):
    @property
    def volume_id(self) -> str: ...


class _WithDiskUri(Protocol):
    @property
    def disk_uri(self) -> str: ...

    @property
    def kind(self) -> str | None: ...


def in_tree_plugin_of_inline_volume(volume: Volume) -> str | None:
    """The in-tree plugin behind a pod's volume, if a CSI driver has taken over from it."""
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
    """What the driver calls a pod's in-tree volume; None for those that are never attached.

    Raises `CsiTranslationError` for a volume that no driver could handle.
    """
    if volume.gce_persistent_disk is not None:
        return _gce_handle("zones", _UNSPECIFIED, volume.gce_persistent_disk.pd_name)
    return _handle(
        volume.aws_elastic_block_store, volume.azure_disk, volume.cinder, volume.portworx_volume
    )


def handle_of_volume(volume: PersistentVolume) -> str | None:
    """What the driver calls an in-tree volume; None for those that are never attached.

    Raises `CsiTranslationError` for a volume that no driver could handle.
    """
    spec = volume.spec
    if spec.gce_persistent_disk is not None:
        return _gce_handle(*_gce_place(volume), spec.gce_persistent_disk.pd_name)
    return _handle(spec.aws_elastic_block_store, spec.azure_disk, spec.cinder, spec.portworx_volume)


def _handle(
    ebs: _WithVolumeId | None,
    azure_disk: _WithDiskUri | None,
    cinder: _WithVolumeId | None,
    portworx: _WithVolumeId | None,
) -> str | None:
    if ebs is not None:
        return _ebs_handle(ebs.volume_id)
    if azure_disk is not None:
        kind = azure_disk.kind
        if kind is not None and kind.lower() != "managed":
            raise CsiTranslationError(f"kind({kind}) is not supported in csi migration")
        return azure_disk.disk_uri
    by_id = cinder or portworx
    return by_id.volume_id if by_id is not None else None


def _ebs_handle(name: str) -> str:
    """The bare id of a volume that may be given as `aws://zone/id`."""
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
    """Where a disk is: in a zone, or in a region if its label names several zones."""
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
