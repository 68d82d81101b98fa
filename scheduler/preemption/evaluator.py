"""One preemption: checks the pod's eligibility, finds candidates, chooses the node, preempts.

Source: `pkg/scheduler/framework/preemption/preemption.go` (`Evaluator.Preempt`),
`plugins/defaultpreemption/default_preemption.go` (`PodEligibleToPreemptOthers`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from scheduler.api.core import Pod
from scheduler.api.field import aggregate
from scheduler.api.workloads import PodDisruptionBudget
from scheduler.config.versions import SchedulerVersion
from scheduler.framework.cycle_state import StateKey
from scheduler.framework.extender import ExtenderError
from scheduler.framework.status import Code, NodeToStatus, Status, unresolvable, unschedulable
from scheduler.framework.types import (
    Diagnosis,
    FitError,
    NominatingInfo,
    NominatingMode,
    PostFilterResult,
)
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.dry_run import DryRun, VictimRules, dry_run_preemption, error_statuses
from scheduler.preemption.executor import Preemptor
from scheduler.preemption.importance import Candidate, Choice, pick_one_node_for_preemption
from scheduler.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.extender import Extender, Victims
    from scheduler.framework.handle import Handle
    from scheduler.preemption.executor import Executor

_log: Final = logging.getLogger(__name__)

#: Returns the index of the first node to try and the number of candidates that is enough, from
#: the number of nodes where preemption may help.
OffsetAndNumCandidates = Callable[[int], tuple[int, int]]

_NOT_HELPFUL: Final = unresolvable("Preemption is not helpful for scheduling")
_NEVER: Final = "not eligible due to preemptionPolicy=Never."
_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."


class Preemption(NamedTuple):
    """The candidates and the choice of a preemption, for explanations; see `PREEMPTION`."""

    candidates: Sequence[Candidate]
    choice: Choice
    #: True if the criteria are upstream's, `importance.CRITERIA`.
    has_default_criteria: bool


#: The key in the cycle state; written once a node has been chosen.
PREEMPTION: Final = StateKey[Preemption]("Preemption")


class Evaluator:
    """Runs preemptions for one plugin of one profile."""

    def __init__(
        self,
        handle: Handle,
        executor: Executor,
        *,
        offset_and_num_candidates: OffsetAndNumCandidates,
        rules: VictimRules,
    ) -> None:
        self._handle: Final = handle
        self._executor: Final = executor
        self._offset_and_num_candidates: Final = offset_and_num_candidates
        self._rules: Final = rules
        self._budgets: Final = Budgets(stops_at_first=handle.version >= SchedulerVersion.V1_37)
        self._describes_success: Final = handle.version >= SchedulerVersion.V1_37

    async def preempt(
        self, state: CycleState, pod: PodInfo, statuses: NodeToStatus
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Find a node, evict its victims, and nominate the pod to it.

        Without a result the pod's nominated node is unchanged: after a failure, and if the pod is
        not eligible. With a result and a rejection no preemption helps, and the nomination is
        cleared.
        """
        chosen = await self.choose(state, pod, statuses)
        if not isinstance(chosen, Candidate):
            return chosen
        status = await self._executor.actuate(chosen, Preemptor.from_pod(pod))
        if status is not None:
            return None, status
        nominated = NominatingInfo(chosen.name, NominatingMode.OVERRIDE)
        status = _found_placement(chosen) if self._describes_success else None
        return PostFilterResult(nominated), status

    async def choose(
        self, state: CycleState, pod: PodInfo, statuses: NodeToStatus
    ) -> Candidate | tuple[PostFilterResult | None, Status]:
        """Return the best node with its victims; else the result of a preemption that fails."""
        current = self._handle.lister(Pod).get(pod.name, pod.namespace)
        if current is None:
            return None, Status(Code.ERROR, f'pod "{pod.name}" not found')
        if current is not pod.pod:
            pod = PodInfo(current)
        reason = self._ineligibility(pod, statuses)
        if reason is not None:
            return None, unschedulable(reason)

        candidates, tried, failures = await self._find_candidates(state, pod, statuses)
        if not candidates:
            if failures:
                text = aggregate(failure.message for failure in failures)
                return None, Status(Code.ERROR, text)
            nowhere = NominatingInfo("", NominatingMode.OVERRIDE)
            fit_error = FitError(pod, len(self._handle.snapshot), Diagnosis(tried))
            return PostFilterResult(nowhere), unschedulable(str(fit_error))
        return await self.best_of(state, pod, candidates)

    async def best_of(
        self, state: CycleState, pod: PodInfo, candidates: Sequence[Candidate]
    ) -> Candidate | tuple[PostFilterResult | None, Status]:
        """Return the best of some nodes with victims, as `choose` does."""
        try:
            left = await self._call_extenders(pod, candidates)
        except ExtenderError as failure:
            return None, Status(Code.ERROR, str(failure), cause=failure)
        if not left:
            return None, unschedulable("no candidate node for preemption")

        score_funcs = self._rules.ordered_score_funcs
        choice = pick_one_node_for_preemption(left, self._handle.now(), score_funcs)
        state.write(PREEMPTION, Preemption(left, choice, score_funcs is None))
        return choice.best

    def _ineligibility(self, pod: PodInfo, statuses: NodeToStatus) -> str | None:
        """Return the reason why the pod may not preempt now; None if it may.

        A pod that has preempted waits until its victims have terminated, unless its nominated node
        has become unresolvable.
        """
        if pod.spec.preemption_policy == "Never":
            return _NEVER
        name = pod.pod.status.nominated_node_name
        snapshot = self._handle.snapshot
        if not name or statuses.get(name).code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None
        if name not in snapshot:
            return None
        node, is_eligible = snapshot.get(name), self._rules.is_eligible_pod
        for other in node.pods:
            if (
                self._rules.is_below(other, pod)
                and (is_eligible is None or is_eligible(node, other, pod))
                and _is_terminating_by_preemption(other.pod)
            ):
                return _TERMINATING
        return None

    async def _find_candidates(
        self, state: CycleState, pod: PodInfo, statuses: NodeToStatus
    ) -> tuple[Sequence[Candidate], NodeToStatus, list[Status]]:
        """Return the candidates, the statuses of all other nodes, and the Error statuses."""
        snapshot = self._handle.snapshot
        outcome = NodeToStatus(snapshot.table.names, snapshot.table.row_of)
        outcome.absent_nodes_status = _NOT_HELPFUL
        rows = statuses.rows_with(Code.UNSCHEDULABLE)
        if not len(rows):
            return [], outcome, []
        offset, num_candidates = self._offset_and_num_candidates(len(rows))
        dry_run = DryRun(
            self._handle,
            state,
            pod,
            read_budgets=self._read_budgets,
            rules=self._rules,
            now=self._handle.now(),
        )
        first = offset % len(rows)
        nodes = snapshot.nodes.take(np.concatenate((rows[first:], rows[:first])))
        candidates, tried = await dry_run_preemption(dry_run, nodes, num_candidates=num_candidates)
        if candidates:
            return candidates, outcome, []
        for block, rejections in tried:
            outcome.set_rows(block.row_array, rejections)
        return [], outcome, error_statuses(tried)

    def _read_budgets(self) -> Budgets:
        self._budgets.update(self._handle.lister(PodDisruptionBudget).list())
        return self._budgets

    async def _call_extenders(
        self, pod: PodInfo, candidates: Sequence[Candidate]
    ) -> Sequence[Candidate]:
        """Return the candidates that the extenders accept, with the victims that they choose.

        Extenders without preemption may still reject the pod after the victims have terminated.
        """
        extenders = [
            extender
            for extender in self._handle.extenders
            if extender.supports_preemption and extender.is_interested(pod)
        ]
        if not extenders:
            return candidates
        victims = {candidate.name: candidate.victims for candidate in candidates}
        for extender in extenders:
            try:
                victims = await self._call_extender(extender, pod, victims)
            except ExtenderError as failure:
                if not extender.is_ignorable:
                    raise
                _log.info("Skipped extender %s, which failed: %s", extender.name, failure)
            if not victims:
                break
        return [Candidate(name, of_node) for name, of_node in victims.items()]

    async def _call_extender(
        self, extender: Extender, pod: PodInfo, victims: dict[str, Victims]
    ) -> dict[str, Victims]:
        """Return the nodes that an extender accepts; nodes without victims are an error."""
        answer = await extender.process_preemption(pod, victims, self._handle.snapshot)
        empty = [name for name, of_node in answer.items() if not of_node.pods]
        if empty and not extender.is_ignorable:
            raise ExtenderError(f'expected at least one victim pod on node "{empty[0]}"')
        return {name: of_node for name, of_node in answer.items() if of_node.pods}


def _is_terminating_by_preemption(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is None:
        return False
    target = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return (
        target is not None and target.status == "True" and target.reason == "PreemptionByScheduler"
    )


def _found_placement(candidate: Candidate) -> Status:
    """Name the node and the number of victims, as the pod's event does since 1.37."""
    return Status(
        Code.SUCCESS,
        f"found a potential placement for pod on node {candidate.name}, "
        f"preempting {len(candidate.victims.pods)} victims",
    )
