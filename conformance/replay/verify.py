"""Verify a replay: the final state of the API server, and the recorded placements.

`verify` does not depend on the scheduler. It compares three things: the history (the input), the
server's nodes and pods (the result) and the placements in their order (the way). Each
contradiction is a `Violation`; a good run has none.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ..format.resources import NANO, amounts, part, pod_requests, shown
from ..invariants.matching import node_affinity_matches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ..api import Json
    from .held import HeldNode, HeldPod
    from .history import History
    from .recording import Placement

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

    `deleted` are the names of pods that the replay has deleted, or the scheduler evicted. `changed`
    are the names of nodes and pods that the history has changed: what depends on their state is not
    judged.
    """

    nodes: Sequence[HeldNode]
    pods: Sequence[HeldPod]
    placements: Sequence[Placement]
    deleted: Collection[str] = ()
    changed: Collection[str] = ()


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


def _requested(pod: Json) -> Counter[str]:
    """Return the amounts that a pod takes on its node, itself included."""
    return pod_requests(pod) + Counter({"pods": NANO})


def _text(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {shown(amount)}" for name, amount in sorted(resources.items()))


class _Case:
    """One run under verification, indexed. Amounts are in nano-units by resource."""

    def __init__(self, history: History, evidence: Evidence) -> None:
        self._evidence = evidence
        self._wanted = {pod.name: pod.object for pod in history.pods}
        self._demands = {name: _requested(pod) for name, pod in self._wanted.items()}
        self._nodes = {node.name: node.object for node in history.nodes}
        self._pods = {pod.metadata.key: pod for pod in evidence.pods}
        self._capacity = {n.metadata.name: amounts(n.status.allocatable) for n in evidence.nodes}

    def violations(self) -> Iterator[Violation]:
        yield from self._nodes_are_there()
        yield from self._pods_are_there()
        for pod in self._evidence.pods:
            yield from self._verdict(pod)
        for node, used in self._used().items():
            if excess := self._excess(node, used):
                yield Violation("over-capacity", node, f"at the end {excess}")
        yield from self._allocation_on_the_way()
        yield from self._no_pod_left_out()

    def _nodes_are_there(self) -> Iterator[Violation]:
        for name, node in self._nodes.items():
            held, created = self._capacity.get(name), amounts(part(node, "status")["allocatable"])
            if name in self._evidence.changed or held == created:
                continue
            problem = "was created, and is not in the list"
            if held is not None:
                problem = f"has {_text(held)}, was created with {_text(created)}"
            yield Violation("node-lost", name, problem)

    def _pods_are_there(self) -> Iterator[Violation]:
        for name, demand in self._demands.items():
            held = self._pods.get(name)
            if held is None and name not in self._evidence.deleted:
                yield Violation("pod-lost", name, "was created, and is not in the list")
            elif held is not None and name not in self._evidence.changed:
                asked = _requested(_plain(held))
                if asked != demand:
                    problem = f"asks for {_text(asked)}, was created with {_text(demand)}"
                    yield Violation("pod-lost", name, problem)
        for name, number in Counter(pod.metadata.key for pod in self._evidence.pods).items():
            if name not in self._wanted:
                yield Violation("pod-unknown", name, "is not in the history")
            if number > 1:
                yield Violation("pod-lost", name, "is in the list more than once")

    def _verdict(self, pod: HeldPod) -> Iterator[Violation]:
        name, node = pod.metadata.key, pod.spec.node_name
        if not node:
            if pod.unschedulable_message is None:
                problem = "has no node, and nobody has said that there is none for it"
                yield Violation("not-reported", name, problem)
        elif node not in self._capacity and node not in self._evidence.changed:
            yield Violation("node-unknown", name, f"is bound to {node}, which does not exist")
        elif name in self._wanted and not self._allows(name, node):
            problem = f"is on {node}, which its node selector or affinity does not allow"
            yield Violation("wrong-node", name, problem)

    def _allocation_on_the_way(self) -> Iterator[Violation]:
        """Add up the placements one by one; a node is reported once, a pod for each move."""
        used = {node: Counter[str]() for node in self._capacity}
        where: dict[str, str] = {}
        reported: set[str] = set()
        for number, (seconds, name, uid, node) in enumerate(self._evidence.placements, 1):
            before, demand = where.pop(uid, ""), self._demands.get(name, Counter())
            if before:
                used[before].subtract(demand)
            if before and node:
                problem = f"was bound to {before}, then (placement {number}) to {node}"
                yield Violation("bound-twice", name, problem)
            if node not in used:
                continue  # a pod that left its node or is not in the list was reported above
            used[node].update(demand)
            where[uid] = node
            excess = self._excess(node, used[node])
            if excess and node not in reported and not self._evidence.changed:
                reported.add(node)
                problem = f"when {name} came (placement {number}, {seconds:.3f}) {excess}"
                yield Violation("over-capacity", node, problem)
        for pod in self._evidence.pods:
            listed, seen = pod.spec.node_name, where.get(pod.metadata.uid, "")
            if listed in self._capacity and listed != seen:
                problem = f"is on {listed} in the list, was seen on {seen or 'no node'} at last"
                yield Violation("bound-twice", pod.metadata.key, problem)

    def _no_pod_left_out(self) -> Iterator[Violation]:
        used = self._used()
        fits: dict[bytes, str] = {}  # many pods are equal
        for pod in self._evidence.pods:
            name = pod.metadata.key
            row = self._wanted.get(name, {})
            is_judged = pod.unschedulable_message and name not in self._evidence.changed
            if not (is_judged and _asks_only_for_room(row)):
                continue
            alike = msgspec.json.encode(row["spec"])
            if alike not in fits:
                fits[alike] = self._first_fit(name, used)
            if node := fits[alike]:
                problem = f"is reported unschedulable, and {node} has room"
                yield Violation("left-behind", name, problem)

    def _first_fit(self, pod: str, used: Mapping[str, Counter[str]]) -> str:
        """Return a node with room for a pod in all resources that the pod requests, or nothing."""
        demand = self._demands[pod]
        for node, has in self._capacity.items():
            has_room = all(used[node][name] + demand[name] <= has[name] for name in demand)
            if has_room and self._is_open(node) and self._allows(pod, node):
                return node
        return ""

    def _allows(self, pod: str, node: str) -> bool:
        if pod in self._evidence.changed or node in self._evidence.changed:
            return True
        known = self._nodes.get(node)
        return known is None or node_affinity_matches(self._wanted[pod], known)

    def _is_open(self, node: str) -> bool:
        """True if an unchanged node of the history accepts every pod for which it has room."""
        spec = part(self._nodes.get(node, {}), "spec")
        is_closed = spec.get("unschedulable") or spec.get("taints")
        return not is_closed and node not in self._evidence.changed

    def _used(self) -> dict[str, Counter[str]]:
        """Return the requests of the listed pods per node."""
        used = {node: Counter[str]() for node in self._capacity}
        for pod in self._evidence.pods:
            if pod.spec.node_name in used:
                used[pod.spec.node_name].update(_requested(_plain(pod)))
        return used

    def _excess(self, node: str, used: Counter[str]) -> str:
        """Return the resources of which more is used than a node has, such as `cpu 5 > 4`."""
        has = self._capacity[node]
        return ", ".join(
            f"{name} {shown(amount)} > {shown(has[name])}"
            for name, amount in sorted(used.items())
            if amount > has[name]
        )


def _plain(pod: HeldPod) -> Json:
    return {"spec": msgspec.to_builtins(pod.spec)}


def _asks_only_for_room(pod: Json) -> bool:
    """True if nothing but room, node selector and node affinity decides on a pod."""
    spec = part(pod, "spec")
    others = ("topologySpreadConstraints", "volumes", "resourceClaims", "schedulingGates")
    has_others = any(spec.get(name) for name in others)
    return bool(spec) and not (part(spec, "affinity").keys() - {"nodeAffinity"} or has_others)
