"""The members of a pod group that the scheduler has seen, by their progress.

The cache has the present state of each group. The snapshot has a copy of one state; there the
members are assumed that the cycle of their group has placed so far.
Source: `pkg/scheduler/backend/cache/podgroupstate.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from scheduler.snapshot.pod_info import PodInfo


class PodGroupState:
    """The members of one group. A member is unscheduled, assumed, or assigned to a node."""

    __slots__ = ("_assigned", "_assumed", "_pods", "_unscheduled")

    def __init__(self) -> None:
        #: All members, by uid; the three others split them.
        self._pods: Final[dict[str, PodInfo]] = {}
        self._unscheduled: Final[dict[str, PodInfo]] = {}
        self._assumed: Final[dict[str, PodInfo]] = {}
        self._assigned: Final[dict[str, PodInfo]] = {}

    def __len__(self) -> int:
        """The number of all members."""
        return len(self._pods)

    @property
    def unscheduled_pods(self) -> Mapping[str, PodInfo]:
        """The members without a node that are not assumed, by uid."""
        return self._unscheduled

    @property
    def assumed_pods(self) -> Collection[str]:
        """The uids of the assumed members."""
        return self._assumed.keys()

    @property
    def scheduled_pods(self) -> list[PodInfo]:
        """The members with a node, each with its node: assigned ones, then assumed ones."""
        return [*self._assigned.values(), *self._assumed.values()]

    @property
    def scheduled_pods_count(self) -> int:
        return len(self._assigned) + len(self._assumed)

    def set_pod(self, pod: PodInfo) -> None:
        """Add a member, or replace it by a newer version. Assumed members stay assumed."""
        self._pods[pod.uid] = pod
        if pod.spec.node_name:
            self._assumed.pop(pod.uid, None)
            self._unscheduled.pop(pod.uid, None)
            self._assigned[pod.uid] = pod
        elif pod.uid not in self._assumed and pod.uid not in self._assigned:
            self._unscheduled[pod.uid] = pod

    def delete_pod(self, uid: str) -> None:
        for pods in (self._pods, self._unscheduled, self._assumed, self._assigned):
            pods.pop(uid, None)

    def assume_pod(self, pod: PodInfo) -> None:
        """Assume a member on its node; a no-op for an unknown or an assigned pod."""
        member = self._pods.get(pod.uid)
        if member is not None and not member.spec.node_name:
            self._unscheduled.pop(pod.uid, None)
            self._assumed[pod.uid] = pod

    def forget_pod(self, uid: str) -> None:
        """Make an assumed member unscheduled again."""
        if self._assumed.pop(uid, None) is not None:
            self._unscheduled[uid] = self._pods[uid]

    def copy(self) -> PodGroupState:
        """Return an independent copy."""
        state = PodGroupState()
        for name in PodGroupState.__slots__:
            getattr(state, name).update(getattr(self, name))
        return state
