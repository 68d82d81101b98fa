"""Invariants of a scheduler: at any time, when everything is idle, and at the end.

The computation of room is written from the rules and shares nothing with the plugins.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scheduler.cache import compare

from .line import overload

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from scheduler.api.core import Node, Pod

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
    """
    queue, cache = simulation.line.queue, simulation.line.cache
    found = set(stuck_preemptors(simulation))
    for pod in queue.pending_pods()[0]:
        info = queue.find(pod.key)
        rejectors = info.unschedulable_plugins if info is not None else set()
        is_hated = pod.spec.affinity is None and "InterPodAffinity" in rejectors
        if cache.contradictions or is_hated:
            found.add(pod.key)
    return found


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
        if ours and _can_go(pod) and pod.key not in but:
            for node in store.nodes.now.values():
                _check_has_no_room(pod, node, pods)


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
    if pod.spec.topology_spread_constraints or (affinity and affinity.pod_affinity):
        return True
    if overload(node, [*there, pod], because_of=pod):
        return True
    taken: Counter[int] = Counter(port for other in there for port in _ports(other))
    if any(taken[port] for port in _ports(pod)):
        return True
    return any(_repel(pod, other) or _repel(other, pod) for other in there)


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
