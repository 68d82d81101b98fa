"""The search for the best placement of a pod group.

The group is tried in each placement, in order, until two members have found nodes in one of them:

    their plugins only look at room --> count the room in all placements --> search the best one
    else                            --> search all placements

Where equal members all have room, a search could only find that they fit, so that the best of these
placements alone is searched. One without room for all is searched, as PostFilter runs there.
Source: `podGroupSchedulingPlacementAlgorithm` of `pkg/scheduler/schedule_one_podgroup.go`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from scheduler.cycle.pod_group.equal_members import equal_members_in_placements
from scheduler.cycle.pod_group.placement_room import PlacementRoom
from scheduler.cycle.pod_group.results import PlacementResult, PodGroupResult
from scheduler.framework.status import Code, Status
from scheduler.framework.types import Placement, PodGroupAssignments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.cycle.attempt import CycleParts
    from scheduler.cycle.pod_group.results import MemberResult, PodGroupAttempt
    from scheduler.framework.types import EqualMembers
    from scheduler.runtime.framework import Framework

#: What plugins do with a second member shows if they look at the first one.
_MEMBERS_THAT_TELL: Final = 2


class ScheduleMembers(Protocol):
    """Schedules the members of a group in the snapshot's placement."""

    async def __call__(
        self, *, is_enough: Callable[[Sequence[MemberResult]], bool]
    ) -> PodGroupResult:
        """Return the result, of a part of the members if `is_enough` says so of those tried."""
        ...


class _FailedError(Exception):
    """The group ends with this result, which is an error."""

    def __init__(self, result: PodGroupResult) -> None:
        super().__init__(result)
        self.result: Final = result


class PlacementSearch:
    """One search; `schedule_members` runs for each placement that is searched."""

    def __init__(
        self,
        parts: CycleParts,
        framework: Framework,
        attempt: PodGroupAttempt,
        schedule_members: ScheduleMembers,
    ) -> None:
        self._parts: Final = parts
        self._framework: Final = framework
        self._attempt: Final = attempt
        self._schedule_members: Final = schedule_members
        self._snapshot: Final = parts.algorithm.snapshot
        self._results: Final[list[PlacementResult]] = []
        #: The members, once it is known that they need only be counted.
        self._counted: EqualMembers | None = None
        self._may_count = not parts.searches_all_placements

    async def run(self, *, records: bool) -> PodGroupResult:
        """Return the result of the best placement that fits. `records` keeps all in the attempt."""
        attempt, results = self._attempt, self._results
        parent = Placement("", self._snapshot.nodes)
        placements = self._framework.placements.generate(attempt.info, parent)
        if isinstance(placements, Status):
            return PodGroupResult(status=placements)
        if records:
            attempt.placements = results
        try:
            await self._try_each(placements)
            best = await self._best()
            if best is not None and not self._is_as_counted(best.result):
                for one in results:
                    if not one.is_searched:
                        await self._search(one)
                best = await self._best()
        except _FailedError as failure:
            return failure.result
        if best is None:
            return self._fits_nowhere()
        if records:
            attempt.placement = best.placement
        return best.result

    async def _try_each(self, placements: Sequence[Placement]) -> None:
        """Add the result of each placement, in order."""
        self._may_count = self._may_count and len(placements) > 1
        for number, placement in enumerate(placements):
            await self._search(self._added(placement))
            if self._counted is not None:
                self._results.pop()
                await self._count(self._counted, placements[number:])
                return

    async def _count(self, members: EqualMembers, placements: Sequence[Placement]) -> None:
        """Add the result of each placement; search only those without room for all members."""
        room = PlacementRoom(self._framework, members, placements)
        for placement, is_enough in zip(placements, await room.is_enough(), strict=True):
            one = self._added(placement)
            if not is_enough:
                await self._search(one)

    def _added(self, placement: Placement) -> PlacementResult:
        result = PlacementResult(placement=placement)
        self._results.append(result)
        return result

    async def _search(self, one: PlacementResult) -> None:
        with self._snapshot.placement(one.placement.nodes):
            one.result = await self._schedule_members(is_enough=self._can_count)
        one.is_searched = True
        if one.result.status is not None and one.result.status.code == Code.ERROR:
            raise _FailedError(one.result)

    def _can_count(self, tried: Sequence[MemberResult]) -> bool:
        """Decide once if the members need only be counted: when the first ones have nodes."""
        enough = min(_MEMBERS_THAT_TELL, len(self._attempt.members))
        if not self._may_count or len(tried) != enough or any(m.status is not None for m in tried):
            return False
        self._may_count = False
        self._counted = equal_members_in_placements(
            self._parts, self._framework, self._attempt, tried
        )
        return self._counted is not None

    def _is_as_counted(self, result: PodGroupResult) -> bool:
        """True if the search shows what counting relies on.

        Else a plugin has broken its promise, or Permit does not allow the group with all members.
        """
        counted = self._counted
        return counted is None or (
            _fits(result)
            and all(
                member.attempt.state.skip_filter_plugins == counted.state.skip_filter_plugins
                for member in result.members
            )
        )

    async def _best(self) -> PlacementResult | None:
        """Return the searched placement with the highest score, the first of several."""
        fitting = [one for one in self._results if _fits(one.result)]
        if not fitting:
            return None
        scores = self._scores(fitting)
        best = fitting[scores.index(max(scores))]
        if not best.is_searched:
            await self._search(best)
        return best

    def _scores(self, fitting: Sequence[PlacementResult]) -> list[int]:
        """Return the score of each placement; a single one needs none."""
        if len(fitting) == 1:
            return [0]
        everyone = tuple((member.pod_info, "") for member in self._attempt.members)
        assignments = [
            PodGroupAssignments(
                one.placement,
                tuple((m.attempt.pod, m.host) for m in one.result.members if m.host)
                if one.is_searched
                else everyone,
            )
            for one in fitting
        ]
        scores = self._framework.placements.score(self._attempt.info, assignments)
        if isinstance(scores, Status):
            raise _FailedError(PodGroupResult(status=scores))
        for one, of_one in zip(fitting, scores, strict=True):
            one.scores = of_one
        return [of_one.total for of_one in scores]

    def _fits_nowhere(self) -> PodGroupResult:
        first = self._results[0].result
        assert first.status is not None, "a group that does not fit has a status"
        text = (
            f"0/{len(self._results)} placements are available, first placement status: "
            f"{first.status.reasons[0]}"
        )
        return replace(first, status=Status(Code.UNSCHEDULABLE, text))


def _fits(result: PodGroupResult) -> bool:
    return result.status is None or result.waiting_on_preemption
