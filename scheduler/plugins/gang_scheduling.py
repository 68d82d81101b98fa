"""GangScheduling: schedule the pods of a gang together, or none of them.

PreEnqueue keeps a pod out of the queue until its PodGroup and minCount members exist. Permit lets
the members wait until minCount of them have a node.
Mirrors `pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from scheduler.api.core import Pod
from scheduler.api.pod_groups import PodGroup
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Status, error, unresolvable, wait

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.api.unstructured import Kind
    from scheduler.framework.cycle_state import CycleState
    from scheduler.snapshot.pod_info import PodInfo

#: The longest time that a member waits for the others at Permit.
_PERMIT_TIMEOUT_SECONDS: Final = 5 * 60.0


class GangScheduling(Plugin):
    """Hold the members of a gang back until enough of them can run."""

    only_takes_room: ClassVar[bool] = True
    reads: ClassVar[tuple[Kind, ...]] = (PodGroup,)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Reject a member until its PodGroup and minCount members are known."""
        group = pod.spec.scheduling_group
        if group is None:
            return None
        pod_group = self.handle.lister(PodGroup).get(group.pod_group_name, pod.namespace)
        if pod_group is None:
            return unresolvable(
                f'waiting for pods\'s pod group "{group.pod_group_name}" to appear in scheduling '
                "queue"
            )
        gang = pod_group.spec.scheduling_policy.gang
        if gang is None:
            return None
        state = self.handle.pod_group(pod.pod_group_key)
        if state is None:
            return error(_StateNotFoundError(pod))
        if len(state) < gang.min_count:
            return unresolvable(
                "waiting for minCount pods from a gang to appear in scheduling queue"
            )
        return None

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Let a member wait until minCount members have a node, then allow all of them.

        In the cycle of the group, members count as the snapshot has them; else as the cache does.
        """
        group = pod.spec.scheduling_group
        if group is None:
            return None
        pod_group = self.handle.lister(PodGroup).get(group.pod_group_name, pod.namespace)
        if pod_group is None:
            name = group.pod_group_name
            return error(
                LookupError(
                    f"failed to get podGroup {pod.namespace}/{name}: "
                    f'podgroup.scheduling.k8s.io "{name}" not found'
                )
            )
        gang = pod_group.spec.scheduling_policy.gang
        if gang is None:
            return None
        if state.pod_group_state is not None:
            members = self.handle.snapshot.pod_groups.get(pod.pod_group_key)
        else:
            members = self.handle.pod_group(pod.pod_group_key)
        if members is None:
            return error(_StateNotFoundError(pod))
        if members.scheduled_pods_count < gang.min_count:
            self.handle.activate(members.unscheduled_pods)
            return wait(
                _PERMIT_TIMEOUT_SECONDS, "waiting for minCount pods from a gang to be scheduled"
            )
        for uid in members.assumed_pods:
            if (waiting := self.handle.get_waiting_pod(uid)) is not None:
                waiting.allow(self.name)
        return None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [
            on(Pod, ActionType.ADD, self.is_schedulable_after_pod_added),
            on(PodGroup, ActionType.ADD, self.is_schedulable_after_pod_group_added),
        ]

    def pre_enqueue_depends_on(self, pod: PodInfo) -> Hashable:
        """The pod's group."""
        return pod.pod_group_key

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        """The pod's group."""
        return pod.pod_group_key

    def is_schedulable_after_pod_added(
        self, pod: PodInfo, old: Pod | None, new: Pod | None
    ) -> QueueingHint:
        """Queue if the added pod belongs to the same group."""
        _, added = as_kind(Pod, old, new)
        group = pod.spec.scheduling_group
        return QueueingHint(
            added is not None
            and group is not None
            and added.spec.scheduling_group == group
            and added.metadata.namespace == pod.namespace
        )

    def is_schedulable_after_pod_group_added(
        self, pod: PodInfo, old: PodGroup | None, new: PodGroup | None
    ) -> QueueingHint:
        """Queue if the added PodGroup is the pod's."""
        _, added = as_kind(PodGroup, old, new)
        group = pod.spec.scheduling_group
        return QueueingHint(
            added is not None
            and group is not None
            and added.metadata.name == group.pod_group_name
            and added.metadata.namespace == pod.namespace
        )


class _StateNotFoundError(LookupError):
    """The cache has no member of the pod's group."""

    def __init__(self, pod: PodInfo) -> None:
        super().__init__(f"pod group state not found for pod group {pod.pod_group_key}")
