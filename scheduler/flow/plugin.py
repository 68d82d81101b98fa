"""FlowPlacement: plans a batch of pods, or a pod group, and names each pod's node.

    PreFilter of a pod without a plan --> plan for the pod and the pods behind it in the queue;
                                          all of them but this one are nominated to their nodes
    PreFilter of a pod with a plan    --> its node is filtered first
    GeneratePlacements                --> a plan for each domain of a group, the best one first

A plan is advice. A pod whose node does not pass the filters any more is searched another node in
the ordinary way, and so is a pod that the plan leaves out.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, ClassVar, Final, cast

from scheduler.flow.args import FlowPlacementArgs
from scheduler.flow.cost_models import COST_MODELS
from scheduler.flow.network import NoSolutionError
from scheduler.flow.planning import Batch
from scheduler.framework.cycle_state import StateKey
from scheduler.framework.failures import FrameworkError
from scheduler.framework.status import Status, skip
from scheduler.framework.types import (
    PODS_TO_ACTIVATE,
    NominatingInfo,
    NominatingMode,
    PreFilterResult,
)
from scheduler.plugins.topology_placement import TopologyPlacementGenerator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.flow.planning import Plan
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.events import ClusterEventWithHint
    from scheduler.framework.types import Placement, PodGroupInfo
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_log: Final = logging.getLogger(__name__)

#: The plan that a pod's cycle follows.
_PLAN: Final = StateKey["Plan"]("FlowPlacement")
#: The smallest batch: for a single pod the flow is the best node, which the cycle finds itself.
_BATCH_MIN: Final = 2


class _GroupPlans:
    """The plans of the pod group that is being scheduled, by the rows of the placement."""

    def __init__(self) -> None:
        #: The state of the group's cycle; None until its first member comes.
        self.cycle: CycleState | None = None
        self.plans: Final[dict[bytes, Plan]] = {}
        #: The members that have not come yet in a placement.
        self.waiting: Final[dict[bytes, set[str]]] = {}

    def add(self, rows: bytes, plan: Plan) -> None:
        self.plans[rows] = plan
        self.waiting[rows] = {*plan.considered}

    def take(self, rows: bytes, uid: str) -> Plan | None:
        """Return the plan of a member that comes for the first time; None if there is none."""
        if uid not in self.waiting.get(rows, ()):
            return None
        self.waiting[rows].remove(uid)
        return self.plans[rows]


class FlowPlacement(TopologyPlacementGenerator):
    """Plans batches and pod groups. It generates the placements of TopologyPlacementGenerator."""

    name: ClassVar[str] = "FlowPlacement"
    Args = FlowPlacementArgs

    def __init__(self) -> None:
        args = cast("FlowPlacementArgs", self.args)
        self._args: Final = args
        self._model: Final = COST_MODELS[args.cost_model](self.handle, args)
        #: The pods that wait for their cycles, with their plans, by uid.
        self._planned: Final[dict[str, tuple[PodInfo, Plan]]] = {}
        self._of_group = _GroupPlans()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return no events: the plugin rejects no pod."""
        return ()

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> PreFilterResult | Status | None:
        """Name the pod's node in its plan, which is made first if there is none."""
        # A report, or a dry run of a plan, has no pods to activate: it is no scheduling cycle.
        if state.find(PODS_TO_ACTIVATE) is None or pod.pod.status.nominated_node_name:
            return skip()
        try:
            if state.pod_group_state is not None:
                plan = self._plan_of_member(state.pod_group_state, pod)
            else:
                plan = self._plan_of_pod(pod)
        except (FrameworkError, NoSolutionError) as failure:
            _log.error("FlowPlacement: no plan for %s: %s", pod.key, failure)
            plan = None
        if plan is None:
            return skip()
        state.write(_PLAN, plan)
        return PreFilterResult(None, first_node_name=plan.nodes.get(pod.uid, ""))

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Add both choices to the story of the pod: by flow, and one by one."""
        if (plan := state.find(_PLAN)) is not None:
            # Reserve runs for a member of a group in the search, and again when it is assumed.
            state.delete(_PLAN)
            state.note(plan.story(pod.uid, node_name))
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Nothing was reserved."""

    # Single pods.

    def _plan_of_pod(self, pod: PodInfo) -> Plan | None:
        if (known := self._planned.pop(pod.uid, None)) is not None:
            return known[1]
        others = self._next_pods(pod)
        if 1 + len(others) < _BATCH_MIN:
            return None
        batch = self._batch([pod, *others])
        plan = self._plan(batch, self.handle.snapshot.nodes)
        nodes = plan.nodes
        for other in others:
            if other.uid in plan.considered:
                self._planned[other.uid] = (other, plan)
            if (name := nodes.get(other.uid)) is not None:
                info = NominatingInfo(name, NominatingMode.OVERRIDE)
                self.handle.nominator.add_nominated_pod(other, info)
        return plan

    def _next_pods(self, pod: PodInfo) -> list[PodInfo]:
        """Return the next pods of the queue that can be planned together with a pod.

        They have its priority: the pods of a lower one are planned when those of a higher one have
        their nodes. Plans of pods that are no longer in the queue are forgotten.
        """
        active = self.handle.active_pods(len(self._planned) + self._args.batch_size)
        uids = {other.uid for other in active}
        for uid in self._planned.keys() - uids:
            self.handle.nominator.delete_nominated_pod_if_exists(self._planned.pop(uid)[0])
        able = (
            other
            for other in active
            if other.priority == pod.priority
            and other.spec.scheduler_name == pod.spec.scheduler_name
            and other.uid not in self._planned
            and not other.pod_group_key
            and not other.pod.status.nominated_node_name
        )
        return list(itertools.islice(able, self._args.batch_size - 1))

    # Pod groups.

    def generate_placements(
        self, state: CycleState, pod_group: PodGroupInfo, parent: Placement
    ) -> Sequence[Placement] | Status:
        """Plan the group in each domain of its topology; return the domains, the best first.

        Where the plan knows the room for all members, the domains with room for the most are left.
        """
        placements = super().generate_placements(state, pod_group, parent)
        if isinstance(placements, Status):
            return placements
        self._of_group = _GroupPlans()
        try:
            batch = self._batch(pod_group.unscheduled_pods)
            plans = [self._plan(batch, placement.nodes) for placement in placements]
        except (FrameworkError, NoSolutionError) as failure:
            _log.error("FlowPlacement: no plan for %s: %s", pod_group.key, failure)
            return placements
        for placement, plan in zip(placements, plans, strict=True):
            self._of_group.add(placement.nodes.row_array.tobytes(), plan)
        ranks = [plan.chosen.rank for plan in plans]
        order = sorted(range(len(plans)), key=lambda number: ranks[number], reverse=True)
        if batch.is_simple:
            order = [number for number in order if ranks[number][0] == ranks[order[0]][0]]
        return [placements[number] for number in order]

    def _plan_of_member(self, cycle: CycleState, pod: PodInfo) -> Plan | None:
        """Return the plan for the placement that is searched; `cycle` is the group's state."""
        snapshot = self.handle.snapshot
        if self._of_group.cycle not in (None, cycle):
            self._of_group = _GroupPlans()
        self._of_group.cycle = cycle
        nodes = snapshot.nodes_in_placement
        rows = nodes.row_array.tobytes()
        plan = self._of_group.take(rows, pod.uid)
        group = snapshot.pod_groups.get(pod.pod_group_key)
        if plan is None and group is not None:
            # The members that have a node in this search are assumed in the snapshot.
            waiting = [o for o in group.unscheduled_pods.values() if not o.spec.scheduling_gates]
            waiting.sort(key=lambda other: (other.uid != pod.uid, -other.priority, other.name))
            self._of_group.add(rows, self._plan(self._batch(waiting), nodes))
            plan = self._of_group.take(rows, pod.uid)
        return plan

    # Plans.

    def _batch(self, pods: Sequence[PodInfo]) -> Batch:
        return Batch(self.handle, self._model, pods, candidates=self._args.candidates)

    def _plan(self, batch: Batch, nodes: Nodes) -> Plan:
        metrics = self.handle.metrics
        started, profile = metrics.stopwatch(), self.handle.profile_name
        plan = batch.plan(nodes)
        metrics.flow_planning_duration.observe(metrics.stopwatch() - started, profile)
        metrics.flow_batches["flow" if plan.is_by_flow else "one_by_one", profile] += 1
        metrics.flow_unplaced_pods[(profile,)] += len(plan.considered) - len(plan.chosen.placed)
        return plan
