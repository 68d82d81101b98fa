"""Changes of claims: the devices that they free, and the pods that name a claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.api.dynamic_resources import ResourceClaim
    from scheduler.snapshot.pod_info import PodInfo


def frees(original: ResourceClaim | None, modified: ResourceClaim | None) -> bool:
    """Return True if a change of a claim frees its devices. Deletions are not events."""
    return modified is not None and frees_if_deleted(original, modified)


def frees_if_deleted(original: ResourceClaim | None, modified: ResourceClaim | None) -> bool:
    """Return True if a change or the deletion of a claim frees its devices (v1.37)."""
    had_devices = original is not None and original.status.allocation is not None
    return had_devices and (modified is None or modified.status.allocation is None)


def names_claim(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Return True if a pod names a claim; claims for extended resources do not count."""
    names = {entry.resource_claim_name for entry in pod.spec.resource_claims} | {
        status.resource_claim_name for status in pod.pod.status.resource_claim_statuses
    }
    return pod.namespace == claim.metadata.namespace and claim.metadata.name in names
