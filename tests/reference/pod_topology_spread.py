"""PodTopologySpread: `podtopologyspread/*.go`, `plugins/helper/spread.go`.

Each call reads every pod of every node.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.api.core import LabelSelector, Node, Pod, TopologySpreadConstraint
from scheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from tests.reference.cluster import UNRESOLVABLE, UNSCHEDULABLE, Cluster, Verdict
from tests.reference.go_integers import divide
from tests.reference.node_affinity import affinity_of, required_of, selects
from tests.reference.taint_toleration import tolerated

MAX_INT32 = 2**31 - 1
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
HOSTNAME = "kubernetes.io/hostname"

#: A selector's requirements: key, operator, values. None selects nothing.
Requirements = tuple[tuple[str, str, tuple[str, ...]], ...]


class Constraint(NamedTuple):
    max_skew: int
    key: str
    selector: Requirements | None
    min_domains: int
    affinity_policy: str
    taints_policy: str


class Owners(NamedTuple):
    """The objects whose selectors group pods."""

    services: tuple[Service, ...] = ()
    replication_controllers: tuple[ReplicationController, ...] = ()
    replica_sets: tuple[ReplicaSet, ...] = ()
    stateful_sets: tuple[StatefulSet, ...] = ()


class Defaults(NamedTuple):
    """The constraints of a profile for pods without their own."""

    constraints: tuple[TopologySpreadConstraint, ...] = ()
    is_system: bool = False
    owners: Owners = Owners()


NO_DEFAULTS = Defaults()


def requirements_of(selector: LabelSelector | None) -> Requirements | None:
    if selector is None:
        return None
    equal = [(key, "In", (value,)) for key, value in selector.match_labels.items()]
    return (*equal, *((e.key, e.operator, e.values) for e in selector.match_expressions))


def selected(requirements: Requirements | None, labels: Mapping[str, str]) -> bool:
    if requirements is None:
        return False
    for key, operator, values in requirements:
        there = key in labels
        holds = {
            "In": there and labels.get(key) in values,
            "NotIn": not there or labels.get(key) not in values,
            "Exists": there,
            "DoesNotExist": not there,
        }[operator]
        if not holds:
            return False
    return True


def constraints_of(pod: Pod, action: str, defaults: Defaults = NO_DEFAULTS) -> list[Constraint]:
    own = pod.spec.topology_spread_constraints
    if own:
        return [parsed(c, pod) for c in own if c.when_unsatisfiable == action]
    wanted = [c for c in defaults.constraints if c.when_unsatisfiable == action]
    selector = default_selector(pod, defaults.owners)
    if not wanted or selector == ():
        return []
    return [parsed(c, pod)._replace(selector=selector) for c in wanted]


def parsed(constraint: TopologySpreadConstraint, pod: Pod) -> Constraint:
    selector = requirements_of(constraint.label_selector)
    if selector is not None:
        for key in constraint.match_label_keys:
            if key in pod.metadata.labels:
                selector = (*selector, (key, "In", (pod.metadata.labels[key],)))
    return Constraint(
        constraint.max_skew,
        constraint.topology_key,
        selector,
        1 if constraint.min_domains is None else constraint.min_domains,
        "Honor" if constraint.node_affinity_policy is None else constraint.node_affinity_policy,
        "Ignore" if constraint.node_taints_policy is None else constraint.node_taints_policy,
    )


def default_selector(pod: Pod, owners: Owners) -> Requirements:
    labels: dict[str, str] = {}
    for service in owners.services:
        wanted = dict(service.spec.selector)
        same_namespace = service.metadata.namespace == pod.metadata.namespace
        if same_namespace and all(pod.metadata.labels.get(k) == v for k, v in wanted.items()):
            labels.update(wanted)
    further: Requirements = ()
    controllers = [owner for owner in pod.metadata.owner_references if owner.controller]
    if controllers:
        owner = controllers[0]
        name = (pod.metadata.namespace, owner.name)
        kind = (owner.api_version, owner.kind)
        for rc in owners.replication_controllers:
            this = (rc.metadata.namespace, rc.metadata.name)
            if kind == ("v1", "ReplicationController") and this == name:
                labels.update(rc.spec.selector)
        sets = {
            ("apps/v1", "ReplicaSet"): owners.replica_sets,
            ("apps/v1", "StatefulSet"): owners.stateful_sets,
        }
        for one in sets.get(kind, ()):
            if (one.metadata.namespace, one.metadata.name) == name:
                further = requirements_of(one.spec.selector) or ()
                if any(operator not in OPERATORS for _, operator, _ in further):
                    further = ()  # malformed, which is passed over
    return (*((key, "In", (value,)) for key, value in labels.items()), *further)


def has_all_keys(node: Node, constraints: Iterable[Constraint]) -> bool:
    return all(constraint.key in node.metadata.labels for constraint in constraints)


def meets_policies(pod: Pod, node: Node, constraint: Constraint) -> bool:
    if constraint.affinity_policy == "Honor":
        labels = node.metadata.labels
        if not all(labels.get(key) == value for key, value in pod.spec.node_selector.items()):
            return False
        required = required_of(affinity_of(pod))
        if required is not None and not selects(required, node):
            return False
    if constraint.taints_policy == "Honor":
        for taint in node.spec.taints:
            hard = taint.effect in ("NoSchedule", "NoExecute")
            if hard and not tolerated(taint, pod.spec.tolerations):
                return False
    return True


def matching_pods(pods: Iterable[Pod], selector: Requirements | None, namespace: str) -> int:
    if selector == ():
        return 0
    count = 0
    for pod in pods:
        if pod.metadata.deletion_timestamp is not None or pod.metadata.namespace != namespace:
            continue
        if selected(selector, pod.metadata.labels):
            count += 1
    return count


@dataclass
class State:
    """The result of PreFilter; `add_pod` and `remove_pod` change it."""

    constraints: list[Constraint]
    counts: list[dict[str, int]] = field(default_factory=list)


def pre_filter(pod: Pod, cluster: Cluster, defaults: Defaults = NO_DEFAULTS) -> State:
    state = State(constraints_of(pod, "DoNotSchedule", defaults))
    for constraint in state.constraints:
        counts: dict[str, int] = {}
        for node in cluster.nodes:
            if not has_all_keys(node, state.constraints):
                continue
            if not meets_policies(pod, node, constraint):
                continue
            value = node.metadata.labels[constraint.key]
            matching = matching_pods(
                cluster.pods_on(node), constraint.selector, pod.metadata.namespace
            )
            counts[value] = counts.get(value, 0) + matching
        state.counts.append(counts)
    return state


def add_pod(state: State, pod: Pod, added: Pod, node: Node, by: int = 1) -> None:
    if added.metadata.namespace != pod.metadata.namespace:
        return
    if not has_all_keys(node, state.constraints):
        return
    for constraint, counts in zip(state.constraints, state.counts, strict=True):
        if not selected(constraint.selector, added.metadata.labels):
            continue
        if meets_policies(pod, node, constraint):
            counts[node.metadata.labels[constraint.key]] += by


def remove_pod(state: State, pod: Pod, removed: Pod, node: Node) -> None:
    add_pod(state, pod, removed, node, by=-1)


def filter_node(pod: Pod, node: Node, state: State) -> Verdict | None:
    reason = "node(s) didn't match pod topology spread constraints"
    for constraint, counts in zip(state.constraints, state.counts, strict=True):
        if constraint.key not in node.metadata.labels:
            return UNRESOLVABLE, (f"{reason} (missing required label)",)
        least = min([MAX_INT32, *counts.values()])
        if len(counts) < constraint.min_domains:
            least = 0
        itself = 1 if selected(constraint.selector, pod.metadata.labels) else 0
        there = counts.get(node.metadata.labels[constraint.key], 0)
        if there + itself - least > constraint.max_skew:
            return UNSCHEDULABLE, (reason,)
    return None


def scores(
    pod: Pod, feasible: list[Node], cluster: Cluster, defaults: Defaults = NO_DEFAULTS
) -> list[int] | None:
    """Return normalised scores of the feasible nodes; None if the plugin skips the pod."""
    constraints = constraints_of(pod, "ScheduleAnyway", defaults)
    if not constraints:
        return None
    require_all = bool(pod.spec.topology_spread_constraints) or not defaults.is_system
    ignored = [require_all and not has_all_keys(node, constraints) for node in feasible]
    judged = [node for node, out in zip(feasible, ignored, strict=True) if not out]
    raw = []
    for node, out in zip(feasible, ignored, strict=True):
        score = 0.0
        for constraint in constraints:
            if not out and constraint.key in node.metadata.labels:
                score += charge(pod, node, constraint, constraints, judged, cluster, require_all)
        raw.append(math.floor(score) + (1 if score - math.floor(score) >= 0.5 else 0))
    return normalized(raw, ignored)


def charge(
    pod: Pod,
    node: Node,
    constraint: Constraint,
    constraints: list[Constraint],
    judged: list[Node],
    cluster: Cluster,
    require_all: bool,
) -> float:
    namespace = pod.metadata.namespace
    if constraint.key == HOSTNAME:
        size = len(judged)
        count = matching_pods(cluster.pods_on(node), constraint.selector, namespace)
    else:
        # A label that is not there reads as an empty one.
        size = len({other.metadata.labels.get(constraint.key, "") for other in judged})
        count = 0
        for other in cluster.nodes:
            same = other.metadata.labels.get(constraint.key, "")
            if require_all and not has_all_keys(other, constraints):
                continue
            if same == node.metadata.labels[constraint.key] and meets_policies(
                pod, other, constraint
            ):
                count += matching_pods(cluster.pods_on(other), constraint.selector, namespace)
    return count * math.log(size + 2) + (constraint.max_skew - 1)


def normalized(raw: list[int], ignored: list[bool]) -> list[int]:
    judged = [score for score, out in zip(raw, ignored, strict=True) if not out]
    highest, lowest = max([0, *judged]), min(judged, default=0)
    found = []
    for score, out in zip(raw, ignored, strict=True):
        if out:
            found.append(0)
        elif highest == 0:
            found.append(100)
        else:
            found.append(divide(100 * (highest + lowest - score), highest))
    return found
