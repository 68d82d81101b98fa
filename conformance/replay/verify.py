"""Verify a replay: the final state of the API server, and the recorded placements.

`verify` does not depend on the scheduler. It compares three things: the history (the input), the
server's nodes and pods (the result) and the placements in their order (the way). Each
contradiction is a `Violation`; a good run has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ..format.resources import part
from ..invariants.matching import node_affinity_matches
from .allocation import rules_of
from .amounts import NOTHING, Amounts, allocatable, capacity_of, demand_of, requested, total

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from .held import HeldNode, HeldPod
    from .history import History, HistoryPod
    from .recording import Placement

__all__ = ["RULES", "Evidence", "Violation", "verify"]

#: The names of all rules, in the order of checking.
RULES: Final = {
    "node-lost": "every node of the history is there, with what it has to give",
    "pod-lost": "every pod of the history is there once, and asks for what the history says",
    "pod-unknown": "there is no other pod",
    "node-unknown": "a pod is bound to a node that exists",
    "bound-twice": "a pod that has a node keeps it",
    "not-reported": "a pod without a node says PodScheduled=False, reason Unschedulable",
    "over-capacity": "the pods of a node never ask for more than it has to give",
    "wrong-node": "a pod is on a node that its node selector and its node affinity allow",
    "left-behind": "a pod that is reported unschedulable would fit on none of the nodes",
}


class Evidence(NamedTuple):
    """The result of a run: the server's lists at the end, and the placements in order.

    `deleted` are the names of pods that the replay has deleted, or the scheduler evicted.
    """

    nodes: Sequence[HeldNode]
    pods: Sequence[HeldPod]
    placements: Sequence[Placement]
    deleted: Collection[str] = ()


class Violation(NamedTuple):
    """A violated rule, the pod or node, and a description."""

    rule: str
    subject: str
    problem: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}: {self.problem}"


def verify(history: History, evidence: Evidence) -> list[Violation]:
    """Return all violations, in the order of `RULES`."""
    violations = list(_Case(history, evidence).violations())
    order = list(RULES)
    return sorted(violations, key=lambda violation: order.index(violation.rule))


class _Case:
    """One run under verification, indexed."""

    def __init__(self, history: History, evidence: Evidence) -> None:
        self._history = history
        self._wanted = {pod.name: pod for pod in history.pods}
        self._demands = {pod.name: demand_of(pod) for pod in history.pods}
        self._nodes = {node.name: node for node in history.nodes}
        self._placements = evidence.placements
        self._held_pods = evidence.pods
        self._deleted = evidence.deleted
        self._pods = {pod.metadata.key: pod for pod in evidence.pods}
        self._capacity = {node.metadata.name: allocatable(node) for node in evidence.nodes}

    def violations(self) -> Iterator[Violation]:
        yield from self._nodes_are_there()
        yield from self._pods_are_there()
        for pod in self._held_pods:
            yield from self._verdict(pod)
        yield from self._allocation_at_the_end()
        yield from self._allocation_on_the_way()
        yield from self._no_pod_left_out()

    def _nodes_are_there(self) -> Iterator[Violation]:
        for row in self._history.nodes:
            held, capacity = self._capacity.get(row.name), capacity_of(row)
            if held is None:
                yield Violation("node-lost", row.name, "was created, and is not in the list")
            elif held != capacity:
                yield Violation("node-lost", row.name, f"has {held}, was created with {capacity}")

    def _pods_are_there(self) -> Iterator[Violation]:
        for row in self._history.pods:
            held = self._pods.get(row.name)
            if held is None and row.name in self._deleted:
                continue
            if held is None:
                yield Violation("pod-lost", row.name, "was created, and is not in the list")
            elif requested(held) != self._demand(row.name):
                problem = f"asks for {requested(held)}, was created with {self._demand(row.name)}"
                yield Violation("pod-lost", row.name, problem)
        seen: set[str] = set()
        for pod in self._held_pods:
            name = pod.metadata.key
            if name not in self._wanted:
                yield Violation("pod-unknown", name, "is not in the history")
            if name in seen:
                yield Violation("pod-lost", name, "is in the list more than once")
            seen.add(name)

    def _verdict(self, pod: HeldPod) -> Iterator[Violation]:
        name, node = pod.metadata.key, pod.spec.node_name
        row = self._wanted.get(name)
        if not node:
            if pod.unschedulable_message is None:
                problem = "has no node, and nobody has said that there is none for it"
                yield Violation("not-reported", name, problem)
        elif node not in self._capacity:
            yield Violation("node-unknown", name, f"is bound to {node}, which does not exist")
        elif row is not None and not self._allows(row, node):
            problem = f"is on {node}, which its node selector or affinity does not allow"
            yield Violation("wrong-node", name, problem)

    def _allocation_at_the_end(self) -> Iterator[Violation]:
        for node, used in self._used().items():
            excess = used.beyond(self._capacity[node])
            if excess:
                yield Violation("over-capacity", node, f"at the end {', '.join(excess)}")

    def _allocation_on_the_way(self) -> Iterator[Violation]:
        """Add up the placements one by one; a node is reported once, a pod for each move."""
        used = dict.fromkeys(self._capacity, NOTHING)
        where: dict[str, tuple[str, Amounts]] = {}
        reported: set[str] = set()
        for number, (seconds, name, uid, node) in enumerate(self._placements, 1):
            before, demand = where.pop(uid, ("", NOTHING))
            if before:
                used[before] = used[before].minus(demand)
            if before and node:
                problem = f"was bound to {before}, then (placement {number}) to {node}"
                yield Violation("bound-twice", name, problem)
            if node not in used:
                continue  # a pod that left its node or is not in the list was reported above
            demand = self._demand(name)
            used[node] = used[node].plus(demand)
            where[uid] = node, demand
            excess = used[node].beyond(self._capacity[node])
            if excess and node not in reported:
                reported.add(node)
                problem = (
                    f"when {name} came (placement {number}, {seconds:.3f}) {', '.join(excess)}"
                )
                yield Violation("over-capacity", node, problem)
        yield from self._as_it_was_seen({uid: node for uid, (node, _) in where.items()})

    def _as_it_was_seen(self, where: dict[str, str]) -> Iterator[Violation]:
        """Check that the list agrees with the last placement of each pod."""
        for pod in self._held_pods:
            listed, seen = pod.spec.node_name, where.get(pod.metadata.uid, "")
            if listed in self._capacity and listed != seen:
                problem = f"is on {listed} in the list, was seen on {seen or 'no node'} at last"
                yield Violation("bound-twice", pod.metadata.key, problem)

    def _no_pod_left_out(self) -> Iterator[Violation]:
        used = self._used()
        free = {node: has.minus(used[node]) for node, has in self._capacity.items()}
        fits: dict[tuple[Amounts, bytes], str | None] = {}  # many pods are equal
        for pod in self._held_pods:
            row = self._wanted.get(pod.metadata.key)
            if pod.spec.node_name or row is None or pod.unschedulable_message is None:
                continue
            if not _asks_only_for_room(row):
                continue
            alike = self._demand(row.name), rules_of(row)
            if alike not in fits:
                fits[alike] = self._first_fit(row, free)
            node = fits[alike]
            if node is not None:
                problem = f"is reported unschedulable, and {node} has room: {free[node]}"
                yield Violation("left-behind", pod.metadata.key, problem)

    def _first_fit(self, row: HistoryPod, free: dict[str, Amounts]) -> str | None:
        demand = self._demand(row.name)
        for node, left in free.items():
            if demand.fits_in(left) and self._allows(row, node) and self._is_open(node):
                return node
        return None

    def _allows(self, row: HistoryPod, node: str) -> bool:
        known = self._nodes.get(node)
        return known is None or node_affinity_matches(row.object, known.object)

    def _is_open(self, node: str) -> bool:
        """True if a node of the history accepts every pod for which it has room."""
        spec = part(self._nodes[node].object, "spec") if node in self._nodes else {}
        return not (spec.get("unschedulable") or spec.get("taints"))

    def _used(self) -> dict[str, Amounts]:
        """Return the requests of the listed pods per node."""
        demands: dict[str, list[Amounts]] = {node: [] for node in self._capacity}
        for pod in self._held_pods:
            if pod.spec.node_name in demands:
                demands[pod.spec.node_name].append(requested(pod))
        return {node: total(amounts) for node, amounts in demands.items()}

    def _demand(self, name: str) -> Amounts:
        return self._demands.get(name, NOTHING)


def _asks_only_for_room(row: HistoryPod) -> bool:
    """True if nothing but room, node selector and node affinity decides on a pod."""
    spec = part(row.object, "spec")
    return not (
        part(spec, "affinity").keys() - {"nodeAffinity"}
        or spec.get("topologySpreadConstraints")
        or spec.get("volumes")
        or spec.get("resourceClaims")
        or spec.get("schedulingGates")
    )
