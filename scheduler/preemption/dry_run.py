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

from collections import Counter
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
    from collections.abc import Iterator, Mapping, Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle, Worlds
    from scheduler.preemption.budgets import Budgets
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming pod")

#: Nodes tried at a time: fewer cost more than they save, ...
_BLOCK_MIN: Final = 64
#: ... and one more for so many candidates missing, for some nodes will not do.
_SPARE_EVERY: Final = 16

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
        worlds.remove_pods(potential.worlds.tolist(), potential.pods)
        rejections = worlds.run_filters()
        fitting = np.arange(len(positions))
        if rejections is not None:
            verdicts.add(positions, rejections)
            fitting = fitting[rejections.passed]
        reprieve = _Reprieve(worlds, *self._queues(potential, fitting), worlds_total=len(positions))
        reprieve.run()
        names = nodes.names
        candidates: dict[int, Candidate] = {}
        for world, victims in reprieve.victims.items():
            position = int(positions[world])
            if world in worlds.failures:
                continue
            if victims:
                found = self._sorted(Victims(victims, reprieve.violations.get(world, 0)))
                candidates[position] = Candidate(names[position], found)
            else:
                text = f'expected at least one victim pod on node "{names[position]}"'
                verdicts.set(position, Status(Code.ERROR, text))
        for world, failure in worlds.failures.items():
            verdicts.set(int(positions[world]), Status(Code.ERROR, str(failure), cause=failure))
        return DryRunOutcome(candidates, verdicts.rejections)

    def _potential_victims(self, nodes: Nodes) -> tuple[IntArray, _Roster]:
        """The nodes that have pods to preempt, by position, and these pods, node by node."""
        priority, is_eligible = self._pod.priority, self._rules.is_eligible_pod
        below = np.flatnonzero(nodes.lowest_priority < priority)
        nodes = nodes.take(below)
        found = [[pod for pod in on.values() if pod.priority < priority] for on in nodes.pods]
        if is_eligible is not None:
            found = [
                [pod for pod in pods if is_eligible(node, pod, self._pod)]
                for node, pods in zip(nodes, found, strict=True)
            ]
        counts = np.fromiter(map(len, found), dtype=np.int64, count=len(found))
        roster = _Roster([pod for pods in found for pod in pods], counts[counts > 0])
        return below[counts > 0], roster

    def _queues(self, potential: _Roster, fitting: IntArray) -> tuple[IntArray, _Roster, IntArray]:
        """The worlds where the pod fits, the pods to put back there, in order, and how many of
        these no budget lets go: they come first.
        """
        roster = potential.of_worlds(fitting)
        more_important = self._rules.more_important_pod
        if more_important is None and roster.have_started:
            roster = roster.by_importance()
        else:
            roster = roster.mapped(lambda pods: by_importance(pods, self._now, more_important))
        if not self._budgets:
            return fitting, roster, np.zeros(len(fitting), dtype=np.int64)
        split = [self._budgets.split(pods) for pods in roster]
        pods = [pod for violating, others in split for pod in (*violating, *others)]
        numbers = np.array([len(violating) for violating, _ in split], dtype=np.int64)
        return fitting, _Roster(pods, roster.counts), numbers

    def _sorted(self, victims: Victims) -> Victims:
        """The victims in order of importance, which the budgets have come before."""
        if 0 < victims.num_pdb_violations < len(victims.pods):
            pods = by_importance(victims.pods, self._now, self._rules.more_important_pod)
            return victims._replace(pods=pods)
        return victims


class _Roster:
    """Some pods of each of many worlds, all in one list: those of the first world, and so on."""

    def __init__(self, pods: list[PodInfo], counts: IntArray) -> None:
        self.pods: Final = pods
        #: How many pods each world has; and where in the list they begin.
        self.counts: Final = counts
        self.starts: Final[IntArray] = np.cumsum(counts) - counts

    def __iter__(self) -> Iterator[list[PodInfo]]:
        pods = self.pods
        for start, count in zip(self.starts.tolist(), self.counts.tolist(), strict=True):
            yield pods[start : start + count]

    @property
    def worlds(self) -> IntArray:
        """The world of each pod."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @property
    def have_started(self) -> bool:
        """Whether all pods have a start time."""
        return None not in [pod.started for pod in self.pods]

    def of_worlds(self, worlds: IntArray) -> _Roster:
        """The pods of some of the worlds, in this order."""
        if len(worlds) == len(self.counts):
            return self
        wanted = set(worlds.tolist())
        pods = [pod for world, some in enumerate(self) if world in wanted for pod in some]
        return _Roster(pods, self.counts[worlds])

    def by_importance(self) -> _Roster:
        """The pods of each world in order of importance, once they have all started."""
        if not len(self.counts) or int(self.counts.max()) == 1:
            return self
        pods = self.pods
        priorities = np.array([pod.priority for pod in pods], dtype=np.int64)
        times = np.array([pod.started for pod in pods], dtype=np.float64)
        order = np.lexsort((times, -priorities, self.worlds))
        return _Roster([pods[place] for place in order.tolist()], self.counts)

    def mapped(self, arranged: Callable[[list[PodInfo]], list[PodInfo]]) -> _Roster:
        """The pods of each world in another order."""
        return _Roster([pod for pods in self for pod in arranged(pods)], self.counts)


class _Reprieve:
    """Puts pods back in lockstep, and remembers those that had to go again.

    `queues` has the pods to put back for each of `fitting`, the worlds in question; the first
    `violating` ones of each violate a budget if they go.
    """

    def __init__(
        self,
        worlds: Worlds,
        fitting: IntArray,
        queues: _Roster,
        violating: IntArray,
        *,
        worlds_total: int,
    ) -> None:
        self._worlds: Final = worlds
        self._fitting: Final = fitting
        self._queues: Final = queues
        self._violating: Final = violating
        self._worlds_total: Final = worlds_total
        self.victims: Final[dict[int, list[PodInfo]]] = {world: [] for world in fitting.tolist()}
        #: How many of them violate a budget, where there are any.
        self.violations: Final[Counter[int]] = Counter()

    def run(self) -> None:
        """Put everybody back that can stay."""
        for turn in range(int(self._queues.counts.max(initial=0))):
            self._run_round(turn)

    def _run_round(self, turn: int) -> None:
        active = np.flatnonzero(self._queues.counts > turn)
        if self._worlds.failures:
            broken = np.fromiter(self._worlds.failures, dtype=np.int64)
            active = active[~np.isin(self._fitting[active], broken)]
        numbers = self._fitting[active]
        worlds = numbers.tolist()
        pods = [self._queues.pods[at] for at in (self._queues.starts[active] + turn).tolist()]
        self._worlds.add_pods(worlds, pods)
        all_of_them = len(worlds) == self._worlds_total
        rejections = self._worlds.run_filters(None if all_of_them else numbers)
        if rejections is None:
            return
        rejected = np.flatnonzero(~rejections.passed).tolist()
        evicted = [(worlds[i], pods[i]) for i in rejected]
        self._worlds.remove_pods([world for world, _ in evicted], [pod for _, pod in evicted])
        for world, pod in evicted:
            self.victims[world].append(pod)
        if self._violating.any():
            violating = self._violating[active]
            self.violations.update(worlds[i] for i in rejected if turn < violating[i])


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
        wanted = max(missing + missing // _SPARE_EVERY, _BLOCK_MIN)
        block = nodes.slice(start, min(start + wanted, len(nodes)))
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
