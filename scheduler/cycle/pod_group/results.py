"""The results of a pod group's scheduling cycle, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from scheduler.cycle.attempt import Attempt
    from scheduler.cycle.schedule_one import Found
    from scheduler.framework.interface import PodGroupPreemption
    from scheduler.framework.types import Placement, PodGroupInfo
    from scheduler.queue.queued_pod_info import QueuedPodInfo
    from scheduler.runtime.placements import PlacementScores

#: The first reason of a group that does not fit.
UNSCHEDULABLE: Final = "pod group is unschedulable"
SUCCESS: Final = Status(Code.SUCCESS)


@dataclass(slots=True, kw_only=True)
class MemberResult:
    """The result of one member: `host` is its node, or the one where preemption makes room.

    `status` is None for a member that fits. `permit_status` is None if Permit did not run.
    """

    attempt: Attempt
    found: Found
    host: str = ""
    status: Status | None = None
    permit_status: Status | None = None
    requires_preemption: bool = False
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class PodGroupResult:
    """The result of the algorithm for a group. `status` is None for a group that is schedulable.

    After an error, or if there is no placement, `members` has fewer results than there are members.
    """

    members: list[MemberResult] = field(default_factory=list)
    status: Status | None = None
    waiting_on_preemption: bool = False


@dataclass(slots=True, kw_only=True)
class PlacementResult:
    """The result of a group in one placement, and its scores if several placements fit.

    A placement that is not searched has no result; `room` is the number of members that fit there.
    """

    placement: Placement
    result: PodGroupResult = field(default_factory=PodGroupResult)
    is_searched: bool = False
    room: int = 0
    scores: PlacementScores | None = None


@dataclass(slots=True, kw_only=True)
class PodGroupAttempt:
    """One attempt to schedule a group, for explanations.

    `members` are in the order in which they were tried. `failure` is set if nothing was tried.
    `placements` are those of the first pass; `simulations` are the results of the passes that
    preemption has run after it.
    """

    info: PodGroupInfo
    members: list[QueuedPodInfo]
    failure: str = ""
    placements: list[PlacementResult] = field(default_factory=list)
    placement: Placement | None = None
    result: PodGroupResult = field(default_factory=PodGroupResult)
    preemption: PodGroupPreemption | None = None
    preemption_status: Status | None = None
    simulations: list[Status | None] = field(default_factory=list)
