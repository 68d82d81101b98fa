"""Invariants of single decisions: bindings, victims, and the pods that are left at the end.

Each is a function of a history and yields its violations. The suite's own arithmetic and matching
(`feasibility`) are the judge, not an API server's or a scheduler's.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ..format.reading import is_over, name_in, name_of, node_of, text_in
from ..format.resources import objects, part
from . import feasibility as rules
from .devices import Devices, held_claims
from .feasibility import feasible_nodes, reasons_against
from .history import with_nominated
from .matching import labels_of, selects
from .state import is_ending, placed_on, priority_of, uid_of
from .violation import Violation, invariant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ..api import Json
    from .history import Binding, History, Preemption
    from .state import State


@invariant("pkg/scheduler/framework/plugins/noderesources fitsRequest")
def no_overcommit(history: History) -> Iterator[Violation]:
    """A bound pod's requests fit into what its node had left: resources and number of pods."""
    yield from _broken_at_binding(history, rules.resources)


@invariant("pkg/scheduler/framework HostPortInfo.CheckConflict")
def no_port_conflict(history: History) -> Iterator[Violation]:
    """A bound pod's host ports were free on its node."""
    yield from _broken_at_binding(history, rules.ports)


@invariant("https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/")
def taints_respected(history: History) -> Iterator[Violation]:
    """A bound pod tolerates the taints NoSchedule and NoExecute of its node, and a cordon."""
    yield from _broken_at_binding(history, rules.taints)


@invariant("https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity")
def node_affinity_held(history: History) -> Iterator[Violation]:
    """A bound pod's node matches its node selector and its required node affinity."""
    yield from _broken_at_binding(history, rules.node_affinity)


@invariant("pkg/scheduler/framework/plugins/interpodaffinity satisfyPodAffinity")
def pod_affinity_held(history: History) -> Iterator[Violation]:
    """The pods that a bound pod's required affinity names were in the domain of its node."""
    yield from _broken_at_binding(history, rules.affinity)


@invariant("pkg/scheduler/framework/plugins/interpodaffinity satisfyPodAntiAffinity")
def pod_anti_affinity_held(history: History) -> Iterator[Violation]:
    """No required anti-affinity, its own or another pod's, keeps a bound pod off its node."""
    yield from _broken_at_binding(history, rules.anti_affinity)


@invariant("pkg/scheduler/framework/plugins/podtopologyspread Filter")
def hard_spread_held(history: History) -> Iterator[Violation]:
    """A bound pod keeps the skew of its constraints with DoNotSchedule."""
    yield from _broken_at_binding(history, rules.spread)


@invariant("pkg/scheduler/framework/plugins/volumebinding FindPodVolumes")
def volumes_reachable(history: History) -> Iterator[Violation]:
    """A bound pod's claims are bound, reachable from its node, and free if for one pod only."""
    yield from _broken_at_binding(history, rules.volumes)


@invariant("pkg/scheduler/framework/plugins/dynamicresources Reserve, PreBind")
def claims_held(history: History) -> Iterator[Violation]:
    """A bound pod's claims are for its node and for it, and their devices meet the constraints."""
    yield from _broken_at_binding(history, held_claims)


@invariant("https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/")
def devices_given_once(history: History) -> Iterator[Violation]:
    """No device, capacity or counter is given to more claims than it suffices for."""
    for allocation in history.allocations:
        reasons = []
        for state in allocation.moments:
            there = Devices(state)
            # A conflict that was there before is none of this claim.
            known = there.conflict(there.taken)
            reasons.append(
                None if known else there.conflict([*there.taken, *there.taken_by(allocation.claim)])
            )
        if all(reasons):
            name = name_of(allocation.claim)
            text = f"with the devices of claim {name}, {reasons[0]}"
            claims = [*allocation.moments[0].of_kind("ResourceClaim"), allocation.claim]
            users = sorted({user for claim in claims for user in _users(claim)})
            expect: Json = {"pods": users, "bound_count": {"at_most": len(users) - 1}}
            yield Violation(text=text, step=allocation.step, expect=expect)


def _users(claim: Json) -> list[str]:
    """Return the pods for which a claim is reserved."""
    namespace = text_in(part(claim, "metadata"), "namespace")
    users = objects(part(claim, "status").get("reservedFor"))
    return [name_in(namespace, text_in(user, "name")) for user in users]


def _broken_at_binding(history: History, rule: rules.Rule) -> Iterator[Violation]:
    """Yield the bindings that break a rule at each moment on which they may be based."""
    for binding in history.bindings:
        reasons = [_reason(binding, rule, state) for state in binding.moments]
        if all(reasons):
            text = f"pod {name_of(binding.pod)} was bound to {binding.node_name}: {reasons[0]}"
            yield Violation(text=text, step=binding.step, expect=_elsewhere(binding))


def _reason(binding: Binding, rule: rules.Rule, state: State) -> str | None:
    node = state.nodes.get(binding.node_name)
    return None if node is None else rule(binding.pod, node, state)


def _elsewhere(binding: Binding) -> Json:
    """Return the expectation that a pod is on a node where it may run, or on none."""
    name = name_of(binding.pod)
    nodes = feasible_nodes(binding.pod, binding.moments[0])
    return {"pod": name, "bound_to_one_of": nodes} if nodes else {"pod": name, "not_bound": True}


@invariant("pkg/scheduler/framework/preemption SelectVictimsOnNode")
def victims_of_lower_priority(history: History) -> Iterator[Violation]:
    """A pod is preempted only by a pod of higher priority that waits for a node.

    A victim that ends by itself may be evicted late, when the preemptor has its node.
    """
    for event in history.preemptions:
        for victim in event.victims:
            if is_over(victim):
                continue
            if event.preemptor is None:
                above = any(
                    priority_of(pod) > priority_of(victim) and not node_of(pod)
                    for state in event.moments
                    for pod in state.pods.values()
                )
                why = "and no waiting pod has a higher priority"
            else:
                above = priority_of(event.preemptor) > priority_of(victim)
                why = f"by {name_of(event.preemptor)}, whose priority is not higher"
            if not above:
                text = f"pod {name_of(victim)} was preempted {why}"
                yield Violation(text=text, step=event.step, expect=_still_there([victim]))


@invariant("pkg/scheduler/framework/plugins/defaultpreemption SelectVictimsOnNode: reprieve")
def victims_minimal(history: History) -> Iterator[Violation]:
    """No victim could have been spared: with it on the node, the preemptor would not fit."""
    for event in history.preemptions:
        for victim in event.victims:
            if event.preemptor is not None and _was_spare(event, event.preemptor, victim):
                others = ", ".join(name_of(pod) for pod in event.victims if pod is not victim)
                also = f" beside {others}" if others else ""
                text = (
                    f"pod {name_of(victim)} was preempted{also} by {name_of(event.preemptor)}, "
                    f"which fits on {event.node_name} with it"
                )
                yield Violation(text=text, step=event.step, expect=_still_there(event.victims))


def _was_spare(event: Preemption, preemptor: Json, victim: Json) -> bool:
    """Return True if the preemptor fits beside one of its victims, at each moment."""
    others = [uid_of(pod) for pod in event.victims if pod is not victim]
    return all(
        event.node_name in state.nodes
        and _fits(preemptor, event.node_name, state.with_pods([victim]).without(others))
        for state in event.moments
    )


def _fits(pod: Json, node_name: str, state: State) -> bool:
    """Return True if a pod fits on a node, and leaves the room of nominated pods free."""
    node = state.nodes[node_name]
    return not any(
        reasons_against(pod, node, moment) for moment in (state, with_nominated(state, pod))
    )


def _still_there(victims: Iterable[Json]) -> Json:
    """Return the expectation that not all of some pods were preempted."""
    names = [name_of(pod) for pod in victims]
    return {"pods": names, "bound_count": {"at_least": 1}}


@invariant("pkg/scheduler/framework/preemption pickOneNodeForPreemption: minNumPDBViolating")
def budgets_violated_only_if_unavoidable(history: History) -> Iterator[Violation]:
    """No disruption budget is violated if other victims, on any node, would have done."""
    for event in history.preemptions:
        if event.preemptor is None:
            continue
        violated = _violated(event.victims, event.moments[0])
        if violated is None:
            continue
        ways = [_without_violation(event.preemptor, state) for state in event.moments]
        if all(ways):
            victims = ", ".join(name_of(victim) for victim in event.victims)
            text = (
                f"{victims} preempted by {name_of(event.preemptor)} against the budget "
                f"{name_of(violated)}; on {ways[0]} no budget would be violated"
            )
            yield Violation(text=text, step=event.step, expect=_still_there(event.victims))


@invariant("pkg/scheduler/framework/runtime RunFilterPluginsWithNominatedPods")
def nominated_room_kept(history: History) -> Iterator[Violation]:
    """Room that is nominated for a pod is not given to a pod of lower priority."""
    for binding in history.bindings:
        rivals = [_rival(binding, state, history.scheduler_names) for state in binding.moments]
        if all(rivals) and rivals[0] is not None:
            text = (
                f"pod {name_of(binding.pod)} was bound to {binding.node_name}, whose room is "
                f"nominated for {name_of(rivals[0])} of higher priority"
            )
            expect: Json = {"pod": name_of(binding.pod), "not_bound": True}
            yield Violation(text=text, step=binding.step, expect=expect)


def _rival(binding: Binding, state: State, scheduler_names: Collection[str]) -> Json | None:
    """Return a more important pod that is nominated for the node and leaves no room there."""
    node = state.nodes.get(binding.node_name)
    if node is None or reasons_against(binding.pod, node, state):
        return None
    for other in state.pods.values():
        if (
            part(other, "status").get("nominatedNodeName") == binding.node_name
            and not node_of(other)
            and part(other, "spec").get("schedulerName") in scheduler_names
            and priority_of(other) > priority_of(binding.pod)
            and reasons_against(
                binding.pod, node, state.with_pods([placed_on(other, binding.node_name)])
            )
        ):
            return other
    return None


#: So often a pod may evict the pods of one name.
_EVICTIONS_MAX: Final = 2


@invariant("pkg/scheduler/framework/preemption: a preemptor has the room that it has made")
def evictions_end(history: History) -> Iterator[Violation]:
    """No two pods evict each other, and no pod evicts the pods of one name again and again."""
    counts: Counter[tuple[str, str]] = Counter()
    for event in history.preemptions:
        for victim in event.victims if event.preemptor is not None else ():
            pair = name_of(event.preemptor or {}), name_of(victim)
            counts[pair] += 1
            is_mutual = counts[pair[1], pair[0]] > 0
            if is_mutual or counts[pair] == _EVICTIONS_MAX + 1:
                text = (
                    f"pods {pair[0]} and {pair[1]} evict each other"
                    if is_mutual
                    else f"pod {pair[0]} evicts pods named {pair[1]} again and again"
                )
                yield Violation(text=text, step=event.step, expect=_still_there([victim]))


def _violated(victims: Iterable[Json], state: State) -> Json | None:
    """Return a budget of which more pods are victims than it allows."""
    for budget in state.of_kind("PodDisruptionBudget"):
        if sum(_is_covered(victim, budget) for victim in victims) > _allowed(budget):
            return budget
    return None


def _allowed(budget: Json) -> int:
    allowed = part(budget, "status").get("disruptionsAllowed")
    return allowed if isinstance(allowed, int) else 0


def _is_covered(pod: Json, budget: Json) -> bool:
    """Return True if a budget covers a pod."""
    selector = part(budget, "spec").get("selector")
    here = part(budget, "metadata").get("namespace") == part(pod, "metadata").get("namespace")
    return here and selects(selector, labels_of(pod))


def _without_violation(preemptor: Json, state: State) -> str | None:
    """Return a node on which victims without a budget are enough; None if there is none."""
    for name in state.nodes:
        lower = [p for p in state.pods_on(name) if priority_of(p) < priority_of(preemptor)]
        free = [pod for pod in lower if not _is_protected(pod, lower, state)]
        if not free or not _fits(preemptor, name, state.without(map(uid_of, lower))):
            continue
        if _fits(preemptor, name, state.without(map(uid_of, free))):
            return name
    return None


def _is_protected(pod: Json, lower: Iterable[Json], state: State) -> bool:
    """Return True if preempting all these pods would violate a budget of this one."""
    return any(
        _is_covered(pod, budget)
        and sum(_is_covered(other, budget) for other in lower) > _allowed(budget)
        for budget in state.of_kind("PodDisruptionBudget")
    )


@invariant("pkg/scheduler handleSchedulingFailure; ScheduleOne")
def no_pod_lost(history: History) -> Iterator[Violation]:
    """Each pod of the scheduler is bound to a node that exists, preempted, or reported."""
    for binding in history.bindings:
        if not any(binding.node_name in state.nodes for state in binding.moments):
            text = f"pod {name_of(binding.pod)} was bound to {binding.node_name}, which is no node"
            yield Violation(text=text, step=binding.step, expect=_elsewhere(binding))
    for pod in _waiting(history):
        conditions = objects(part(pod, "status").get("conditions"))
        if not any(entry.get("type") == "PodScheduled" for entry in conditions):
            text = f"pod {name_of(pod)} is neither bound nor reported as unschedulable"
            expect: Json = {"pod": name_of(pod), "condition": {"type": "PodScheduled"}}
            yield Violation(text=text, step="", expect=expect)


@invariant("pkg/scheduler/backend/queue: each plugin's EventsToRegister and queueing hints")
def no_pod_starved(history: History) -> Iterator[Violation]:
    """At the end no pod waits that fits on a node.

    The case must end with a pause that is longer than a backoff (`advance: 15s`). Room that is kept
    for nominated pods of at least its priority does not count.
    """
    for pod in _waiting(history):
        nodes = [name for name in history.end.nodes if _fits(pod, name, history.end)]
        if nodes:
            text = f"pod {name_of(pod)} still waits, and fits on {', '.join(nodes)}"
            expect: Json = {"pod": name_of(pod), "bound_to_one_of": nodes}
            yield Violation(text=text, step="", expect=expect)


def _waiting(history: History) -> Iterator[Json]:
    """Return the scheduler's pods that exist at the end without a node and without gates."""
    for pod in history.end.pods.values():
        spec = part(pod, "spec")
        name = spec.get("schedulerName", "default-scheduler")
        is_ours = name in history.scheduler_names
        if is_ours and not node_of(pod) and not is_ending(pod) and not spec.get("schedulingGates"):
            yield pod
