"""Preemption for a whole pod group that does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.config import WORKLOAD_AWARE_PREEMPTION
from scheduler.cycle.pod_group.equal_members import equal_members
from scheduler.cycle.pod_group.results import SUCCESS
from scheduler.framework.status import Code, Status, error, unschedulable

if TYPE_CHECKING:
    from scheduler.cycle.attempt import CycleParts
    from scheduler.cycle.pod_group.results import PodGroupAttempt
    from scheduler.cycle.pod_group.search import PodGroupSearch
    from scheduler.framework.interface import PodGroupPreemption
    from scheduler.framework.types import EqualMembers

_NOT_REGISTERED: Final = unschedulable(
    "default preemption plugin is not registered, workload aware preemption is disabled"
)
_HAS_CONSTRAINTS: Final = unschedulable(
    "workload aware preemption is not supported for pod groups with scheduling constraints"
)


async def preempt(
    parts: CycleParts,
    plugin: PodGroupPreemption | None,
    attempt: PodGroupAttempt,
    search: PodGroupSearch,
) -> None:
    """Make room for a group that does not fit, and add the outcome to its result."""
    result, old = attempt.result, attempt.result.status
    if WORKLOAD_AWARE_PREEMPTION not in parts.feature_gates:
        return
    assert old is not None, "a group that does not fit has a status"
    status = await _run(parts, plugin, attempt, search)
    attempt.preemption_status = status or SUCCESS
    if status is None:
        result.waiting_on_preemption = True
    elif status.code == Code.ERROR:
        result.status = status
    else:
        result.status = Status(old.code, *old.reasons, status.message, plugin=old.plugin)


async def _run(
    parts: CycleParts,
    plugin: PodGroupPreemption | None,
    attempt: PodGroupAttempt,
    search: PodGroupSearch,
) -> Status | None:
    """Return None if victims are being evicted, or why there are none.

    Source: `runWorkloadAwarePreemption`.
    """
    if plugin is None:
        return _NOT_REGISTERED
    info = attempt.info
    pod_group = parts.pod_group_lister(info.namespace, info.name)
    if pod_group is None:
        text = f'podgroup.scheduling.k8s.io "{info.name}" not found'
        return error(LookupError(text), "failed to get pod group object: ")
    constraints = pod_group.spec.scheduling_constraints
    if constraints is not None and constraints.topology:
        return _HAS_CONSTRAINTS

    async def simulate() -> Status | None:
        attempt.simulations.append((await search.run(run_post_filters=False)).status)
        return attempt.simulations[-1]

    def members_alike() -> EqualMembers | None:
        return equal_members(parts, search.framework, attempt, search.last)

    attempt.preemption = plugin
    snapshot = parts.algorithm.snapshot
    before = snapshot.pods_by_row()
    try:
        return await plugin.pod_group_post_filter(
            pod_group, info.unscheduled_pods, simulate, members_alike
        )
    finally:
        for _ in snapshot.restoring(before):
            await parts.let_others_run()
