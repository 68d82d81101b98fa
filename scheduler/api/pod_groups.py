"""Pod groups: pods that are scheduled together.

A pod names its group in `spec.schedulingGroup`. The scheduler reads no Workload: a PodGroup has
all that it needs. In 1.35 a pod names a Workload and one of its groups in `spec.workloadRef`.
Source: `k8s.io/api/scheduling/v1alpha2/types.go`.
"""

from __future__ import annotations

from typing import Final

from scheduler.api.core import (
    ObjectMeta,
    Pod,
    PodCondition,
    PodResourceClaim,
    PodResourceClaimStatus,
    Struct,
)

#: The condition of a PodGroup that the scheduler writes.
POD_GROUP_SCHEDULED: Final = "PodGroupScheduled"

#: The value of `PodGroupSpec.disruption_mode` for a group that is only preempted as a whole.
DISRUPTION_MODE_POD_GROUP: Final = "PodGroup"


class BasicSchedulingPolicy(Struct, frozen=True):
    """The members are scheduled one by one."""


class GangSchedulingPolicy(Struct, frozen=True):
    """At least `min_count` members are scheduled at the same time, or none."""

    min_count: int = 0


class PodGroupSchedulingPolicy(Struct, frozen=True):
    """One of the policies."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Struct, frozen=True):
    """All members run on nodes with the same value of this label."""

    key: str = ""


class PodGroupSchedulingConstraints(Struct, frozen=True):
    """The constraints on the nodes of a group."""

    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupSpec(Struct, frozen=True):
    """The specification of a pod group."""

    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: str | None = None
    priority: int | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()


class WorkloadPodGroup(Struct, frozen=True):
    """One of the groups of a Workload of 1.35."""

    name: str = ""
    policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()


class WorkloadSpec(Struct, frozen=True):
    """The groups of a Workload of 1.35."""

    pod_groups: tuple[WorkloadPodGroup, ...] = ()


class Workload(Struct, frozen=True):
    """`scheduling.k8s.io/v1alpha1.Workload`, of 1.35."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class PodGroupStatus(Struct, frozen=True):
    """The status of a pod group. Its conditions have the fields of pod conditions."""

    conditions: tuple[PodCondition, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class PodGroup(Struct, frozen=True):
    """`scheduling.k8s.io/v1alpha2.PodGroup`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def priority(self) -> int:
        """The priority of the group in preemption; the priorities of the members do not count."""
        return self.spec.priority or 0

    def condition(self, condition_type: str) -> PodCondition | None:
        """Return a condition of the status; None if there is none of this type."""
        return next((c for c in self.status.conditions if c.type == condition_type), None)


def pod_group_key(pod: Pod) -> str:
    """Return `namespace/name` of the pod's group; empty for a pod without a group.

    In 1.35 the name has the Workload, the group in it and the key of the replica.
    """
    spec, namespace = pod.spec, pod.metadata.namespace
    if (group := spec.scheduling_group) is not None:
        return f"{namespace}/{group.pod_group_name}"
    if (named := spec.workload_ref) is not None:
        return f"{namespace}/{named.name}/{named.pod_group}/{named.pod_group_replica_key}"
    return ""
