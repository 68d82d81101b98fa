"""The volumes of a pod that can conflict with the volumes of other pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.volumes import Disk, disks_of

if TYPE_CHECKING:
    from scheduler.api.core import Pod, Volume


class ClaimsAndDisks(NamedTuple):
    """The claims and disks of a pod. Most pods have none: `NO_VOLUMES`."""

    #: The names of the claims in the spec, one per volume; not those of ephemeral volumes.
    claims: tuple[str, ...] = ()
    disks: tuple[Disk, ...] = ()
    #: True if a volume may have to be attached to the node.
    may_be_attached: bool = False


NO_VOLUMES: Final = ClaimsAndDisks()


def volumes_of(pod: Pod) -> ClaimsAndDisks:
    """Return the pod's volumes that can conflict; `NO_VOLUMES` itself if there are none."""
    volumes = pod.spec.volumes
    if not volumes or not any(
        _may_be_attached(volume) or volume.iscsi or volume.rbd for volume in volumes
    ):
        return NO_VOLUMES
    claims = (volume.persistent_volume_claim for volume in volumes)
    return ClaimsAndDisks(
        tuple(claim.claim_name for claim in claims if claim is not None),
        disks_of(pod),
        any(_may_be_attached(volume) for volume in volumes),
    )


def _may_be_attached(volume: Volume) -> bool:
    return bool(
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.azure_disk is not None
        or volume.azure_file is not None
        or volume.cinder is not None
        or volume.vsphere_volume is not None
        or volume.portworx_volume is not None
    )
