"""Invariants of a scheduler: at any time, when everything is idle, and at the end.

The computation of room is written from the rules and shares nothing with the plugins.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from scheduler.api.core import Node, Pod
from scheduler.api.pod_groups import POD_GROUP_SCHEDULED, PodGroup
from scheduler.cache import compare
from scheduler.config import GANG_SCHEDULING, TOPOLOGY_AWARE_WORKLOAD_SCHEDULING

from .api_store import ApiStore
from .device_traits import EXTENDED
from .line import overload

if TYPE_CHECKING:  # the simulation imports this module
    from .simulation import Simulation

OURS = "default-scheduler"
#: A pod is in one of these combinations of places.
SOUND = (
    {"queued"},
    {"in flight"},
    {"in flight", "assumed"},
    {"assumed"},
    {"assigned"},
    # Bound by another client during the attempt: until the attempt ends.
    {"in flight", "assigned"},
)


def check_always(simulation: Simulation) -> None:
    """Check the invariants that hold at any time."""
    line = simulation.line
    line.queue.check()
    line.cache.check()
    for uid, places in _places(simulation).items():
        assert places in SOUND, f"{uid} is in {sorted(places)}"
    complaints = [
        *line.cache.complaints,
        *simulation.writes.complaints,
        *simulation.bugs.found,
        *map(repr, line.failures),
        *map(repr, line.corruptions),
        *simulation.store.regressions,
    ]
    assert not complaints, "; ".join(complaints)
    assert not line.failed_handlers.messages, line.failed_handlers.messages


def check_at_rest(simulation: Simulation) -> None:
    """Check what holds when all tasks wait: cache and queue agree with the informers.

    Pods that are being bound may be gone meanwhile.
    """
    line = simulation.line
    queue, cache = line.queue, line.cache
    pods = [pod for pod in line.informers["pods"].lister.list() if _is_known(pod)]
    under_way = {pod.metadata.uid for pod in queue.in_flight_pods()}
    under_way |= {uid for uid, pod in cache.pods.items() if cache.is_assumed_pod(pod.pod)}
    difference = compare(
        cache,
        nodes=line.informers["nodes"].lister.list(),
        pods=pods,
        queued=queue.pending_pods()[0],
    )
    known = {pod.metadata.uid: pod for pod in pods}
    # A pod that is being deleted is not tried again.
    going = {uid for uid, pod in known.items() if pod.metadata.deletion_timestamp is not None}
    missed = [pod for pod in difference.missed_pods if _uid(pod) not in under_way | going]
    extra = [pod for pod in difference.redundant_pods if _uid(pod) not in under_way]
    assert not missed, f"lost: {missed}"
    assert not extra, f"gone, but still here: {extra}"
    assert not difference.missed_nodes, f"lost: {difference.missed_nodes}"
    assert not difference.redundant_nodes, f"gone, but still here: {difference.redundant_nodes}"
    for uid, info in cache.pods.items():
        if uid in known and uid not in under_way:
            assert info.pod == known[uid], f"the cache has another version of {uid}"
    _check_members(simulation, known, under_way)
    for queued in queue.pending_pods()[0]:
        now = known.get(queued.metadata.uid)
        assert now is None or now == queued, f"the queue has another version of {queued.key}"


def check_idle(simulation: Simulation) -> None:
    """Check what holds when nothing is in flight: the scheduler agrees with the API server."""
    line, store = simulation.line, simulation.store
    assert line.is_idle, "something is still under way"
    assert not line.queue.in_flight_pods(), (
        f"for ever in flight: {[p.key for p in line.queue.in_flight_pods()]}"
    )
    assert not line.cache.statistics().assumed_pods, "for ever assumed"
    assert not len(line.waiting_pods), "for ever waiting for permission"
    unfinished = {
        pod.metadata.uid: pod for pod in store.pods.now.values() if _is_known(pod) and _holds(pod)
    }
    bound = {uid: pod for uid, pod in unfinished.items() if pod.spec.node_name}
    assert {uid: info.pod for uid, info in line.cache.pods.items()} == bound
    assert line.cache.nodes == store.nodes.now
    pending = {pod.metadata.uid for pod in line.queue.pending_pods()[0]}
    assert pending == unfinished.keys() - bound.keys()
    nominated = set(line.queue.nominator.nominations)
    assert nominated <= pending, f"nominated, but not waiting: {nominated - pending}"
    _check_metrics(simulation)
    if line.has_groups:
        for key, group in store.pod_groups.now.items():
            _check_not_split(simulation, key)
            _check_condition(simulation, key, group)


def _check_members(
    simulation: Simulation, known: Mapping[str, Pod], under_way: Collection[str]
) -> None:
    """Check that the cache knows the members of each group, and how far they are."""
    line = simulation.line
    members: defaultdict[str, set[str]] = defaultdict(set)
    for uid, pod in known.items():
        if line.has_groups and pod.spec.scheduling_group is not None:
            members[group_key(pod)].add(uid)
    for key in members.keys() | simulation.store.pod_groups.now.keys():
        state = line.cache.pod_group(key)
        cached = set() if state is None else {p.uid for p in state.scheduled_pods}
        with_node = {uid for uid in members[key] if uid in line.cache.pods}
        assert cached - set(under_way) == with_node - set(under_way), f"{key}: members with a node"
        waiting = set() if state is None else set(state.unscheduled_pods)
        without = members[key] - with_node
        assert waiting - set(under_way) == without - set(under_way), f"{key}: waiting members"


def _check_metrics(simulation: Simulation) -> None:
    """Check that the metrics agree with the queue and with what has been done."""
    line = simulation.line
    statistics = line.queue.statistics()
    in_pools = statistics.active + statistics.backoff + statistics.unschedulable + statistics.gated
    assert in_pools == len(line.queue.pending_pods()[0]), f"the depth of the queue: {statistics}"
    assert statistics.in_flight_pods == statistics.in_flight_events == 0, statistics
    assert not any(line.metrics.goroutines.values()), "bindings that never ended"
    negative = {k: v for k, v in line.queue.unschedulable_reasons.items() if v < 0}
    assert not negative, f"waiting pods below zero: {negative}"


def _check_not_split(simulation: Simulation, key: str) -> None:
    """Check that no gang is bound in part, unless something has split it.

    The bindings of a gang are separate requests, as upstream. None is sent before Permit has seen
    minCount members with a node (`Line._check_gang`). But if one of them fails, or the scheduler is
    killed between two of them, the others stay bound: nothing undoes a binding (`bindingCycle` in
    `schedule_one.go` unreserves the failed pod alone). The failed member goes back to the queue and
    is tried again with all others that wait. The bound ones count for minCount
    (`ScheduledPodsCount`), so it is bound as soon as it fits, alone if need be. Members may also
    have ended, been deleted or preempted one by one, or bound by another client; or the claims of a
    member cannot be written while the others are bound. In all these cases
    the rest must be completed: `check_nothing_was_done` and `check_no_group_waits_for_room` find a
    member that fits and waits.
    """
    if simulation.bugs.has_failed_claims:
        return
    if GANG_SCHEDULING in simulation.feature_gates and key not in simulation.split_groups:
        assert not is_split(simulation.store, key), f"{key} is bound in part"


def _check_condition(simulation: Simulation, key: str, group: PodGroup) -> None:
    """Check that the condition is the result of the last attempt, or True from an earlier one.

    A patch that failed is not sent again before the next attempt, as upstream.
    """
    story = simulation.line.stories.group_as_json(*key.split("/"))
    if story is None or key in simulation.writes.groups_not_patched:
        return
    known = json.loads(story)
    if known["uid"] != group.metadata.uid:
        return
    condition = group.condition(POD_GROUP_SCHEDULED)
    assert condition is not None, f"{key} has no condition after {known['entries']}"
    results = [entry["result"] for entry in known["entries"]]
    was_scheduled = "scheduled" in results
    assert condition.status == "True" or not was_scheduled, f"{key} is not reported as scheduled"
    if condition.status != "True":
        last = known["entries"][-1]
        assert condition.message == last["message"], f"{key}: {condition.message!r}, not {last}"


def is_split(store: ApiStore, key: str) -> bool:
    """Return True if a gang has members with a node, but fewer than minCount."""
    gang = store.pod_groups.now[key].spec.scheduling_policy.gang
    bound = sum(
        1
        for pod in store.pods.now.values()
        if pod.spec.scheduling_group and group_key(pod) == key and pod.spec.node_name
    )
    return gang is not None and 0 < bound < gang.min_count


def group_key(pod: Pod) -> str:
    """Return the `namespace/name` of the pod's group; empty without one."""
    group = pod.spec.scheduling_group
    return f"{pod.metadata.namespace}/{group.pod_group_name}" if group else ""


def check_nothing_was_done(simulation: Simulation, fresh: Simulation) -> None:
    """Check that a fresh scheduler bound and deleted nothing in its copy of the cluster."""
    for write in ("bind", "delete"):
        found = [
            f"{key} to {pod.spec.node_name}"
            for key, pod in fresh.store.pods.now.items()
            if pod.spec.node_name != simulation.store.pods.now[key].spec.node_name
        ]
        count = fresh.writes.made[write]
        assert not count, f"a fresh scheduler finds {count} pods to {write}: {found}"


def overlooked(simulation: Simulation) -> set[str]:
    """Return the pods that no event helps though it should; upstream leaves them waiting as well.

    - InterPodAffinity's hint for nodes reads the terms of the waiting pod, and not those of the
      pods that reject it: a new node does not help it (`plugin.go`,
      `isSchedulableAfterNodeChange`).
    - A preemptor is gated while its preemption clears nominations. If the victim, called back from
      Permit by an earlier attempt, gives up its place just then, no event reaches the preemptor
      (`executor.go`, `prepareCandidateAsync`).
    - A pod that is assumed on one node and bound by another client to another node frees room
      without an event (`cache.go`, `AddPod`).
    - Devices that were given back without an event, see `WatchfulTracker`.
    - A pod that another plugin rejects, and whose preemption finds no devices, waits for none:
      the filters of the dry run are no rejectors (`getUnschedulablePlugins`).
    """
    queue, cache = simulation.line.queue, simulation.line.cache
    found = set(stuck_preemptors(simulation))
    for pod in queue.pending_pods()[0]:
        info = queue.find(pod.key)
        rejectors = info.unschedulable_plugins if info is not None else set()
        is_hated = pod.spec.affinity is None and "InterPodAffinity" in rejectors
        has_silent_releases = simulation.line.tracker.silent_releases > 0
        waits_for_devices = has_silent_releases and "DynamicResources" in rejectors
        may_preempt = _priority(pod) > 0 and "DynamicResources" not in rejectors
        waits_for_devices |= may_preempt and wants_devices(pod)
        if cache.contradictions or is_hated or waits_for_devices:
            found.add(pod.key)
    return found


def gated_with_nomination(simulation: Simulation) -> list[str]:
    """Return the nominated members that wait for their pod group, which was deleted.

    As upstream, they keep the room that preemption has made for them, and a fresh scheduler does
    not: it nominates a pod when it first becomes active (`moveToActiveQ`).
    """
    queue = simulation.line.queue
    nominations = queue.nominator.nominations
    waiting = queue.unschedulable_pods
    return [i.key for i in waiting if i.gating_plugin == "GangScheduling" and i.uid in nominations]


def tries_members_in_another_order(simulation: Simulation) -> bool:
    """Return True if a fresh scheduler would try the waiting members of a group in another order.

    As upstream, of equally important members the one that was active first is tried first. To a
    fresh scheduler all of them are new. If members differ, the order decides which of them fit
    together.
    """
    pools = simulation.line.queue.pools.values()
    waiting = [(info, info.pod_info) for pool in pools for info in pool.in_order()]
    by_name = sorted(
        (pod.pod_group_key, -pod.priority, pod.name, info.initial_attempt_timestamp or math.inf)
        for info, pod in waiting
        if pod.pod_group_key
    )
    by_age = sorted(by_name, key=lambda member: (*member[:2], member[3]))
    return by_age != by_name


def stuck_preemptors(simulation: Simulation) -> list[str]:
    """The pods that are still gated by a preemption, though all has come to rest."""
    queue = simulation.line.queue
    waiting = queue.unschedulable_pods
    return [info.key for info in waiting if info.gating_plugin == "DefaultPreemption"]


def check_no_pod_waits_for_room(simulation: Simulation, *, but: Collection[str] = ()) -> None:
    """Check that no pod waits for room that is free, or held by less important pods."""
    could_run = simulation.line.could_run()
    for key in but:
        could_run.pop(key, None)
    assert not could_run, f"they wait, though they would get a node: {could_run}"
    store = simulation.store
    pods = [pod for pod in store.pods.now.values() if _holds(pod)]
    for pod in pods:
        ours = pod.spec.scheduler_name == OURS and not pod.spec.node_name
        ours &= not (simulation.line.has_groups and pod.spec.scheduling_group)
        if ours and _can_go(pod) and pod.key not in but:
            for node in store.nodes.now.values():
                _check_has_no_room(pod, node, pods)


def check_no_group_waits_for_room(simulation: Simulation) -> None:
    """Check that no pod group waits for room that is free.

    A member of a basic group needs a node for itself. Of a gang so many must fit at once that
    minCount have a node; that is decided for gangs of equal pods only, whose order cannot matter.
    """
    line, store = simulation.line, simulation.store
    if not line.has_groups:
        return
    members: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in store.pods.now.values():
        if pod.spec.scheduling_group and _holds(pod) and _is_known(pod):
            members[group_key(pod)].append(pod)
    for key, pods in members.items():
        group = store.pod_groups.now.get(key)
        if group is None and GANG_SCHEDULING in line.feature_gates:
            continue
        gang = group.spec.scheduling_policy.gang if group is not None else None
        min_count = gang.min_count if gang and GANG_SCHEDULING in line.feature_gates else 0
        waiting = [pod for pod in pods if not pod.spec.node_name and _can_go(pod)]
        with_node = [pod for pod in pods if pod.spec.node_name]
        missing = max(1, min_count - len(with_node))
        are_equal = all(
            p.spec == waiting[0].spec and p.metadata.labels == waiting[0].metadata.labels
            for p in waiting
        )
        if len(pods) < min_count or (missing > 1 and not are_equal):
            continue
        for nodes in _domains(simulation, group, with_node):
            placed = _placed(waiting, nodes, [p for p in store.pods.now.values() if _holds(p)])
            assert len(placed) < missing, f"{key} waits, though there is room: {placed}"


def _domains(
    simulation: Simulation, group: PodGroup | None, with_node: Sequence[Pod]
) -> list[list[Node]]:
    """Return the sets of nodes in which a group may be placed."""
    nodes = simulation.store.nodes.now
    constraints = group.spec.scheduling_constraints if group is not None else None
    gate = TOPOLOGY_AWARE_WORKLOAD_SCHEDULING
    if constraints is None or gate not in simulation.feature_gates:
        return [list(nodes.values())]
    key = constraints.topology[0].key
    if any(pod.spec.node_name not in nodes for pod in with_node):
        return []
    fixed = {nodes[pod.spec.node_name].metadata.labels.get(key, "") for pod in with_node}
    domains = fixed or {node.metadata.labels.get(key, "") for node in nodes.values()}
    if len(fixed) > 1 or "" in fixed:
        return []
    return [
        [node for node in nodes.values() if node.metadata.labels.get(key) == domain]
        for domain in domains - {""}
    ]


def _placed(waiting: list[Pod], nodes: list[Node], pods: list[Pod]) -> dict[str, str]:
    """Put each pod on the first node with room; return the nodes by the pods' names."""
    others = [pod for pod in pods if pod not in waiting]
    there = {
        n.metadata.name: [p for p in others if _expected_on(p) == n.metadata.name] for n in nodes
    }
    found: dict[str, str] = {}
    for pod in waiting:
        for node in nodes:
            on_node = there[node.metadata.name]
            if _may_run(pod, node) and not _conflicts(pod, node, on_node):
                on_node.append(pod)
                found[pod.metadata.name] = node.metadata.name
                break
    return found


def overload_of(node: Node, pods: Iterable[Pod], *, because_of: Pod) -> str:
    """Describe the requests of all pods beyond a node's resources; empty if they fit."""
    name = node.metadata.name
    there = [pod for pod in pods if pod.spec.node_name == name and _holds(pod)]
    return overload(node, there, because_of=because_of)


def _check_has_no_room(pod: Pod, node: Node, pods: list[Pod]) -> None:
    name, key = node.metadata.name, pod.metadata.name
    # Nominated pods count, whatever their priority: the check may miss an error, never invent one.
    there = [p for p in pods if _expected_on(p) == name and p is not pod]
    if not _may_run(pod, node):
        return
    assert _conflicts(pod, node, there), f"{key} waits, though there is room on {name}"
    if pod.spec.preemption_policy == "Never":
        return
    others = [p for p in there if not p.spec.node_name or _priority(p) >= _priority(pod)]
    assert _conflicts(pod, node, others), f"{key} waits for less important pods on {name}"


def _expected_on(pod: Pod) -> str:
    return pod.spec.node_name or pod.status.nominated_node_name


def _may_run(pod: Pod, node: Node) -> bool:
    """Return True if the pod fits the node, other pods aside."""
    tolerates = bool(pod.spec.tolerations)
    labels = node.metadata.labels
    return (
        not node.spec.unschedulable
        and (tolerates or not node.spec.taints)
        and all(labels.get(key) == value for key, value in pod.spec.node_selector.items())
    )


def _conflicts(pod: Pod, node: Node, there: list[Pod]) -> bool:
    """Return True if the pod conflicts with the others, or if this module cannot decide it."""
    affinity = pod.spec.affinity
    if wants_devices(pod):
        return True
    if pod.spec.topology_spread_constraints or (affinity and affinity.pod_affinity):
        return True
    if overload(node, [*there, pod], because_of=pod):
        return True
    taken: Counter[int] = Counter(port for other in there for port in _ports(other))
    if any(taken[port] for port in _ports(pod)):
        return True
    return any(_repel(pod, other) or _repel(other, pod) for other in there)


def wants_devices(pod: Pod) -> bool:
    requests = (container.resources.requests for container in pod.spec.containers)
    return bool(pod.spec.resource_claims) or any(EXTENDED in each for each in requests)


def _repel(pod: Pod, other: Pod) -> bool:
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return False
    terms = affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
    labels = other.metadata.labels
    return any(
        term.label_selector is not None
        and all(labels.get(k) == v for k, v in term.label_selector.match_labels.items())
        for term in terms
    )


def _ports(pod: Pod) -> Iterator[int]:
    return (p.host_port for c in pod.spec.containers for p in c.ports if p.host_port)


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def _can_go(pod: Pod) -> bool:
    return not pod.spec.scheduling_gates and pod.metadata.deletion_timestamp is None


def _holds(pod: Pod) -> bool:
    return pod.status.phase not in {"Succeeded", "Failed"}


def _is_known(pod: Pod) -> bool:
    return bool(pod.spec.node_name) or pod.spec.scheduler_name == OURS


def _uid(text: str) -> str:
    return text.partition("(")[2].rstrip(")")


def _places(simulation: Simulation) -> dict[str, set[str]]:
    """Return the node of each pod, by uid."""
    line = simulation.line
    found: dict[str, set[str]] = {}
    for pod in line.queue.pending_pods()[0]:
        found.setdefault(pod.metadata.uid, set()).add("queued")
    for pod in line.queue.in_flight_pods():
        found.setdefault(pod.metadata.uid, set()).add("in flight")
    for uid, info in line.cache.pods.items():
        is_assumed = line.cache.is_assumed_pod(info.pod)
        found.setdefault(uid, set()).add("assumed" if is_assumed else "assigned")
    return found
