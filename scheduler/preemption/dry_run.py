"""Victims: the fewest and least important pods whose going makes room, on many nodes at once.

On every node all pods of lower priority are taken away; where the pod still does not fit,
preemption does not help. Then the pods are put back one by one, those first that no disruption
budget lets go and the more important ones before the others, and those with which the pod no longer
fits are the victims. All nodes go through this in lockstep:

    take all lower pods away            one pass of the filters over all nodes
    round k: put back the k-th of each  one pass over the nodes that have a k-th
             take it away again where the pod does not fit

Source: `SelectVictimsOnNode`, `DryRunPreemption`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.framework.handle import Victims
from scheduler.framework.status import Code, Rejections, Status, unresolvable
from scheduler.preemption.importance import (
    Candidate,
    MoreImportantPod,
    OrderedScoreFuncs,
    by_importance,
)
from scheduler.snapshot.columns import ABSENT
from scheduler.snapshot.nodes import NodeInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle, Worlds
    from scheduler.preemption.budgets import Budgets
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

__all__ = ["DryRun", "DryRunOutcome", "IsEligiblePod", "VictimRules", "dry_run_preemption"]

_NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming pod")

#: Nodes tried at a time: fewer cost more than they save.
_BLOCK_MIN: Final = 128

#: Whether a pod on a node may be preempted by another pod at all.
IsEligiblePod = Callable[[NodeInfo, "PodInfo", "PodInfo"], bool]


class VictimRules(NamedTuple):
    """What a plugin may have its own way with; None is upstream's default.

    A victim has a lower priority than the preemptor, whatever `is_eligible_pod` says.
    """

    is_eligible_pod: IsEligiblePod | None = None
    more_important_pod: MoreImportantPod | None = None
    ordered_score_funcs: OrderedScoreFuncs | None = None


class DryRunOutcome(NamedTuple):
    """What came of some nodes: candidates by position, and the statuses of all others."""

    candidates: Mapping[int, Candidate]
    rejections: Rejections


class DryRun:
    """Finds victims for one pod. `now` is epoch seconds."""

    def __init__(
        self,
        handle: Handle,
        state: CycleState,
        pod: PodInfo,
        *,
        budgets: Budgets,
        rules: VictimRules,
        now: float,
    ) -> None:
        self._handle: Final = handle
        self._state: Final = state
        self._pod: Final = pod
        self._budgets: Final = budgets
        self._rules: Final = rules
        self._now: Final = now

    def run(self, nodes: Nodes) -> DryRunOutcome:
        """Try all of these nodes."""
        verdicts = _Statuses(len(nodes))
        positions, potential = self._potential_victims(nodes)
        if not len(positions):
            return DryRunOutcome({}, verdicts.rejections)
        verdicts.clear(positions)
        worlds = self._handle.worlds(self._state, self._pod, nodes.take(positions))
        numbers = np.repeat(np.arange(len(potential)), [len(pods) for pods in potential]).tolist()
        worlds.remove_pods(numbers, [pod for pods in potential for pod in pods])
        rejections = worlds.run_filters()
        fitting = np.arange(len(potential))
        if rejections is not None:
            verdicts.add(positions, rejections)
            fitting = fitting[rejections.passed]
        reprieve = _Reprieve(
            worlds,
            {world: self._in_order(potential[world]) for world in fitting.tolist()},
            worlds_total=len(potential),
        )
        reprieve.run()
        names = nodes.names
        candidates: dict[int, Candidate] = {}
        for world in fitting.tolist():
            position = int(positions[world])
            victims = reprieve.victims(world)
            if world not in worlds.failures and victims.pods:
                candidates[position] = Candidate(names[position], self._sorted(victims))
            elif world not in worlds.failures:
                text = f'expected at least one victim pod on node "{names[position]}"'
                verdicts.set(position, Status(Code.ERROR, text))
        for world, failure in worlds.failures.items():
            verdicts.set(int(positions[world]), Status(Code.ERROR, str(failure), cause=failure))
        return DryRunOutcome(candidates, verdicts.rejections)

    def _potential_victims(self, nodes: Nodes) -> tuple[IntArray, list[list[PodInfo]]]:
        """The nodes that have pods to preempt, by position, and these pods."""
        priority, is_eligible = self._pod.priority, self._rules.is_eligible_pod
        below = np.flatnonzero(nodes.lowest_priority < priority)
        nodes = nodes.take(below)
        found = [[pod for pod in on.values() if pod.priority < priority] for on in nodes.pods]
        if is_eligible is not None:
            found = [
                [pod for pod in pods if is_eligible(node, pod, self._pod)]
                for node, pods in zip(nodes, found, strict=True)
            ]
        some = np.array([bool(pods) for pods in found], dtype=np.bool_)
        return below[some], [pods for pods in found if pods]

    def _in_order(self, pods: list[PodInfo]) -> tuple[list[PodInfo], int]:
        """The pods as they are put back, and how many of them no budget lets go."""
        if len(pods) > 1:
            pods = by_importance(pods, self._now, self._rules.more_important_pod)
        violating, others = self._budgets.split(pods)
        return violating + others, len(violating)

    def _sorted(self, victims: Victims) -> Victims:
        """The victims in order of importance, which the budgets have come before."""
        if 0 < victims.num_pdb_violations < len(victims.pods):
            pods = by_importance(victims.pods, self._now, self._rules.more_important_pod)
            return victims._replace(pods=pods)
        return victims


class _Reprieve:
    """Puts pods back in lockstep, and remembers those that had to go again.

    `queues` has for each world the pods to put back, and how many of these violate a budget.
    """

    def __init__(
        self,
        worlds: Worlds,
        queues: Mapping[int, tuple[list[PodInfo], int]],
        *,
        worlds_total: int,
    ) -> None:
        self._worlds: Final = worlds
        self._queues: Final = queues
        self._worlds_total: Final = worlds_total
        self._victims: Final[dict[int, list[PodInfo]]] = {world: [] for world in queues}
        self._violations: Final = dict.fromkeys(queues, 0)

    def victims(self, world: int) -> Victims:
        """Who has to leave a node, violating ones first."""
        return Victims(self._victims[world], self._violations[world])

    def run(self) -> None:
        """Put everybody back that can stay."""
        for turn in range(max((len(pods) for pods, _ in self._queues.values()), default=0)):
            self._run_round(turn)

    def _run_round(self, turn: int) -> None:
        failures, queues = self._worlds.failures, self._queues
        active = [w for w, (pods, _) in queues.items() if turn < len(pods) and w not in failures]
        pods = [queues[world][0][turn] for world in active]
        self._worlds.add_pods(active, pods)
        if len(active) == self._worlds_total:
            rejections = self._worlds.run_filters()
        else:
            rejections = self._worlds.run_filters(np.array(active, dtype=np.int64))
        if rejections is None:
            return
        rejected = np.flatnonzero(~rejections.passed).tolist()
        self._worlds.remove_pods([active[i] for i in rejected], [pods[i] for i in rejected])
        for i in rejected:
            world = active[i]
            self._victims[world].append(pods[i])
            self._violations[world] += turn < queues[world][1]


class _Statuses:
    """One status per node; at first, that there is nobody to preempt."""

    def __init__(self, total: int) -> None:
        self._codes: Final = np.zeros(total, dtype=np.int32)
        self._statuses: Final = [_NO_VICTIMS]

    def clear(self, positions: IntArray) -> None:
        """Take back what was said of some nodes."""
        self._codes[positions] = ABSENT

    def add(self, positions: IntArray, rejections: Rejections) -> None:
        """Take in verdicts on some nodes; those that pass are left alone."""
        rejected = ~rejections.passed
        codes = rejections.codes[rejected].astype(np.int32)
        self._codes[positions[rejected]] = codes + len(self._statuses)
        self._statuses.extend(rejections.statuses)

    def set(self, position: int, status: Status) -> None:
        """Say something of one node."""
        self._codes[position] = len(self._statuses)
        self._statuses.append(status)

    @property
    def rejections(self) -> Rejections:
        """All of them."""
        return Rejections(self._codes, self._statuses)


def dry_run_preemption(
    dry_run: DryRun, nodes: Nodes, *, num_candidates: int
) -> tuple[list[Candidate], list[tuple[Nodes, Rejections]]]:
    """Try nodes in their order until there are enough candidates.

    That is so many in all, and at least one that violates no budget; those come first in the
    answer. Also returns what was said of the nodes that were tried.
    """
    non_violating: list[Candidate] = []
    violating: list[Candidate] = []
    tried: list[tuple[Nodes, Rejections]] = []
    start = 0
    while start < len(nodes):
        missing = num_candidates - len(non_violating) - len(violating)
        block = nodes.slice(start, start + max(missing, _BLOCK_MIN))
        start += len(block)
        outcome = dry_run.run(block)
        tried.append((block, outcome.rejections))
        for candidate in outcome.candidates.values():
            group = violating if candidate.victims.num_pdb_violations else non_violating
            if len(group) < num_candidates:
                group.append(candidate)
            if non_violating and len(non_violating) + len(violating) >= num_candidates:
                return non_violating + violating, tried
    return non_violating + violating, tried


def error_statuses(tried: Sequence[tuple[Nodes, Rejections]]) -> list[Status]:
    """What went wrong on nodes that were tried, in their order."""
    found = []
    for _, rejections in tried:
        broken = [status.code == Code.ERROR for status in rejections.statuses]
        if any(broken):
            codes = rejections.codes[rejections.codes >= 0].tolist()
            found += [rejections.statuses[code] for code in codes if broken[code]]
    return found
