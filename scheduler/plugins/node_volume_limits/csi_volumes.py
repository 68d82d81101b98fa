"""The CSI volumes behind a pod's volumes: which of them have to be attached, and by which driver.

    pod volume -> claim -> volume -> driver and handle   bound; in-tree volumes translated
                      `--> class  -> its provisioner     not bound: the claim stands for a volume
    pod volume -> driver and handle                      an in-tree volume spelled out in the pod

Source: `filterAttachableVolumes`, `getCSIDriverInfo` in `nodevolumelimits/csi.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from scheduler.api.volumes import claim_class, claim_name, is_for_pod
from scheduler.plugins._csi_translation import (
    AZURE_FILE,
    CSI_DRIVERS,
    VSPHERE,
    CsiTranslationError,
    handle_of_inline_volume,
    handle_of_volume,
    in_tree_plugin,
    in_tree_plugin_of_inline_volume,
)

if TYPE_CHECKING:
    from scheduler.api.core import Pod, Volume
    from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
    from scheduler.framework.handle import Handle

#: The kinds of objects that are looked up, by plural.
CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
CLASSES: Final = "storageclasses"

#: The in-tree plugins that are never attached through their drivers, whatever a node says.
_NEVER_MIGRATED: Final = frozenset({AZURE_FILE, VSPHERE})


class AttachableVolumeError(Exception):
    """A pod's volumes that cannot be told; the text is upstream's.

    AttachableVolumeError
    └── ClaimNotFoundError: the pod cannot run as long as the claim is not there
    """


class ClaimNotFoundError(AttachableVolumeError):
    """A pod that is to be placed names a claim that there is not."""


class CsiVolume(NamedTuple):
    """A volume as its driver knows it.

    `handle` is a pair, namespace and name, where it is the claim that stands for a volume to come.
    """

    driver: str
    handle: str | tuple[str, str]


#: Something looked up: the plural of its kind, and its key, `namespace/name` or `name`.
Lookup = tuple[str, str]


class CsiVolumes:
    """Finds the CSI volumes of pods."""

    def __init__(self, handle: Handle) -> None:
        self._handle: Final = handle

    def of_new_pod(self, pod: Pod, *, has_csi_node: bool) -> frozenset[CsiVolume]:
        """Those that a pod to be placed needs; raises `AttachableVolumeError`.

        Only on nodes with a CSINode do drivers see to in-tree volumes.
        """
        return self._of_pod(pod, set(), is_new=True, has_csi_node=has_csi_node)

    def of_running_pod(self, pod: Pod, lookups: set[Lookup]) -> frozenset[CsiVolume]:
        """Those that a pod has on a node with a CSINode; raises `AttachableVolumeError`.

        Adds to `lookups` what the answer depends on.
        """
        return self._of_pod(pod, lookups, is_new=False, has_csi_node=True)

    def attached(self, driver: str, volume_name: str, lookups: set[Lookup]) -> CsiVolume | None:
        """What a VolumeAttachment attaches; None if it is no volume of a CSI driver."""
        volume = self._volume(volume_name, lookups)
        if not driver or volume is None or volume.spec.csi is None:
            return None
        return CsiVolume(driver, volume.spec.csi.volume_handle)

    def _of_pod(
        self, pod: Pod, lookups: set[Lookup], *, is_new: bool, has_csi_node: bool
    ) -> frozenset[CsiVolume]:
        found: set[CsiVolume] = set()
        for volume in pod.spec.volumes:
            name = claim_name(pod, volume)
            if name is None:
                attached = _inline(volume) if has_csi_node else None
            else:
                claim = self._claim(pod, volume, name, lookups, is_new=is_new)
                attached = None
                if claim is not None:
                    attached = self._behind(claim, lookups, has_csi_node=has_csi_node)
            if attached is not None:
                found.add(attached)
        return frozenset(found)

    def _claim(
        self, pod: Pod, volume: Volume, name: str, lookups: set[Lookup], *, is_new: bool
    ) -> PersistentVolumeClaim | None:
        if not name:
            raise AttachableVolumeError("PersistentVolumeClaim had no name")
        namespace = pod.metadata.namespace
        lookups.add((CLAIMS, f"{namespace}/{name}"))
        found = self._handle.lister(CLAIMS).get(name, namespace)
        if found is None:
            if is_new:
                raise ClaimNotFoundError(
                    f'looking up PVC {namespace}/{name}: persistentvolumeclaim "{name}" not found'
                )
            return None
        claim = cast("PersistentVolumeClaim", found)
        if volume.persistent_volume_claim is None and not is_for_pod(claim, pod):
            raise AttachableVolumeError(
                f"PVC {namespace}/{name} was not created for pod "
                f"{namespace}/{pod.metadata.name} (pod is not owner)"
            )
        return claim

    def _behind(
        self, claim: PersistentVolumeClaim, lookups: set[Lookup], *, has_csi_node: bool
    ) -> CsiVolume | None:
        """The volume a claim stands for; by its class if it is not bound to one that there is."""
        name = claim.spec.volume_name
        volume = self._volume(name, lookups) if name else None
        if volume is None:
            return self._to_come(claim, lookups, has_csi_node=has_csi_node)
        csi = volume.spec.csi
        if csi is not None:
            driver, handle = csi.driver, csi.volume_handle
        else:
            driver, handle = _translated(volume) if has_csi_node else ("", "")
        return CsiVolume(driver, handle) if driver and handle else None

    def _to_come(
        self, claim: PersistentVolumeClaim, lookups: set[Lookup], *, has_csi_node: bool
    ) -> CsiVolume | None:
        """What will be made for a claim. One without a class gets a volume some other way."""
        name = claim_class(claim)
        if not name:
            return None
        lookups.add((CLASSES, name))
        found = self._handle.lister(CLASSES).get(name)
        if found is None:
            return None
        provisioner = cast("StorageClass", found).provisioner
        if provisioner in CSI_DRIVERS:
            if not has_csi_node or provisioner in _NEVER_MIGRATED:
                return None
            provisioner = CSI_DRIVERS[provisioner]
        handle = (claim.metadata.namespace, claim.metadata.name)
        return CsiVolume(provisioner, handle) if provisioner else None

    def _volume(self, name: str, lookups: set[Lookup]) -> PersistentVolume | None:
        lookups.add((VOLUMES, name))
        return cast("PersistentVolume | None", self._handle.lister(VOLUMES).get(name))


def _inline(volume: Volume) -> CsiVolume | None:
    """An in-tree volume spelled out in a pod, as its driver knows it."""
    plugin = in_tree_plugin_of_inline_volume(volume)
    if plugin is None or plugin in _NEVER_MIGRATED:
        return None
    try:
        handle = handle_of_inline_volume(volume)
    except CsiTranslationError as error:
        raise AttachableVolumeError(
            f"converting volume({volume.name}) from inline to csi: {error}"
        ) from error
    return CsiVolume(CSI_DRIVERS[plugin], handle) if handle is not None else None


def _translated(volume: PersistentVolume) -> tuple[str, str]:
    """Driver and handle of an in-tree volume; empty if no driver can handle it."""
    plugin = in_tree_plugin(volume.spec)
    try:
        handle = handle_of_volume(volume) if plugin is not None else None
    except CsiTranslationError:
        return "", ""
    return (CSI_DRIVERS[plugin], handle) if plugin is not None and handle else ("", "")
