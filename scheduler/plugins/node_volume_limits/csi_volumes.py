"""The CSI volumes of a pod that must be attached, and their drivers.

    pod volume -> claim -> volume -> driver and handle   bound; in-tree volumes translated
                      `--> class  -> its provisioner     not bound: the claim is the handle
    pod volume -> driver and handle                      inline in-tree volume

Source: `filterAttachableVolumes`, `getCSIDriverInfo` in `nodevolumelimits/csi.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.api.volumes import claim_class, claim_name, is_for_pod
from scheduler.config.versions import SchedulerVersion
from scheduler.plugins._csi_translation import (
    AZURE_FILE,
    CSI_DRIVERS,
    PORTWORX,
    VSPHERE,
    CsiTranslationError,
    handle_of_inline_volume,
    handle_of_volume,
    in_tree_plugin,
    in_tree_plugin_of_inline_volume,
    migrated_plugins,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.api.core import Pod, Volume
    from scheduler.api.storage import CSINode
    from scheduler.framework.handle import Handle

#: The kinds of objects that are looked up.
CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
CLASSES: Final = "storageclasses"

#: In-tree plugins whose volumes are attached by CSI drivers.
_MIGRATED: Final = frozenset(CSI_DRIVERS) - {AZURE_FILE, VSPHERE}
_PORTWORX_GATE: Final = "CSIMigrationPortworx"


class AttachableVolumeError(Exception):
    """The volumes of a pod are unknown; upstream's text.

    AttachableVolumeError
    └── ClaimNotFoundError: the pod waits for the claim
    """


class ClaimNotFoundError(AttachableVolumeError):
    """A claim of the pod to be scheduled does not exist."""


class CsiVolume(NamedTuple):
    """A volume by its driver and handle."""

    driver: str
    #: The driver's volume handle, or namespace and name of a claim that is not bound yet.
    handle: str | tuple[str, str]


#: An object that was looked up: the plural of its kind and its key, `namespace/name` or `name`.
Lookup = tuple[str, str]


#: In-tree plugins whose volumes count on a node.
Migrated = frozenset[str]


def migration_rule(handle: Handle) -> Callable[[CSINode | None], Migrated]:
    """Return how the version finds the in-tree plugins whose volumes count on a node."""
    if handle.version >= SchedulerVersion.V1_36:
        return _all_migrated
    return _as_listed if _PORTWORX_GATE in handle.feature_gates else _without_portworx


def _all_migrated(csi_node: CSINode | None) -> Migrated:
    return frozenset() if csi_node is None else _MIGRATED


def _as_listed(csi_node: CSINode | None) -> Migrated:
    """Return the plugins, with Portworx if the kubelet lists it (v1.35)."""
    is_listed = csi_node is not None and PORTWORX in migrated_plugins(csi_node)
    return _all_migrated(csi_node) if is_listed else _without_portworx(csi_node)


def _without_portworx(csi_node: CSINode | None) -> Migrated:
    return _all_migrated(csi_node) - {PORTWORX}


class CsiVolumes:
    """Find the CSI volumes of pods.

    `migrated` are the in-tree plugins whose volumes count, see `migration_rule`.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle: Final = handle

    def of_new_pod(self, pod: Pod, migrated: Migrated) -> frozenset[CsiVolume]:
        """Return the volumes of a pod to be scheduled; raises `AttachableVolumeError`."""
        return self._of_pod(pod, migrated, set(), is_new=True)

    def of_running_pod(
        self, pod: Pod, migrated: Migrated, lookups: set[Lookup]
    ) -> frozenset[CsiVolume]:
        """Return the volumes of a pod on a node with a CSINode; raises `AttachableVolumeError`.

        Adds all objects looked up to `lookups`.
        """
        return self._of_pod(pod, migrated, lookups, is_new=False)

    def attached(self, driver: str, volume_name: str, lookups: set[Lookup]) -> CsiVolume | None:
        """Return the volume of a VolumeAttachment; None if it is no CSI volume."""
        volume = self._volume(volume_name, lookups)
        if not driver or volume is None or volume.spec.csi is None:
            return None
        return CsiVolume(driver, volume.spec.csi.volume_handle)

    def _of_pod(
        self, pod: Pod, migrated: Migrated, lookups: set[Lookup], *, is_new: bool
    ) -> frozenset[CsiVolume]:
        volumes: set[CsiVolume] = set()
        for volume in pod.spec.volumes:
            name = claim_name(pod, volume)
            if name is None:
                attached = _inline(volume, migrated)
            else:
                claim = self._claim(pod, volume, name, lookups, is_new=is_new)
                attached = None
                if claim is not None:
                    attached = self._volume_of_claim(claim, migrated, lookups)
            if attached is not None:
                volumes.add(attached)
        return frozenset(volumes)

    def _claim(
        self, pod: Pod, volume: Volume, name: str, lookups: set[Lookup], *, is_new: bool
    ) -> PersistentVolumeClaim | None:
        if not name:
            raise AttachableVolumeError("PersistentVolumeClaim had no name")
        namespace = pod.metadata.namespace
        lookups.add((CLAIMS, f"{namespace}/{name}"))
        found = self._handle.lister(PersistentVolumeClaim).get(name, namespace)
        if found is None:
            if is_new:
                raise ClaimNotFoundError(
                    f'looking up PVC {namespace}/{name}: persistentvolumeclaim "{name}" not found'
                )
            return None
        claim = found
        if volume.persistent_volume_claim is None and not is_for_pod(claim, pod):
            raise AttachableVolumeError(
                f"PVC {namespace}/{name} was not created for pod "
                f"{namespace}/{pod.metadata.name} (pod is not owner)"
            )
        return claim

    def _volume_of_claim(
        self, claim: PersistentVolumeClaim, migrated: Migrated, lookups: set[Lookup]
    ) -> CsiVolume | None:
        """Return the claim's volume; by its storage class if the volume does not exist."""
        name = claim.spec.volume_name
        volume = self._volume(name, lookups) if name else None
        if volume is None:
            return self._future_volume(claim, migrated, lookups)
        csi = volume.spec.csi
        if csi is not None:
            driver, handle = csi.driver, csi.volume_handle
        else:
            driver, handle = _translated(volume, migrated)
        return CsiVolume(driver, handle) if driver and handle else None

    def _future_volume(
        self, claim: PersistentVolumeClaim, migrated: Migrated, lookups: set[Lookup]
    ) -> CsiVolume | None:
        """Return the volume to be provisioned for a claim; None without a storage class."""
        name = claim_class(claim)
        if not name:
            return None
        lookups.add((CLASSES, name))
        storage_class = self._handle.lister(StorageClass).get(name)
        if storage_class is None:
            return None
        provisioner = storage_class.provisioner
        if provisioner in CSI_DRIVERS:
            if provisioner not in migrated:
                return None
            provisioner = CSI_DRIVERS[provisioner]
        handle = (claim.metadata.namespace, claim.metadata.name)
        return CsiVolume(provisioner, handle) if provisioner else None

    def _volume(self, name: str, lookups: set[Lookup]) -> PersistentVolume | None:
        lookups.add((VOLUMES, name))
        return self._handle.lister(PersistentVolume).get(name)


def _inline(volume: Volume, migrated: Migrated) -> CsiVolume | None:
    """Return the CSI volume of an inline in-tree volume."""
    plugin = in_tree_plugin_of_inline_volume(volume)
    if plugin is None or plugin not in migrated:
        return None
    try:
        handle = handle_of_inline_volume(volume)
    except CsiTranslationError as error:
        raise AttachableVolumeError(
            f"converting volume({volume.name}) from inline to csi: {error}"
        ) from error
    return CsiVolume(CSI_DRIVERS[plugin], handle) if handle is not None else None


def _translated(volume: PersistentVolume, migrated: Migrated) -> tuple[str, str]:
    """Return driver and handle of an in-tree volume; empty if it cannot be translated."""
    plugin = in_tree_plugin(volume.spec)
    if plugin is None or plugin not in migrated:
        return "", ""
    try:
        return CSI_DRIVERS[plugin], handle_of_volume(volume) or ""
    except CsiTranslationError:
        return "", ""
