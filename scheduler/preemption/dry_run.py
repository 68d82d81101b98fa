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

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.framework.status import Code, Rejections, Status, unresolvable
from scheduler.preemption.importance import (
    NO_CANDIDATES,
    Candidates,
    MoreImportantPod,
    OrderedScoreFuncs,
    by_importance,
)
from scheduler.preemption.pods_by_world import PodsByWorld
from scheduler.preemption.reprieve import Reprieve
from scheduler.snapshot.columns import ABSENT
from scheduler.snapshot.nodes import NodeInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle, Worlds
    from scheduler.preemption.budgets import Budgets
    from scheduler.snapshot.columns import BoolArray, IntArray
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
    """The candidates among the first `tried` nodes, in order, and the statuses of the others."""

    tried: int
    candidates: Candidates
    rejections: Rejections


class DryRun:
    """Finds victims for one pod. `now` is epoch seconds."""

    def __init__(
        self,
        handle: Handle,
        state: CycleState,
        pod: PodInfo,
        *,
        read_budgets: Callable[[], Budgets],
        rules: VictimRules,
        now: float,
    ) -> None:
        self._handle: Final = handle
        self.let_others_run: Final = handle.let_others_run
        self._state: Final = state
        self._pod: Final = pod
        self._read_budgets: Final = read_budgets
        self._rules: Final = rules
        self._now: Final = now
        #: Numbers by uid, in the order of the nodes' pods.
        self._seen: dict[str, int] = {}

    @functools.cached_property
    def _budgets(self) -> Budgets:
        """The budgets. Most preemptions find no candidate, and need none."""
        return self._read_budgets()

    def may_have_victims(self, nodes: Nodes) -> BoolArray:
        """Return False for nodes on which no pod has a lower priority."""
        if self._rules.any_priority:
            return nodes.pod_count > 0
        return nodes.lowest_priority < self._pod.priority

    def run(self, nodes: Nodes, *, wanted: int) -> DryRunOutcome:
        """Find the victims, and stop at the `wanted`-th node on which the pod can fit."""
        verdicts = _Statuses(len(nodes))
        positions, potential = self._potential_victims(nodes)
        if not len(positions):
            return DryRunOutcome(len(nodes), NO_CANDIDATES, verdicts.rejections)
        verdicts.clear(positions)
        worlds = self._handle.worlds(self._state, self._pod, nodes.take(positions))
        worlds.remove_pods(potential.worlds, potential.pods)
        rejections = worlds.run_filters()
        fitting = np.arange(len(positions))
        if rejections is not None:
            verdicts.add(positions, rejections)
            fitting = fitting[rejections.passed]
        tried = len(nodes) if len(fitting) <= wanted else int(positions[fitting[wanted]])
        fitting = fitting[:wanted]
        candidates = NO_CANDIDATES
        if len(fitting):
            victims, violations = self._victims(worlds, potential.take(fitting), fitting)
            is_candidate = victims.counts > 0
            is_candidate &= ~np.isin(fitting, list(worlds.failures))
            found = positions[fitting]
            chosen = np.flatnonzero(is_candidate)
            names = nodes.take(found).names
            candidates = Candidates(names, victims, violations).take(chosen)
            for position in found[victims.counts == 0].tolist():
                text = f'expected at least one victim pod on node "{nodes.name(position)}"'
                verdicts.set(position, Status(Code.ERROR, text))
        for broken, failure in worlds.failures.items():
            status = Status(Code.ERROR, str(failure), cause=failure)
            verdicts.set(int(positions[broken]), status)
        return DryRunOutcome(tried, candidates, verdicts.rejections.first(tried))

    def _potential_victims(self, nodes: Nodes) -> tuple[IntArray, PodsByWorld]:
        """Return the positions of nodes with pods to preempt, and these pods: a world per node."""
        rules, preemptor = self._rules, self._pod
        is_eligible, priority = rules.is_eligible_pod, preemptor.priority
        on_nodes = nodes.pods
        counts = np.fromiter(map(len, on_nodes), dtype=np.int64, count=len(on_nodes))
        pods = PodsByWorld([pod for on in on_nodes for pod in on.values()], counts)
        if not rules.any_priority:
            pods = pods.flagged(pods.priorities < priority)
        if is_eligible is not None:
            node_of = [*nodes]
            pairs = zip(pods.worlds.tolist(), pods.pods, strict=True)
            flags = [bool(is_eligible(node_of[world], pod, preemptor)) for world, pod in pairs]
            pods = pods.flagged(np.array(flags, dtype=np.bool_))
        if rules.in_order_seen:
            waiting = (pod.uid for pod in pods.pods if pod.started is None)
            self._seen = {uid: number for number, uid in enumerate(waiting)}
        has_pods = np.flatnonzero(pods.counts)
        return has_pods, pods.take(has_pods)

    def _victims(
        self, worlds: Worlds, potential: PodsByWorld, fitting: IntArray
    ) -> tuple[PodsByWorld, IntArray]:
        """Return the victims in the `fitting` worlds, in order of importance.

        Also returns the number of victims of each world whose eviction violates a budget.
        """
        pods, is_violating = self._reprieve_order(potential)
        reprieve = Reprieve(worlds, fitting, pods, self._pod)
        reprieve.run()
        victims = pods.flagged(reprieve.is_victim)
        violations = np.bincount(
            pods.worlds[reprieve.is_victim & is_violating], minlength=len(fitting)
        )
        are_mixed = (violations > 0) & (violations < victims.counts)
        if not are_mixed.any():
            return victims, violations
        ordered = [*victims.pods]
        sorted_again = self._by_importance(victims.take(np.flatnonzero(are_mixed)))
        positions = np.flatnonzero(are_mixed[victims.worlds]).tolist()
        for position, pod in zip(positions, sorted_again.pods, strict=True):
            ordered[position] = pod
        return PodsByWorld(ordered, victims.counts), violations

    def _reprieve_order(self, potential: PodsByWorld) -> tuple[PodsByWorld, BoolArray]:
        """Return the pods in the order in which they are put back.

        Also returns a flag for pods whose eviction violates a budget: the first ones of each world.
        """
        pods = self._by_importance(potential)
        if not self._budgets:
            return pods, np.zeros(len(pods.pods), dtype=np.bool_)
        worlds = pods.worlds
        is_violating = self._budgets.violating(pods.pods, pods.starts.take(worlds))
        order = np.lexsort((~is_violating, worlds))
        return PodsByWorld(pods.at(order), pods.counts), is_violating[order]

    def _by_importance(self, pods: PodsByWorld) -> PodsByWorld:
        if pods.counts.max() == 1:
            return pods
        return by_importance(pods, self._now, self._rules.more_important_pod, seen=self._seen)


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
) -> tuple[Candidates, list[tuple[Nodes, Rejections]]]:
    """Try nodes in order up to `num_candidates` candidates, one of which violates no budget.

    Returns the candidates, first the candidates that violate no budget, and the nodes tried with
    their rejections. Other tasks may run between two blocks.
    """
    found = NO_CANDIDATES
    non_violating: list[int] = []
    violating: list[int] = []
    is_tried = dry_run.may_have_victims(nodes)
    without = nodes.take(~is_tried)
    tried = [(without, Rejections(np.zeros(len(without), dtype=np.int32), [_NO_VICTIMS]))]
    nodes = nodes.take(is_tried)
    start = 0
    is_enough = False
    while start < len(nodes) and not is_enough:
        missing = num_candidates - len(non_violating) - len(violating)
        size = max(missing + missing // _SPARE_EVERY, _BLOCK_MIN)
        block = nodes.slice(start, min(start + size, len(nodes)))
        outcome = dry_run.run(block, wanted=missing if missing > 0 else size)
        start += outcome.tried
        await dry_run.let_others_run()
        tried.append((block.slice(0, outcome.tried), outcome.rejections))
        numbers = outcome.candidates.num_pdb_violations.tolist()
        for number, violations in enumerate(numbers, start=len(found)):
            group = violating if violations else non_violating
            if len(group) < num_candidates:
                group.append(number)
            total = len(non_violating) + len(violating)
            is_enough = bool(non_violating) and total >= num_candidates
            if is_enough:
                break
        found = found.joined(outcome.candidates)
    return found.take(np.array([*non_violating, *violating], dtype=np.int64)), tried


def error_statuses(tried: Sequence[tuple[Nodes, Rejections]]) -> list[Status]:
    """Return the Error statuses of the nodes that were tried, in order."""
    statuses = []
    for _, rejections in tried:
        broken = [status.code == Code.ERROR for status in rejections.statuses]
        if any(broken):
            codes = rejections.codes[rejections.codes >= 0].tolist()
            statuses += [rejections.statuses[code] for code in codes if broken[code]]
    return statuses
