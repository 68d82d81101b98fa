"""GangScheduling: schedule the pods of a gang together, or none of them.

PreEnqueue keeps a pod out of the queue until its PodGroup and minCount members exist. Permit lets
the members wait until minCount of them have a node.
Mirrors `pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go`, v1.36.3; in 1.35 the
groups are those of Workloads, and each member has a cycle of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from scheduler.api.core import Pod
from scheduler.api.pod_groups import PodGroup, Workload, pod_group_key
from scheduler.config.versions import SchedulerVersion
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Status, error, unresolvable, wait

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.api.pod_groups import GangSchedulingPolicy
    from scheduler.api.unstructured import Kind
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.snapshot.pod_info import PodInfo

#: The longest time that a member waits for the others at Permit.
_PERMIT_TIMEOUT_SECONDS: Final = 5 * 60.0


class _UnknownGroup(Exception):
    """The group of a pod does not exist: why the pod waits, and why its attempt fails."""

    def __init__(self, waits: str, failure: str) -> None:
        super().__init__(failure)
        self.waits: Final = waits


def _gang_of_pod_group(handle: Handle, pod: PodInfo) -> GangSchedulingPolicy | None:
    """Return the policy of a member's gang, None for another policy. Raises _UnknownGroup."""
    named = pod.spec.scheduling_group
    assert named is not None, "the pod has a group"
    name = named.pod_group_name
    pod_group = handle.lister(PodGroup).get(name, pod.namespace)
    if pod_group is None:
        raise _UnknownGroup(
            f'waiting for pods\'s pod group "{name}" to appear in scheduling queue',
            f"failed to get podGroup {pod.namespace}/{name}: "
            f'podgroup.scheduling.k8s.io "{name}" not found',
        )
    return pod_group.spec.scheduling_policy.gang


def _gang_of_workload(handle: Handle, pod: PodInfo) -> GangSchedulingPolicy | None:
    """Return the policy as of 1.35: of a part of a Workload, which the pod names."""
    named = pod.spec.workload_ref
    assert named is not None, "the pod has a group"
    name, wanted = named.name, named.pod_group
    workload = handle.lister(Workload).get(name, pod.namespace)
    if workload is None:
        raise _UnknownGroup(
            f'waiting for pods\'s workload "{name}" to appear in scheduling queue',
            f"failed to get workload {pod.namespace}/{name}: "
            f'workload.scheduling.k8s.io "{name}" not found',
        )
    for group in workload.spec.pod_groups:
        if group.name == wanted:
            return group.policy.gang
    text = f'pod group "{wanted}" doesn\'t exist for a workload "{name}"'
    raise _UnknownGroup(text, text)


class GangScheduling(Plugin):
    """Hold the members of a gang back until enough of them can run."""

    only_takes_room: ClassVar[bool] = True
    reads: ClassVar[tuple[Kind, ...]] = (PodGroup, Workload)

    def __init__(self) -> None:
        has_pod_groups = self.handle.version >= SchedulerVersion.V1_36
        self._kind: Final[type[PodGroup | Workload]] = PodGroup if has_pod_groups else Workload
        self._gang_of: Final = _gang_of_pod_group if has_pod_groups else _gang_of_workload
        self._wait: Final = self._wait_alone if has_pod_groups else self._wait_together
        #: The time until which the members of a group wait, by the group's key (1.35).
        self._deadlines: Final[dict[str, float]] = {}

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Reject a member until its group and minCount members are known."""
        if not pod.pod_group_key:
            return None
        try:
            gang = self._gang_of(self.handle, pod)
        except _UnknownGroup as unknown:
            return unresolvable(unknown.waits)
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
        if not pod.pod_group_key:
            return None
        try:
            gang = self._gang_of(self.handle, pod)
        except _UnknownGroup as unknown:
            return error(unknown)
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
            return self._wait(pod.pod_group_key)
        for uid in members.assumed_pods:
            if (waiting := self.handle.get_waiting_pod(uid)) is not None:
                waiting.allow(self.name)
        return None

    def _wait_alone(self, key: str) -> Status:
        text = "waiting for minCount pods from a gang to be scheduled"
        return wait(_PERMIT_TIMEOUT_SECONDS, text)

    def _wait_together(self, key: str) -> Status:
        """Let all members wait until five minutes after the first began to wait (v1.35)."""
        now = self.handle.monotonic()
        if self._deadlines.get(key, now) <= now:
            self._deadlines[key] = now + _PERMIT_TIMEOUT_SECONDS
        text = "waiting for minCount pods from a gang to be waiting on permit"
        return wait(self._deadlines[key] - now, text)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [
            on(Pod, ActionType.ADD, self.is_schedulable_after_pod_added),
            on(self._kind, ActionType.ADD, self.is_schedulable_after_group_added),
        ]

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        """The pod's group."""
        return pod.pod_group_key

    pre_enqueue_depends_on = hints_depend_on

    def is_schedulable_after_pod_added(
        self, pod: PodInfo, old: Pod | None, new: Pod | None
    ) -> QueueingHint:
        """Queue if the added pod belongs to the same group."""
        _, added = as_kind(Pod, old, new)
        key = pod.pod_group_key
        return QueueingHint(bool(key) and added is not None and pod_group_key(added) == key)

    def is_schedulable_after_group_added(
        self, pod: PodInfo, old: PodGroup | Workload | None, new: PodGroup | Workload | None
    ) -> QueueingHint:
        """Queue if the added PodGroup or Workload is the pod's."""
        added: PodGroup | Workload | None = as_kind(self._kind, old, new)[1]
        if added is None:
            return QueueingHint.QUEUE_SKIP
        # The key of a group in a Workload has further parts.
        start = f"{added.metadata.namespace}/{added.metadata.name}/"
        return QueueingHint(f"{pod.pod_group_key}/".startswith(start))


class _StateNotFoundError(LookupError):
    """The cache has no member of the pod's group."""

    def __init__(self, pod: PodInfo) -> None:
        super().__init__(f"pod group state not found for pod group {pod.pod_group_key}")
