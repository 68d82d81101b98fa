"""Finds the victims: the fewest and least important pods whose eviction makes room.

All pods of lower priority are removed from every node; where the preemptor still does not fit,
preemption does not help. Then the pods are added again one by one (reprieve): first those whose
eviction violates a disruption budget, and the more important ones before the others. Pods with
which the preemptor does not fit are the victims. All nodes are processed at the same time:

    remove all pods of lower priority   one pass of the filters over all nodes
    each step: add some pods to each    one pass over the nodes that have pods left
               remove them again where the preemptor does not fit

Source: `SelectVictimsOnNode`, `DryRunPreemption`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from scheduler.framework.extender import Victims
from scheduler.framework.status import Code, Rejections, Status, unresolvable
from scheduler.preemption.importance import (
    Candidate,
    MoreImportantPod,
    OrderedScoreFuncs,
    by_importance,
)
from scheduler.snapshot.columns import ABSENT, World
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

#: Nodes are tried in blocks of at least this size: smaller ones cost more than they save.
_BLOCK_MIN: Final = 64
#: A block has one node more per so many missing candidates, as some nodes will not be candidates.
_SPARE_EVERY: Final = 16

#: Returns True if a pod on a node may be preempted: `(node, victim, preemptor)`.
IsEligiblePod = Callable[[NodeInfo, "PodInfo", "PodInfo"], bool]


class VictimRules(NamedTuple):
    """The rules that a plugin can replace; None is upstream's default.

    A victim has a lower priority than the preemptor, whatever `is_eligible_pod` returns, unless the
    rules are for `any_priority`. With `in_order_seen` pods without a start time have started in the
    order of the node's pods (v1.37).
    """

    is_eligible_pod: IsEligiblePod | None = None
    more_important_pod: MoreImportantPod | None = None
    ordered_score_funcs: OrderedScoreFuncs | None = None
    in_order_seen: bool = False
    any_priority: bool = False

    def is_below(self, victim: PodInfo, preemptor: PodInfo) -> bool:
        """Return True if the priority of a pod lets the preemptor evict it."""
        return self.any_priority or victim.priority < preemptor.priority


class DryRunOutcome(NamedTuple):
    """The candidates by position, and the statuses of all other nodes."""

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
        self.let_others_run: Final = handle.let_others_run
        self._state: Final = state
        self._pod: Final = pod
        self._budgets: Final = budgets
        self._rules: Final = rules
        self._now: Final = now
        #: Numbers by uid, in the order of the nodes' pods.
        self._seen: dict[str, int] = {}

    def run(self, nodes: Nodes) -> DryRunOutcome:
        """Find the victims on each of these nodes."""
        verdicts = _Statuses(len(nodes))
        positions, potential = self._potential_victims(nodes)
        if not len(positions):
            return DryRunOutcome({}, verdicts.rejections)
        verdicts.clear(positions)
        worlds = self._handle.worlds(self._state, self._pod, nodes.take(positions))
        worlds.remove_pods(potential.worlds, potential.pods)
        rejections = worlds.run_filters()
        fitting = np.arange(len(positions))
        if rejections is not None:
            verdicts.add(positions, rejections)
            fitting = fitting[rejections.passed]
        pods, violating = self._reprieve_order(potential, fitting)
        reprieve = _Reprieve(worlds, fitting, pods, violating, worlds_total=len(positions))
        reprieve.run()
        names, position_of, failures = nodes.names, positions.tolist(), worlds.failures
        candidates: dict[int, Candidate] = {}
        for world, victims in reprieve.victims.items():
            position = position_of[world]
            if world in failures:
                continue
            if victims:
                found = Victims(victims, reprieve.violations.get(world, 0))
                candidates[position] = Candidate(names[position], self._sorted(found))
            else:
                text = f'expected at least one victim pod on node "{names[position]}"'
                verdicts.set(position, Status(Code.ERROR, text))
        for broken, failure in failures.items():
            verdicts.set(position_of[broken], Status(Code.ERROR, str(failure), cause=failure))
        return DryRunOutcome(candidates, verdicts.rejections)

    def _potential_victims(self, nodes: Nodes) -> tuple[IntArray, PodsByWorld]:
        """Return the positions of nodes with pods to preempt, and these pods: a world per node."""
        rules, preemptor = self._rules, self._pod
        is_eligible, is_below = rules.is_eligible_pod, rules.is_below
        if rules.any_priority:
            below = np.flatnonzero(nodes.pod_count)
        else:
            below = np.flatnonzero(nodes.lowest_priority < preemptor.priority)
        nodes = nodes.take(below)
        lower = [[pod for pod in on.values() if is_below(pod, preemptor)] for on in nodes.pods]
        if is_eligible is not None:
            lower = [
                [pod for pod in pods if is_eligible(node, pod, preemptor)]
                for node, pods in zip(nodes, lower, strict=True)
            ]
        counts = np.fromiter(map(len, lower), dtype=np.int64, count=len(lower))
        pods = PodsByWorld([pod for pods in lower for pod in pods], counts[counts > 0])
        if self._rules.in_order_seen and not pods.have_started:
            self._seen = {pod.uid: number for number, pod in enumerate(pods.pods)}
        return below[counts > 0], pods

    def _reprieve_order(
        self, potential: PodsByWorld, fitting: IntArray
    ) -> tuple[PodsByWorld, IntArray]:
        """Return the pods to reprieve in each of the `fitting` worlds, in order.

        Also returns the number of pods per world whose eviction violates a budget: the first ones.
        """
        pods = potential.select(fitting)
        more_important = self._rules.more_important_pod
        if more_important is None and pods.have_started:
            pods = pods.by_importance()
        else:
            pods = pods.map(lambda some: by_importance(some, self._now, more_important, self._seen))
        if not self._budgets:
            return pods, np.zeros(len(fitting), dtype=np.int64)
        worlds = pods.worlds
        violating = self._budgets.violating(pods.pods, pods.starts.take(worlds))
        numbers = np.bincount(worlds[violating], minlength=len(fitting))
        if numbers.any():
            order = np.lexsort((~violating, worlds))
            pods = PodsByWorld(list(map(pods.pods.__getitem__, order.tolist())), pods.counts)
        return pods, numbers

    def _sorted(self, victims: Victims) -> Victims:
        """Return the victims in order of importance, without regard to budgets."""
        if 0 < victims.num_pdb_violations < len(victims.pods):
            rule = self._rules.more_important_pod
            pods = by_importance(victims.pods, self._now, rule, self._seen)
            return victims._replace(pods=pods)
        return victims


class PodsByWorld:
    """Some pods of each of many worlds, in one list: the pods of the first world, and so on."""

    def __init__(self, pods: list[PodInfo], counts: IntArray) -> None:
        self.pods: Final = pods
        #: The number of pods of each world, and the position of the first one in the list.
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
        """True if all pods have a start time."""
        return None not in [pod.started for pod in self.pods]

    def select(self, worlds: IntArray) -> PodsByWorld:
        """Return the pods of some of the worlds, which must be in ascending order."""
        if len(worlds) == len(self.counts):
            return self
        wanted = set(worlds.tolist())
        pods = [pod for world, some in enumerate(self) if world in wanted for pod in some]
        return PodsByWorld(pods, self.counts[worlds])

    def by_importance(self) -> PodsByWorld:
        """Return the pods of each world in order of importance; all must have a start time."""
        if not len(self.counts) or int(self.counts.max()) == 1:
            return self
        pods = self.pods
        priorities = np.array([pod.priority for pod in pods], dtype=np.int64)
        times = np.array([pod.started for pod in pods], dtype=np.float64)
        order = np.lexsort((times, -priorities, self.worlds))
        return PodsByWorld([pods[position] for position in order.tolist()], self.counts)

    def map(self, reorder: Callable[[list[PodInfo]], list[PodInfo]]) -> PodsByWorld:
        """Return the pods of each world in another order."""
        return PodsByWorld([pod for pods in self for pod in reorder(pods)], self.counts)


class _Reprieve:
    """Adds removed pods again, some per world and step, and collects pods that cannot stay.

    `pods` are the pods to add in each of the `fitting` worlds; the eviction of the first
    `violating` ones of each world violates a budget. A step adds one pod, or where filters only
    look at room many: if the preemptor fits beside them, it also fits beside fewer. If it does not,
    steps get smaller until the first pod that cannot stay is found.
    """

    def __init__(
        self,
        worlds: Worlds,
        fitting: IntArray,
        pods: PodsByWorld,
        violating: IntArray,
        *,
        worlds_total: int,
    ) -> None:
        self._worlds: Final = worlds
        self._fitting: Final = fitting
        self._pods: Final = pods
        self._violating: Final = violating
        self._worlds_total: Final = worlds_total
        #: The pods of each world that are decided, the size of its next step, and if not 0 a number
        #: of next pods of which one cannot stay.
        self._decided: Final[IntArray] = np.zeros(len(fitting), dtype=np.int64)
        self._size: Final[IntArray] = np.ones(len(fitting), dtype=np.int64)
        self._doomed: Final[IntArray] = np.zeros(len(fitting), dtype=np.int64)
        #: By how much the next step is smaller if the preemptor does not fit; at most by half.
        self._back: Final[IntArray] = np.ones(len(fitting), dtype=np.int64)
        self.victims: Final[dict[World, list[PodInfo]]] = {
            World(world): [] for world in fitting.tolist()
        }
        #: The number of victims in each world whose eviction violates a budget.
        self.violations: Final[Counter[World]] = Counter()

    def run(self) -> None:
        """Reprieve every pod with which the preemptor still fits."""
        if self._worlds.only_room:
            # Mostly the least important pod alone cannot stay.
            self._size[:] = np.maximum(self._pods.counts - 1, 1)
        while len(active := np.flatnonzero(self._decided < self._pods.counts)):
            if self._worlds.failures:
                broken = np.fromiter(self._worlds.failures, dtype=np.int64)
                active = active[~np.isin(self._fitting[active], broken)]
                if not len(active):
                    break
            self._step(active)

    def _step(self, active: IntArray) -> None:
        self._worlds.add_pods(*self._next_pods(active))
        worlds = self._fitting[active]
        are_all = len(worlds) == self._worlds_total
        rejections = self._worlds.run_filters(None if are_all else worlds)
        if rejections is None:
            self._keep(active)
            return
        passed = rejections.passed
        rejected = active[~passed]
        self._worlds.remove_pods(*self._next_pods(rejected))
        self._keep(active[passed])
        is_single = self._size[rejected] == 1
        self._evict_next(rejected[is_single])
        larger = rejected[~is_single]
        size = self._size[larger]
        self._doomed[larger] = size
        self._size[larger] = np.maximum(size - self._back[larger], size // 2)
        self._back[larger] *= 2

    def _next_pods(self, active: IntArray) -> tuple[IntArray, list[PodInfo]]:
        """Return the pods of the next step, each with its world."""
        sizes = self._size[active]
        first = self._pods.starts[active] + self._decided[active] - (np.cumsum(sizes) - sizes)
        positions = np.repeat(first, sizes) + np.arange(int(sizes.sum()))
        worlds = np.repeat(self._fitting[active], sizes)
        return worlds, list(map(self._pods.pods.__getitem__, positions.tolist()))

    def _keep(self, active: IntArray) -> None:
        """Let the pods of the last step stay."""
        size, doomed = self._size, self._doomed
        self._decided[active] += size[active]
        if not self._worlds.only_room:
            return
        searched = active[doomed[active] > 0]
        doomed[searched] -= size[searched]
        left = self._pods.counts[active] - self._decided[active]
        size[active] = np.maximum(np.minimum(2 * size[active], left), 1)
        size[searched] = np.maximum(doomed[searched] // 2, 1)
        self._evict_next(searched[doomed[searched] == 1])

    def _evict_next(self, active: IntArray) -> None:
        """Make the next pod of each of these worlds a victim."""
        pods, numbers = self._pods.pods, self._decided[active]
        worlds = cast("list[World]", self._fitting[active].tolist())
        positions = (self._pods.starts[active] + numbers).tolist()
        for world, position in zip(worlds, positions, strict=True):
            self.victims[world].append(pods[position])
        violations = np.flatnonzero(numbers < self._violating[active]).tolist()
        self.violations.update(worlds[position] for position in violations)
        self._decided[active] += 1
        self._size[active] = 1
        self._doomed[active] = 0


class _Statuses:
    """One status per node; initially that no pod can be preempted."""

    def __init__(self, total: int) -> None:
        self._codes: Final = np.zeros(total, dtype=np.int32)
        self._statuses: Final = [_NO_VICTIMS]

    def clear(self, positions: IntArray) -> None:
        """Remove the statuses of some nodes."""
        self._codes[positions] = ABSENT

    def add(self, positions: IntArray, rejections: Rejections) -> None:
        """Set the statuses of rejected nodes."""
        rejected = ~rejections.passed
        codes = rejections.codes[rejected].astype(np.int32)
        self._codes[positions[rejected]] = codes + len(self._statuses)
        self._statuses.extend(rejections.statuses)

    def set(self, position: int, status: Status) -> None:
        """Set the status of one node."""
        self._codes[position] = len(self._statuses)
        self._statuses.append(status)

    @property
    def rejections(self) -> Rejections:
        return Rejections(self._codes, self._statuses)


async def dry_run_preemption(
    dry_run: DryRun, nodes: Nodes, *, num_candidates: int
) -> tuple[list[Candidate], list[tuple[Nodes, Rejections]]]:
    """Try nodes in order up to `num_candidates` candidates, one of which violates no budget.

    Returns the candidates, first the candidates that violate no budget, and the nodes tried with
    their rejections. Other tasks may run between two blocks.
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
        await dry_run.let_others_run()
        tried.append((block, outcome.rejections))
        for candidate in outcome.candidates.values():
            group = violating if candidate.victims.num_pdb_violations else non_violating
            if len(group) < num_candidates:
                group.append(candidate)
            if non_violating and len(non_violating) + len(violating) >= num_candidates:
                return non_violating + violating, tried
    return non_violating + violating, tried


def error_statuses(tried: Sequence[tuple[Nodes, Rejections]]) -> list[Status]:
    """Return the Error statuses of the nodes that were tried, in order."""
    statuses = []
    for _, rejections in tried:
        broken = [status.code == Code.ERROR for status in rejections.statuses]
        if any(broken):
            codes = rejections.codes[rejections.codes >= 0].tolist()
            statuses += [rejections.statuses[code] for code in codes if broken[code]]
    return statuses
