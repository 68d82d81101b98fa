"""PodGroupPodsCount: prefer the placement in which more members of a pod group run.

Mirrors `pkg/scheduler/framework/plugins/podgrouppodscount/podgroup_pods_count.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.framework.arithmetic import MAX_NODE_SCORE
from scheduler.framework.interface import Plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.types import PodGroupAssignments, PodGroupInfo


class PodGroupPodsCount(Plugin):
    """Score placements by their members."""

    only_ranks = True

    def score_placement(
        self, state: CycleState, pod_group: PodGroupInfo, assignments: PodGroupAssignments
    ) -> int:
        """Return the number of members with a node, members in this placement included."""
        members = self.handle.snapshot.pod_groups.get(pod_group.key)
        if members is None:
            raise LookupError(f"pod group state not found for pod group {pod_group.key}")
        return members.scheduled_pods_count + len(assignments.proposed)

    def normalize_placement_score(
        self, state: CycleState, pod_group: PodGroupInfo, scores: Sequence[int]
    ) -> list[int]:
        """Scale to 0..100 by the largest number; minCount does not count."""
        most = max(scores, default=0)
        if not most:
            raise ValueError(
                "no pods from pod group are assigned to any of the candidate placements"
            )
        return [score * MAX_NODE_SCORE // most for score in scores]
