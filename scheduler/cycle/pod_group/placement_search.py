"""The search for the best placement of a pod group.

The group is tried in each placement, in order, until two members were tried in one of them:

    their plugins only look at room --> count the room in all placements --> search the best one
    else                            --> search all placements

As many of equal members find nodes in a placement as have room there (`equal_members`). Placements
are scored and compared by this number; only the chosen one needs a search. Where not all members
have room, PostFilter runs: such a placement is searched, too, unless PostFilter is idle.
Source: `podGroupSchedulingPlacementAlgorithm` of `pkg/scheduler/schedule_one_podgroup.go`.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from scheduler.cycle.pod_group.equal_members import (
    equal_members_in_placements,
    post_filter_is_idle,
    quorum,
)
from scheduler.cycle.pod_group.placement_room import PlacementRoom
from scheduler.cycle.pod_group.results import PlacementResult, PodGroupResult
from scheduler.cycle.schedule_pod import run_with_pauses
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Code, Status
from scheduler.framework.types import Placement, PodGroupAssignments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.cycle.attempt import CycleParts
    from scheduler.cycle.pod_group.results import MemberResult, PodGroupAttempt
    from scheduler.framework.types import EqualMembers
    from scheduler.runtime.framework import Framework
    from scheduler.snapshot.pod_info import PodInfo

#: What plugins do with a second member shows if they look at the first one.
_MEMBERS_THAT_TELL: Final = 2


class ScheduleMembers(Protocol):
    """Schedules the members of a group in the snapshot's placement."""

    async def __call__(
        self, *, is_enough: Callable[[Sequence[MemberResult]], bool]
    ) -> PodGroupResult:
        """Return the result. `is_enough` gets the members tried so far; True ends the search."""


class _FailedError(Exception):
    """The group ends with this result, which is an error."""

    def __init__(self, result: PodGroupResult) -> None:
        super().__init__(result)
        self.result: Final = result


class _MiscountedError(Exception):
    """A search contradicts the count: a plugin has broken its promise."""


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
        #: The group fits with so many members, as far as is known, and not with so few.
        self._quorum = len(attempt.members)
        self._too_few = 0

    async def run(self, *, records: bool) -> PodGroupResult:
        """Return the result of the best placement that fits. `records` keeps all in the attempt."""
        attempt, results = self._attempt, self._results
        parent = Placement("", self._snapshot.nodes)
        framework, state = self._framework, CycleState(records_plugin_metrics=True)
        generate = functools.partial(framework.placements.generate, state, attempt.info, parent)
        placements = await run_with_pauses(framework, state, generate)
        if isinstance(placements, Status):
            return PodGroupResult(status=placements)
        if records:
            attempt.placements = results
        try:
            await self._try_each(placements)
            try:
                best = await self._best()
            except _MiscountedError:
                await self._search_each(results)
                best = await self._best()
            if best is None:
                await self._search_each(results[:1])
                return self._fits_nowhere()
        except _FailedError as failure:
            return failure.result
        if records:
            attempt.placement = best.placement
        return best.result

    async def _try_each(self, placements: Sequence[Placement]) -> None:
        """Add the result of each placement, in order, or its room."""
        results = self._results
        self._may_count = self._may_count and len(placements) > 1
        for number, placement in enumerate(placements):
            results.append(PlacementResult(placement=placement))
            await self._search(results[-1])
            if self._counted is not None:
                results[number:] = [PlacementResult(placement=p) for p in placements[number:]]
                await self._count(self._counted, results[number:])
                return

    async def _count(self, members: EqualMembers, results: Sequence[PlacementResult]) -> None:
        """Count the members that fit in each placement; search where that is not enough."""
        placements = [one.placement for one in results]
        rooms = await PlacementRoom(self._framework, members, placements).members()
        if rooms is None:
            self._counted = None
            await self._search_each(results)
            return
        for one, room in zip(results, rooms, strict=True):
            one.room = room
        if not post_filter_is_idle(self._framework, members):
            await self._search_each([one for one in results if one.room < len(members.pods)])

    async def _search_each(self, results: Sequence[PlacementResult]) -> None:
        """Search the placements that are not searched yet, in order."""
        for one in results:
            if not one.is_searched:
                await self._search(one)

    async def _search(self, one: PlacementResult) -> None:
        with self._snapshot.placement(one.placement.nodes):
            one.result = await self._schedule_members(is_enough=self._can_count)
        one.is_searched = True
        if one.result.status is not None and one.result.status.code == Code.ERROR:
            raise _FailedError(one.result)

    def _can_count(self, tried: Sequence[MemberResult]) -> bool:
        """Decide once if the members need only be counted: when the first ones were tried."""
        enough = min(_MEMBERS_THAT_TELL, len(self._attempt.members))
        if not self._may_count or len(tried) != enough:
            return False
        self._may_count = False
        self._counted = equal_members_in_placements(
            self._parts, self._framework, self._attempt, tried
        )
        return self._counted is not None

    # The choice.

    async def _best(self) -> PlacementResult | None:
        """Return the searched placement with the highest score, the first of several.

        A search finds the quorum: then more placements may fit, or none, and are compared again.
        If none has room for all members, the one with the most room is searched for the quorum.
        """
        while True:
            fitting = [one for one in self._results if self._fits(one)]
            best = self._highest(fitting)
            if best is None:
                best = max(self._results, key=lambda one: 0 if one.is_searched else one.room)
                if best.is_searched or best.room <= self._too_few:
                    return None
            if best.is_searched:
                return best
            await self._search(best)
            self._learn_quorum(best)
            if fitting and len(fitting) == sum(map(self._fits, self._results)):
                return best

    def _learn_quorum(self, one: PlacementResult) -> None:
        """Take the quorum from a search, which is to find what was counted."""
        members, counted = one.result.members, self._counted
        assert counted is not None, "members were counted"
        skipped = counted.state.skip_filter_plugins
        placed = sum(bool(member.host) for member in members)
        if placed != one.room or any(
            member.attempt.state.skip_filter_plugins != skipped for member in members
        ):
            raise _MiscountedError
        if found := quorum(one.result):
            self._quorum = found
        else:
            self._too_few = one.room
            self._quorum = max(self._quorum, one.room + 1)

    def _fits(self, one: PlacementResult) -> bool:
        if one.is_searched:
            return one.result.status is None or one.result.waiting_on_preemption
        return one.room >= self._quorum

    def _highest(self, fitting: Sequence[PlacementResult]) -> PlacementResult | None:
        """Return the placement with the highest score; a single one needs none."""
        if len(fitting) <= 1:
            return fitting[0] if fitting else None
        assignments = [PodGroupAssignments(one.placement, self._proposed(one)) for one in fitting]
        scores = self._framework.placements.score(self._attempt.info, assignments)
        if isinstance(scores, Status):
            raise _FailedError(PodGroupResult(status=scores))
        for one, of_one in zip(fitting, scores, strict=True):
            one.scores = of_one
        totals = [of_one.total for of_one in scores]
        return fitting[totals.index(max(totals))]

    def _proposed(self, one: PlacementResult) -> Sequence[tuple[PodInfo, str]]:
        """Return the members that fit, with their nodes if the placement is searched."""
        if one.is_searched:
            return tuple((m.attempt.pod, m.host) for m in one.result.members if m.host)
        return tuple((member.pod_info, "") for member in self._attempt.members[: one.room])

    def _fits_nowhere(self) -> PodGroupResult:
        first = self._results[0].result
        assert first.status is not None, "a group that does not fit has a status"
        text = (
            f"0/{len(self._results)} placements are available, first placement status: "
            f"{first.status.reasons[0]}"
        )
        return replace(first, status=Status(Code.UNSCHEDULABLE, text))
