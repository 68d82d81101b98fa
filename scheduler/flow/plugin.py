"""FlowPlacement: plans a batch of pods, or a pod group, and names each pod's node.

    PreFilter of a pod without a plan --> plan for the pod and the pods behind it in the queue;
                                          all of them but this one are nominated to their nodes
    PreFilter of a pod with a plan    --> its node is filtered first
    GeneratePlacements                --> a plan for each domain of a group, the best one first

A plan is advice. A pod whose node does not pass the filters any more is searched another node in
the ordinary way, and so is a pod that the plan leaves out. The plugin pauses while it plans, so
that other tasks can run.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar, cast

from scheduler.flow.args import FlowPlacementArgs
from scheduler.flow.cost_models import COST_MODELS
from scheduler.flow.network import NoSolutionError
from scheduler.flow.planning import Batch
from scheduler.framework.cycle_state import StateKey
from scheduler.framework.failures import FilterPausedError, FrameworkError
from scheduler.framework.status import Status, skip
from scheduler.framework.types import (
    NEXT_ON_NODE,
    PODS_TO_ACTIVATE,
    NominatingInfo,
    NominatingMode,
    PreFilterResult,
)
from scheduler.plugins.topology_placement import TopologyPlacementGenerator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.flow.planning import Plan, Steps
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.events import ClusterEventWithHint
    from scheduler.framework.types import Placement, PodGroupInfo
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)

#: The plan that a pod's cycle follows.
_PLAN: Final = StateKey["Plan"]("FlowPlacement")
#: The work between two pauses.
_SLICE_SECONDS: Final = 0.02
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
        #: The work that has paused, with its purpose.
        self._work: tuple[object, Steps[object]] | None = None

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
            plan = (
                state.find(_PLAN)
                or self._known_plan(state, pod)
                or self._continue(
                    (pod.uid, state),
                    state,
                    self._plan_for_pod(pod)
                    if state.pod_group_state is None
                    else self._plan_for_member(pod),
                )
            )
        except (FrameworkError, NoSolutionError) as failure:
            _log.error("FlowPlacement: no plan for %s: %s", pod.key, failure)
            plan = None
        if plan is None:
            return skip()
        if state.find(_PLAN) is None:
            state.note(plan.story(pod.uid))
        state.write(_PLAN, plan)
        if pod.spec.resource_claims:
            state.write(NEXT_ON_NODE, plan.next_on_node(pod))
        return PreFilterResult(None, first_node_name=plan.nodes.get(pod.uid, ""))

    def generate_placements(
        self, state: CycleState, pod_group: PodGroupInfo, parent: Placement
    ) -> Sequence[Placement] | Status:
        """Plan the group in each domain of its topology; return the domains, the best first.

        Where the plan knows the room for all members, the domains with room for the most are left.
        """
        placements = super().generate_placements(state, pod_group, parent)
        if isinstance(placements, Status):
            return placements
        try:
            steps = self._placements_in_order(pod_group, placements)
            return self._continue((pod_group.key, state), state, steps)
        except (FrameworkError, NoSolutionError) as failure:
            _log.error("FlowPlacement: no plan for %s: %s", pod_group.key, failure)
            return placements

    def _continue(self, purpose: object, state: CycleState, steps: Steps[T]) -> T:
        """Go on with the work for a purpose, or begin it; raises `FilterPausedError`."""
        if self._work is None or self._work[0] != purpose:
            self._work = (purpose, steps)
        started = self.handle.monotonic()
        try:
            while True:
                next(self._work[1])
                if state.may_pause and self.handle.monotonic() - started > _SLICE_SECONDS:
                    raise FilterPausedError
        except StopIteration as end:
            self._work = None
            return cast("T", end.value)
        except (FrameworkError, NoSolutionError):
            self._work = None
            raise

    def _known_plan(self, state: CycleState, pod: PodInfo) -> Plan | None:
        """Return the plan that an earlier pod of the batch or the group has made."""
        if state.pod_group_state is None:
            planned = self._planned.pop(pod.uid, None)
            return None if planned is None else planned[1]
        if self._of_group.cycle not in (None, state.pod_group_state):
            self._of_group = _GroupPlans()
        self._of_group.cycle = state.pod_group_state
        return self._of_group.take(_rows(self.handle.snapshot.nodes_in_placement), pod.uid)

    def _plan_for_pod(self, pod: PodInfo) -> Steps[Plan | None]:
        """Plan a pod and the next pods, and nominate these; None if there are none."""
        others = self._next_pods(pod)
        if 1 + len(others) < _BATCH_MIN:
            return None
        _, [plan] = yield from self._plans([pod, *others], [self.handle.snapshot.nodes])
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

    def _plan_for_member(self, pod: PodInfo) -> Steps[Plan | None]:
        """Plan all members that have no node in this search, on the nodes that are searched."""
        nodes = self.handle.snapshot.nodes_in_placement
        group = self.handle.snapshot.pod_groups.get(pod.pod_group_key)
        if group is None:
            return None
        waiting = [o for o in group.unscheduled_pods.values() if not o.spec.scheduling_gates]
        waiting.sort(key=lambda other: (other.uid != pod.uid, -other.priority, other.name))
        _, [plan] = yield from self._plans(waiting, [nodes])
        self._of_group.add(_rows(nodes), plan)
        return self._of_group.take(_rows(nodes), pod.uid)

    def _placements_in_order(
        self, pod_group: PodGroupInfo, placements: Sequence[Placement]
    ) -> Steps[Sequence[Placement]]:
        of_group = self._of_group = _GroupPlans()
        nodes = [placement.nodes for placement in placements]
        batch, plans = yield from self._plans(pod_group.unscheduled_pods, nodes)
        for of_placement, plan in zip(nodes, plans, strict=True):
            of_group.add(_rows(of_placement), plan)
        ranks = [plan.chosen.rank for plan in plans]
        order = sorted(range(len(plans)), key=lambda number: ranks[number], reverse=True)
        if batch.is_simple:
            order = [number for number in order if ranks[number][0] == ranks[order[0]][0]]
        return [placements[number] for number in order]

    def _plans(
        self, pods: Sequence[PodInfo], placements: Sequence[Nodes]
    ) -> Steps[tuple[Batch, list[Plan]]]:
        """Plan pods on the nodes of each placement."""
        metrics, profile = self.handle.metrics, self.handle.profile_name
        batch = Batch(self.handle, self._model, pods, candidates=self._args.candidates)
        started, plans = metrics.stopwatch(), []
        yield from batch.prepare()
        for nodes in placements:
            plan = yield from batch.plan(nodes)
            plans.append(plan)
            metrics.flow_planning_duration.observe(metrics.stopwatch() - started, profile)
            metrics.flow_batches["flow" if plan.is_by_flow else "one_by_one", profile] += 1
            metrics.flow_unplaced_pods[(profile,)] += len(plan.considered) - len(plan.nodes)
            started = metrics.stopwatch()
        return batch, plans


def _rows(nodes: Nodes) -> bytes:
    """Return the rows of some nodes as a key."""
    return nodes.row_array.tobytes()
