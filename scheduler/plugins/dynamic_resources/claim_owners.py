"""Owners and users of claims: pods, or with a gate the pod groups of pods.

A claim that a pod and its group both name is the group's: all members use the same devices, and the
claim is reserved for the group.
Source: `k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go`, and
`unreservePodGroupClaims` in `pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.api.dynamic_resources import (
    UNSUPPORTED_CLAIM,
    ClaimError,
    ClaimReference,
    ResourceClaimConsumerReference,
    claim_of_entry,
    ensure_is_for_pod,
    is_controlled_by,
)
from scheduler.api.pod_groups import PodGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduler.api.core import Pod, PodResourceClaim
    from scheduler.api.dynamic_resources import ResourceClaim
    from scheduler.framework.handle import Handle

WORKLOAD_CLAIMS: Final = "DRAWorkloadResourceClaims"

_GROUP: Final = "scheduling.k8s.io"
_POD_GROUPS: Final = "podgroups"


class ClaimOwners:
    """The owners and users of claims."""

    def __init__(self, handle: Handle) -> None:
        self._handle: Final = handle
        self._has_groups: Final = WORKLOAD_CLAIMS in handle.feature_gates

    def ensure_is_for_pod(self, pod: Pod, claim: ResourceClaim) -> None:
        """Raise ClaimError unless a claim was created for the pod, or for its group."""
        if not self._has_groups:
            return ensure_is_for_pod(pod, claim)
        if is_controlled_by(claim, pod.metadata.uid):
            return None
        name, controller = self._group_of(pod), claim.metadata.controller
        if (
            controller is None
            or (controller.kind, controller.name) != ("PodGroup", name)
            or not (name and controller.api_version.startswith(f"{_GROUP}/"))
        ):
            raise ClaimError(
                f"ResourceClaim {claim.key} was not created for Pod {pod.key} "
                f"(neither Pod nor PodGroup {name} is the owner)"
            )

    def is_reserved(self, pod: Pod, claim: ResourceClaim) -> bool:
        """Return True if the pod may use a claim without being added to its users."""
        group = self._group_of(pod)
        users = {(user.api_group, user.resource, user.name) for user in claim.status.reserved_for}
        return claim.is_reserved_for(pod.metadata.uid) or (_GROUP, _POD_GROUPS, group) in users

    def user(self, pod: Pod, entry: PodResourceClaim | None) -> ResourceClaimConsumerReference:
        """Return the user of a claim that the pod names; raises ClaimError."""
        itself = ResourceClaimConsumerReference("", "pods", pod.metadata.name, pod.metadata.uid)
        group = self._stored_group(pod) if entry is not None else None
        if group is None:
            return itself
        for claim in group.spec.resource_claims:
            if claim.resource_claim_name is None and claim.resource_claim_template_name is None:
                raise ClaimError(f"PodGroup {group.key} claim {claim.name}: {UNSUPPORTED_CLAIM}")
            if claim == entry:
                owner = group.metadata
                return ResourceClaimConsumerReference(_GROUP, _POD_GROUPS, owner.name, owner.uid)
        return itself

    def claims_to_release(self, pod: Pod) -> Iterator[tuple[ClaimReference, str]]:
        """Yield the claims that PostFilter takes from the pod's group, and the group's uid.

        A group with members on nodes keeps its claims. Raises ClaimError.
        """
        state = self._handle.pod_group(f"{pod.metadata.namespace}/{self._group_of(pod)}")
        if state is not None and state.scheduled_pods_count:
            return
        group = self._stored_group(pod)
        if group is None:
            return
        for claim in group.spec.resource_claims:
            reference = claim_of_group(group, claim)
            if reference is not None:
                yield reference, group.metadata.uid

    def _group_of(self, pod: Pod) -> str:
        """Return the name of the pod's group if groups may have claims, else an empty text."""
        group = pod.spec.scheduling_group if self._has_groups else None
        return group.pod_group_name if group is not None else ""

    def _stored_group(self, pod: Pod) -> PodGroup | None:
        """Return the pod's group, None if it names none; raises ClaimError if it is missing."""
        name = self._group_of(pod)
        group = self._handle.lister(PodGroup).get(name, pod.metadata.namespace) if name else None
        if name and group is None:
            raise ClaimError(f'podgroup.scheduling.k8s.io "{name}" not found')
        return group


def claim_of_group(group: PodGroup, entry: PodResourceClaim) -> ClaimReference | None:
    """Return the claim of an entry of a group; None if no claim is needed. Raises ClaimError."""
    statuses = group.status.resource_claim_statuses
    return claim_of_entry(entry, statuses, owner=f"PodGroup {group.key}", name=entry.name)
