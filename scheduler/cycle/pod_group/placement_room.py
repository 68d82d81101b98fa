"""The room for equal members of a group in many placements at once.

The nodes of all placements are filtered together, and a placement is a set of rows of the result.
Where fewer nodes fit than there are members, these nodes are filled with one member after another
in a dry run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import numpy as np

from scheduler.framework.failures import PluginFailedError
from scheduler.framework.status import Code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.status import Rejections
    from scheduler.framework.types import EqualMembers, Placement
    from scheduler.runtime.framework import Framework
    from scheduler.snapshot.columns import BoolArray, IntArray, World


class _FilterFailedError(Exception):
    """A filter has failed on a node."""


class PlacementRoom:
    """The room on the nodes of the snapshot, counted no further than the placements need."""

    def __init__(
        self, framework: Framework, members: EqualMembers, placements: Sequence[Placement]
    ) -> None:
        self._framework: Final = framework
        self._members: Final = members
        rows = [placement.nodes.row_array for placement in placements]
        #: The rows of all placements, and the placement of each.
        self._rows: Final = np.concatenate(rows)
        self._placements: Final = np.repeat(np.arange(len(rows)), [len(some) for some in rows])
        self._room: Final[IntArray] = np.zeros(len(framework.handle.snapshot), dtype=np.int64)
        self._totals: IntArray = np.zeros(len(rows), dtype=np.int64)

    async def members(self) -> list[int] | None:
        """Return the number of members that fit in each placement; None if a filter fails."""
        try:
            await self._count()
        except (PluginFailedError, _FilterFailedError):
            return None
        totals = np.minimum(self._totals, len(self._members.pods))
        return cast("list[int]", totals.tolist())

    async def _count(self) -> None:
        handle, state, pods = self._framework.handle, self._members.state, self._members.pods
        nodes = handle.snapshot.nodes
        rows = np.flatnonzero(self._are_needed(np.arange(len(nodes))))
        run = self._framework.filters.run_with_nominated_pods
        rows = self._add_room(rows, run(state, pods[-1], nodes.take(rows)))
        if not len(rows):
            return
        worlds = handle.worlds(state, pods[-1], nodes.take(rows))
        left = rows
        for member in pods[:-1]:
            await handle.let_others_run()
            at = np.searchsorted(rows, left)
            worlds.add_pods(cast("list[World]", at.tolist()), [member] * len(at))
            left = self._add_room(left, worlds.run_filters(at))
            if not len(left):
                return

    def _add_room(self, rows: IntArray, rejections: Rejections | None) -> IntArray:
        """Count one member more where the filters pass; return the nodes to go on with."""
        if rejections is not None:
            if any(status.code == Code.ERROR for status in rejections.statuses):
                raise _FilterFailedError
            rows = rows[rejections.passed]
        self._room[rows] += 1
        room = np.bincount(self._placements, self._room[self._rows], minlength=len(self._totals))
        self._totals = room.astype(np.int64)
        return rows[self._are_needed(rows)]

    def _are_needed(self, rows: IntArray) -> BoolArray:
        """True for nodes of placements whose room is not enough so far."""
        needed = np.zeros(len(self._room), dtype=np.bool_)
        is_short = self._totals < len(self._members.pods)
        needed[self._rows[is_short[self._placements]]] = True
        return cast("BoolArray", needed[rows])
