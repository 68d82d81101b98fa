"""InterPodAffinity: `interpodaffinity/{filtering,scoring}.go`, `AffinityTerm` in kube-scheduler.

Counts pods by topology key and value, anew for every node asked about. Selectors are good ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from scheduler.api.core import LabelSelector, Node, Pod, PodAffinityTerm
from tests.reference.cluster import UNRESOLVABLE, UNSCHEDULABLE, Cluster, Verdict

Labels = dict[str, str]
#: Labels of the namespaces there are.
Namespaces = dict[str, Labels]
Pairs = Counter[tuple[str, str]]

NO_LABELS: Labels = {}


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    for expression in selector.match_expressions:
        there, value_there = expression.key in labels, labels.get(expression.key)
        holds = {
            "In": there and value_there in expression.values,
            "NotIn": not there or value_there not in expression.values,
            "Exists": there,
            "DoesNotExist": not there,
        }
        if not holds[expression.operator]:
            return False
    return True


def is_empty(selector: LabelSelector | None) -> bool:
    return selector is not None and not selector.match_labels and not selector.match_expressions


class Term(NamedTuple):
    """A term with the namespaces it names; by default its owner's namespace."""

    names: frozenset[str]
    term: PodAffinityTerm

    @property
    def key(self) -> str:
        return self.term.topology_key

    def matches(self, pod: Pod, namespace_labels: Labels) -> bool:
        named = pod.metadata.namespace in self.names
        if named or selects(self.term.namespace_selector, namespace_labels):
            return selects(self.term.label_selector, pod.metadata.labels)
        return False

    def merged(self, namespaces: Namespaces) -> Term:
        """Return the term with the names of the selected namespaces added; the selector stays."""
        if is_empty(self.term.namespace_selector):
            return self
        selector = self.term.namespace_selector
        found = {name for name, labels in namespaces.items() if selects(selector, labels)}
        return Term(self.names | found, self.term)


def term_of(pod: Pod, term: PodAffinityTerm) -> Term:
    own_only = not term.namespaces and term.namespace_selector is None
    return Term(frozenset((pod.metadata.namespace,) if own_only else term.namespaces), term)


class Terms(NamedTuple):
    """A pod's terms: required, and preferred with their weights."""

    affinity: list[Term]
    anti_affinity: list[Term]
    preferred: list[tuple[int, Term]]
    preferred_anti: list[tuple[int, Term]]


def terms_of(pod: Pod, namespaces: Namespaces | None = None) -> Terms:
    """`namespaces` are given for the pod to be scheduled: its selectors are looked up in them."""
    affinity = pod.spec.affinity
    near = affinity.pod_affinity if affinity else None
    far = affinity.pod_anti_affinity if affinity else None

    def term(given: PodAffinityTerm) -> Term:
        found = term_of(pod, given)
        return found if namespaces is None else found.merged(namespaces)

    required = [
        [term(t) for t in part.required_during_scheduling_ignored_during_execution] if part else []
        for part in (near, far)
    ]
    preferred = [
        [
            (t.weight, term(t.pod_affinity_term))
            for t in part.preferred_during_scheduling_ignored_during_execution
        ]
        if part
        else []
        for part in (near, far)
    ]
    return Terms(required[0], required[1], preferred[0], preferred[1])


def matches_all(terms: list[Term], pod: Pod) -> bool:
    return bool(terms) and all(term.matches(pod, NO_LABELS) for term in terms)


def count(pairs: Pairs, node: Node, key: str, weight: int = 1) -> None:
    labels = node.metadata.labels
    if key in labels:
        pairs[key, labels[key]] += weight


def filter_node(pod: Pod, node: Node, cluster: Cluster, namespaces: Namespaces) -> Verdict | None:
    mine = terms_of(pod, namespaces)
    my_namespace = namespaces.get(pod.metadata.namespace, NO_LABELS)
    affinity, anti_affinity, existing = Pairs(), Pairs(), Pairs()
    for place in cluster.nodes:
        for other in cluster.pods_on(place):
            if matches_all(mine.affinity, other):
                for term in mine.affinity:
                    count(affinity, place, term.key)
            for term in mine.anti_affinity:
                if term.matches(other, NO_LABELS):
                    count(anti_affinity, place, term.key)
            for term in terms_of(other).anti_affinity:
                if term.matches(pod, my_namespace):
                    count(existing, place, term.key)
    labels = node.metadata.labels
    if any(term.key not in labels for term in mine.affinity):
        return UNRESOLVABLE, ("node(s) didn't match pod affinity rules",)
    if any(not affinity[term.key, labels[term.key]] for term in mine.affinity):
        is_first = not affinity.total() and matches_all(mine.affinity, pod)
        if not is_first:
            return UNRESOLVABLE, ("node(s) didn't match pod affinity rules",)
    if any(
        term.key in labels and anti_affinity[term.key, labels[term.key]]
        for term in mine.anti_affinity
    ):
        return UNSCHEDULABLE, ("node(s) didn't match pod anti-affinity rules",)
    if any(existing[pair] for pair in labels.items()):
        return UNSCHEDULABLE, ("node(s) didn't satisfy existing pods anti-affinity rules",)
    return None


def skips_filter(pod: Pod, cluster: Cluster, namespaces: Namespaces) -> bool:
    mine = terms_of(pod)
    if mine.affinity or mine.anti_affinity:
        return False
    return all(filter_node(pod, node, cluster, namespaces) is None for node in cluster.nodes)


def score(
    pod: Pod, node: Node, cluster: Cluster, namespaces: Namespaces, hard_weight: int = 1
) -> int:
    mine = terms_of(pod, namespaces)
    my_namespace = namespaces.get(pod.metadata.namespace, NO_LABELS)
    pairs = Pairs()
    for place in cluster.nodes:
        for other in cluster.pods_on(place):
            theirs = terms_of(other)
            for sign, weighted in ((1, mine.preferred), (-1, mine.preferred_anti)):
                for weight, term in weighted:
                    if term.matches(other, NO_LABELS):
                        count(pairs, place, term.key, sign * weight)
            for term in theirs.affinity:
                if term.matches(pod, my_namespace):
                    count(pairs, place, term.key, hard_weight)
            for sign, weighted in ((1, theirs.preferred), (-1, theirs.preferred_anti)):
                for weight, term in weighted:
                    if term.matches(pod, my_namespace):
                        count(pairs, place, term.key, sign * weight)
    return sum(pairs[pair] for pair in node.metadata.labels.items())


def skips_score(pod: Pod, *, ignore_preferred_terms_of_existing_pods: bool) -> bool:
    mine = terms_of(pod)
    prefers = bool(mine.preferred or mine.preferred_anti)
    return ignore_preferred_terms_of_existing_pods and not prefers


def normalize(scores: list[int]) -> list[int]:
    lowest, highest = min(scores), max(scores)
    if lowest == highest:
        return [0] * len(scores)
    return [int(100.0 * (float(s - lowest) / float(highest - lowest))) for s in scores]
