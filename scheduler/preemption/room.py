"""The room for the members of a group on each node, counted while victims are put back.

For equal members whose plugins only look at room (`Plugin.only_takes_room`) the search for the
group need not run again: the group fits if all nodes together have room for enough members. The
nodes are counted at the same time, each in a world of its own that is full but for one member:

    put a unit back --> a member still fits: the room is the same, and the unit stays
                    --> none fits: take members out until one fits; that is what the unit costs

A unit that costs more than there is to spare is a victim at once, as the room never grows. Any
other one with a cost waits until all units before it are decided: these may need the same room.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from scheduler.framework.status import Code

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from scheduler.framework.handle import Handle
    from scheduler.framework.types import EqualMembers
    from scheduler.snapshot.columns import IntArray, World
    from scheduler.snapshot.pod_info import PodInfo


class RoomUnknownError(Exception):
    """A filter has failed, or contradicts the search: only the search itself can decide."""


class Room:
    """The room on the nodes of the snapshot, which is not changed.

    A node counts for at most as many members as are needed.
    """

    def __init__(self, handle: Handle, members: EqualMembers) -> None:
        self._handle: Final = handle
        self._needed: Final = members.needed
        # The last member asks for room, so that it is never among those that take it.
        self._members: Final = members.pods[: members.needed - 1]
        nodes = handle.snapshot.nodes
        self._worlds: Final = handle.worlds(members.state, members.pods[-1], nodes)
        #: The room of each node. Its world has one member less, or none if there is no room.
        self._room: Final[IntArray] = np.zeros(len(nodes), dtype=np.int64)
        #: The room that decided units leave, less what the group needs.
        self._spare = 0
        #: The room before a unit was put back, by world; for units with a cost.
        self._before: Final[dict[int, Mapping[World, int]]] = {}

    async def put_back(self, units: Sequence[Sequence[PodInfo]]) -> list[bool]:
        """Return for each unit, in order, if it can stay; raises `RoomUnknownError`."""
        await self._measure()
        row_of, let_others_run = self._handle.snapshot.table.row_of, self._handle.let_others_run
        placed: list[list[World]] = []
        order, stays = _Order(), dict[int, bool]()
        for pods in units:
            placed.append([cast("World", row_of[pod.spec.node_name]) for pod in pods])
            order.add(placed[-1])
            await let_others_run()
        costs: dict[int, int] = {}
        first = 0
        while first < len(units):
            ready = order.take()
            self._add(units, placed, ready)
            costs.update((unit, self._cost(unit)) for unit in ready)
            decided = {u: not cost for u, cost in costs.items() if not cost or cost > self._spare}
            while first in stays or first in costs:
                if first in costs and first not in decided:
                    decided[first] = costs[first] <= self._spare
                    self._spare -= costs[first] if decided[first] else 0
                first += 1
            self._remove(units, placed, [unit for unit, stay in decided.items() if not stay])
            for unit in decided:
                del costs[unit]
            stays |= decided
            order.advance(decided)
            await let_others_run()
        return [stays[unit] for unit in range(len(units))]

    async def _measure(self) -> None:
        """Count the room on all nodes without the units."""
        left = np.arange(len(self._room))
        for number in range(1, self._needed + 1):
            left = left[self._have_room(left)]
            self._room[left] = number
            if not len(left) or number == self._needed:
                break
            self._worlds.add_pods(_list(left), [self._members[number - 1]] * len(left))
            await self._handle.let_others_run()
        self._remove_a_member(np.flatnonzero((self._room > 0) & (self._room < self._needed)))
        self._spare = int(self._room.sum()) - self._needed
        if self._spare < 0:
            raise RoomUnknownError

    def _add(
        self, units: Sequence[Sequence[PodInfo]], placed: Sequence[list[World]], ready: list[int]
    ) -> None:
        """Put units back, on different nodes, and count the room there again."""
        worlds = [world for unit in ready for world in placed[unit]]
        self._worlds.add_pods(worlds, [pod for unit in ready for pod in units[unit]])
        left = np.unique(np.array(worlds, dtype=np.int64))
        left = left[self._room[left] > 0]
        left = left[~self._have_room(left)]
        losing = dict(zip(_list(left), self._room[left].tolist(), strict=True))
        while len(left):
            self._room[left] -= 1
            left = left[self._room[left] > 0]
            self._remove_a_member(left)
            left = left[~self._have_room(left)]
        for unit in ready if losing else ():
            self._before[unit] = {w: losing[w] for w in placed[unit] if w in losing}

    def _cost(self, unit: int) -> int:
        before = self._before.get(unit, {})
        return sum(room - int(self._room[world]) for world, room in before.items())

    def _remove(
        self, units: Sequence[Sequence[PodInfo]], placed: Sequence[list[World]], victims: list[int]
    ) -> None:
        """Undo `_add` for units that cannot stay."""
        worlds = [world for unit in victims for world in placed[unit]]
        self._worlds.remove_pods(worlds, [pod for unit in victims for pod in units[unit]])
        added: list[tuple[World, PodInfo]] = []
        for unit in victims:
            for world, room in self._before[unit].items():
                there = max(int(self._room[world]) - 1, 0)
                added += [(world, member) for member in self._members[there : room - 1]]
                self._room[world] = room
        self._worlds.add_pods([world for world, _ in added], [member for _, member in added])

    def _remove_a_member(self, worlds: IntArray) -> None:
        """Leave one member less in these worlds than there is room for."""
        members = [self._members[room - 1] for room in self._room[worlds].tolist()]
        self._worlds.remove_pods(_list(worlds), members)

    def _have_room(self, worlds: IntArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return for each world if one more member fits."""
        if not len(worlds):
            return np.zeros(0, dtype=np.bool_)
        rejections = self._worlds.run_filters(None if len(worlds) == len(self._room) else worlds)
        if rejections is None:
            return np.ones(len(worlds), dtype=np.bool_)
        if any(status.code == Code.ERROR for status in rejections.statuses):
            raise RoomUnknownError
        return rejections.passed


def _list(worlds: IntArray) -> list[World]:
    return cast("list[World]", worlds.tolist())


class _Order:
    """The order of the units on each node. A unit is ready if no earlier one shares a node."""

    def __init__(self) -> None:
        self._worlds: Final[list[Collection[World]]] = []
        #: The units on each node that are not decided, in order.
        self._queues: Final[dict[World, deque[int]]] = {}
        #: The number of nodes on which a unit is not the first one yet.
        self._blocked: Final[list[int]] = []
        self._ready: list[int] = []

    def add(self, worlds: Collection[World]) -> None:
        """Add the next unit, with the nodes of its pods."""
        unit = len(self._worlds)
        distinct = worlds if len(worlds) == 1 else set(worlds)
        self._worlds.append(distinct)
        self._blocked.append(len(distinct))
        for world in distinct:
            queue = self._queues.setdefault(world, deque())
            queue.append(unit)
            if len(queue) == 1:
                self._unblock(queue)

    def take(self) -> list[int]:
        """Return the units that have become ready, in order."""
        ready, self._ready = sorted(self._ready), []
        return ready

    def advance(self, decided: Iterable[int]) -> None:
        """Remove units that are the first ones on their nodes."""
        for unit in decided:
            for world in self._worlds[unit]:
                queue = self._queues[world]
                queue.popleft()
                self._unblock(queue)

    def _unblock(self, queue: deque[int]) -> None:
        if queue:
            self._blocked[queue[0]] -= 1
            if not self._blocked[queue[0]]:
                self._ready.append(queue[0])
