"""Preemption for a whole pod group: the domain is the cluster, and victims are units.

    remove all units of lower priority --> does the group fit?  no: nothing helps
    put back unit by unit, the most important first --> remove it again if the group does not fit

A unit is a single pod, or all pods of a group that is only disrupted as a whole. Where the members
are equal, their room is counted (`preemption/room.py`), else each unit costs a search.
Source: `pkg/scheduler/framework/preemption/{podgrouppreemption,types}.go`.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import operator
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.api.pod_groups import DISRUPTION_MODE_POD_GROUP, PodGroup
from scheduler.api.workloads import PodDisruptionBudget
from scheduler.framework.extender import Victims
from scheduler.framework.status import Status, unresolvable, unschedulable
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.executor import Preemptor
from scheduler.preemption.importance import Candidate
from scheduler.preemption.room import Room, RoomUnknownError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.framework.handle import Handle
    from scheduler.framework.types import EqualMembers
    from scheduler.preemption.executor import Executor
    from scheduler.snapshot.pod_info import PodInfo

#: Runs the algorithm for the group over the snapshot; None if the group fits.
Schedule = Callable[[], Awaitable[Status | None]]

_NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming preemptor")
_NEVER: Final = unschedulable("not eligible due to preemptionPolicy=Never.")


#: Takes some 50 ms.
_SORTED_AT_ONCE: Final = 10_000


class _Unit(NamedTuple):
    """Pods that are evicted together. `started` is the start of the first one."""

    pods: list[PodInfo]
    priority: int
    started: float

    @property
    def importance(self) -> tuple[int, bool, int, float, str]:
        """A sort key: the most important unit first.

        The order: higher priority, a pod of a group before a single one, more pods, earlier start.
        """
        first = self.pods[0]
        is_group = first.spec.scheduling_group is not None
        size = len(self.pods) if is_group else 0
        return -self.priority, not is_group, -size, self.started, first.key


_importance: Final = operator.attrgetter("importance")


class PodGroupEvaluator:
    """Makes room for whole pod groups."""

    def __init__(self, handle: Handle, executor: Executor) -> None:
        self._handle: Final = handle
        self._executor: Final = executor
        #: The units of the last call that were put back, in order; True if one is spared.
        self.tried: list[tuple[Sequence[str], bool]] = []

    async def preempt(
        self,
        pod_group: PodGroup,
        pods: Sequence[PodInfo],
        schedule: Schedule,
        equal_members: Callable[[], EqualMembers | None],
    ) -> Status | None:
        """Evict units until the group fits; returns a status if nothing helps.

        This removes pods from the snapshot; the caller puts the pods back.
        """
        self.tried = []
        if any(pod.spec.preemption_policy == "Never" for pod in pods):
            return _NEVER
        units = await self._units(pod_group.priority)
        if not units:
            return _NO_VICTIMS
        await self._remove_all(units)
        status = await schedule()
        if status is not None:
            return status
        victims = await self._without_spared(await self._sorted(units), schedule, equal_members())
        evicted = [pod for unit in victims for pod in unit.pods]
        candidate = Candidate("cluster", Victims(evicted, 0))
        return await self._executor.actuate(candidate, Preemptor.from_pod_group(pod_group, pods))

    async def _without_spared(
        self, units: list[_Unit], schedule: Schedule, equal_members: EqualMembers | None
    ) -> list[_Unit]:
        """Put back the units without which the group still fits; return the others.

        Units whose eviction violates a budget are put back first.
        """
        budgets = Budgets(self._handle.lister(PodDisruptionBudget).list())
        violating: list[_Unit] = []
        others: list[_Unit] = []
        for unit, violates in zip(units, budgets.violations(u.pods for u in units), strict=True):
            (violating if violates else others).append(unit)
            await self._handle.let_others_run()
        ordered = [*violating, *others]
        spared = None
        if equal_members is not None:
            with contextlib.suppress(RoomUnknownError):
                room = Room(self._handle, equal_members)
                spared = await room.put_back([unit.pods for unit in ordered])
        if spared is None:
            spared = [await self._can_stay(unit, schedule) for unit in ordered]
        for unit, stays in zip(ordered, spared, strict=True):
            self.tried.append(([pod.key for pod in unit.pods], stays))
            await self._handle.let_others_run()
        victims = [unit for unit, stays in zip(ordered, spared, strict=True) if not stays]
        return await self._sorted(victims)

    async def _sorted(self, units: Sequence[_Unit]) -> list[_Unit]:
        """Return units in order of importance; 150,000 are sorted in parts."""
        parts: list[list[_Unit]] = []
        for start in range(0, len(units), _SORTED_AT_ONCE):
            part = units[start : start + _SORTED_AT_ONCE]
            parts.append(sorted(part, key=_importance))
            await self._handle.let_others_run()
        merged = []
        for unit in heapq.merge(*parts, key=_importance):
            merged.append(unit)
            await self._handle.let_others_run()
        return merged

    async def _can_stay(self, unit: _Unit, schedule: Schedule) -> bool:
        """Put a unit back; take it out again if the group then does not fit."""
        snapshot = self._handle.snapshot
        for pod in unit.pods:
            snapshot.add_pod(pod)
        if await schedule() is None:
            return True
        for pod in unit.pods:
            snapshot.remove_pod(pod)
        return False

    async def _remove_all(self, units: Iterable[_Unit]) -> None:
        """Remove all units from the snapshot, node by node."""
        by_node: dict[str, list[PodInfo]] = {}
        for unit in units:
            for pod in unit.pods:
                by_node.setdefault(pod.spec.node_name, []).append(pod)
            await self._handle.let_others_run()
        for node_name, pods in by_node.items():
            self._handle.snapshot.remove_pods(node_name, pods)
            await self._handle.let_others_run()

    async def _units(self, priority: int) -> list[_Unit]:
        """Return all units of the cluster of a lower priority."""
        units: dict[str, _Unit] = {}
        # Upstream reads the clock for each unit that has not started.
        clock = itertools.count(round(self._handle.now() * 1e6))
        for on_node in self._handle.snapshot.table.pods:
            for pod in on_node.values():
                started = next(clock) / 1e6 if pod.started is None else pod.started
                pod_group = self._disrupted_as_a_whole(pod)
                if pod_group is None:
                    units[pod.uid] = _Unit([pod], pod.priority, started)
                elif (unit := units.get(pod_group.metadata.uid)) is not None:
                    unit.pods.append(pod)
                else:
                    units[pod_group.metadata.uid] = _Unit([pod], pod_group.priority, started)
            await self._handle.let_others_run()
        return [unit for unit in units.values() if unit.priority < priority]

    def _disrupted_as_a_whole(self, pod: PodInfo) -> PodGroup | None:
        """Return the pod's group if its pods are only evicted together, else None."""
        group = pod.spec.scheduling_group
        if group is None:
            return None
        pod_group = self._handle.lister(PodGroup).get(group.pod_group_name, pod.namespace)
        if pod_group is None or pod_group.spec.disruption_mode != DISRUPTION_MODE_POD_GROUP:
            return None
        return pod_group
