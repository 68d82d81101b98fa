"""NodeAffinity: `nodeaffinity/node_affinity.go`, component-helpers `nodeaffinity.go`.

Knows malformed terms only by their operator or number of values, which is what the tests malform.
"""

from __future__ import annotations

import re

from scheduler.api.core import (
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
)
from tests.reference.cluster import UNRESOLVABLE, Cluster, Verdict
from tests.reference.go_integers import default_normalize


def required_of(affinity: NodeAffinity | None) -> NodeSelector | None:
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def affinity_of(pod: Pod) -> NodeAffinity | None:
    return pod.spec.affinity.node_affinity if pod.spec.affinity else None


def integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else None


def expression_holds(expression: NodeSelectorRequirement, labels: dict[str, str]) -> bool:
    there = expression.key in labels
    value = labels.get(expression.key, "")
    if expression.operator == "In":
        return there and value in expression.values
    if expression.operator == "NotIn":
        return not there or value not in expression.values
    if expression.operator == "Exists":
        return there
    if expression.operator == "DoesNotExist":
        return not there
    have, limit = integer(value), integer(expression.values[0])
    if not there or have is None or limit is None:
        return False
    return have > limit if expression.operator == "Gt" else have < limit


def field_holds(field: NodeSelectorRequirement, node: Node) -> bool:
    value = node.metadata.name if field.key == "metadata.name" else ""
    same = value == field.values[0]
    return same if field.operator == "In" else not same


def is_malformed(term: NodeSelectorTerm) -> bool:
    counts = {"In": range(1, 99), "NotIn": range(1, 99), "Gt": range(1, 2), "Lt": range(1, 2)}
    counts |= {"Exists": range(1), "DoesNotExist": range(1)}
    for expression in term.match_expressions:
        allowed = counts.get(expression.operator)
        if allowed is None or len(expression.values) not in allowed:
            return True
        if expression.operator in ("Gt", "Lt") and integer(expression.values[0]) is None:
            return True
    return any(f.operator not in ("In", "NotIn") or len(f.values) != 1 for f in term.match_fields)


def term_holds(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    if is_malformed(term):
        return False
    labels = dict(node.metadata.labels)
    return all(expression_holds(e, labels) for e in term.match_expressions) and all(
        field_holds(f, node) for f in term.match_fields
    )


def selects(selector: NodeSelector, node: Node) -> bool:
    return any(term_holds(term, node) for term in selector.node_selector_terms)


def pre_filter(pod: Pod) -> set[str] | None:
    """The nodes that the pod's terms name; None if they leave it open."""
    required = required_of(affinity_of(pod))
    if required is None or not required.node_selector_terms:
        return None
    named: set[str] = set()
    for term in required.node_selector_terms:
        sets = [
            set(field.values)
            for field in term.match_fields
            if field.key == "metadata.name" and field.operator == "In"
        ]
        if not sets:
            return None
        named |= set.intersection(*sets)
    return named


def filter_node(
    pod: Pod, node: Node, cluster: Cluster, added: NodeAffinity | None = None
) -> Verdict | None:
    named = pre_filter(pod)
    if named is not None and not named:
        return UNRESOLVABLE, ("pod affinity terms conflict",)
    if named is not None and node.metadata.name not in named:
        return UNRESOLVABLE, ()
    enforced = required_of(added)
    if enforced is not None and not selects(enforced, node):
        return UNRESOLVABLE, ("node(s) didn't match scheduler-enforced node affinity",)
    required = required_of(affinity_of(pod))
    labels = node.metadata.labels
    selected = all(labels.get(key) == value for key, value in pod.spec.node_selector.items())
    if selected and (required is None or selects(required, node)):
        return None
    return UNRESOLVABLE, ("node(s) didn't match Pod's node affinity/selector",)


def score(pod: Pod, node: Node, cluster: Cluster, added: NodeAffinity | None = None) -> int:
    total = 0
    for affinity in (added, affinity_of(pod)):
        if affinity is None:
            continue
        for term in affinity.preferred_during_scheduling_ignored_during_execution:
            if term.weight and term_holds(term.preference, node):
                total += term.weight
    return total


def normalize(scores: list[int]) -> list[int]:
    return default_normalize(scores, reverse=False)
