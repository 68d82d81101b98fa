"""InterPodAffinity: keep pods together or apart by topology domain.

A term selects pods and has a topology key: nodes with the same value of this label form a domain.
Terms match in both directions: terms of the incoming pod match existing pods, and terms of existing
pods match the incoming pod. Filter rejects nodes without a pod that required affinity needs in the
domain, and nodes with a pod that required anti-affinity of either pod forbids. Preferred terms are
scored, and so are the required affinity terms of existing pods.
Mirrors `pkg/scheduler/framework/plugins/interpodaffinity`, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final
from weakref import WeakKeyDictionary

import numpy as np

from scheduler.api import field
from scheduler.api.core import Namespace, Node, Pod
from scheduler.api.quantity import INT64_MAX
from scheduler.api.selectors import NOTHING
from scheduler.config.types import ALL_FIELDS, FeatureGates, Int32, PluginArgs
from scheduler.config.versions import SchedulerVersion
from scheduler.framework.arithmetic import MAX_NODE_SCORE
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin, Remedy
from scheduler.framework.status import Rejections, Status, skip, unresolvable
from scheduler.plugins.inter_pod_affinity.blocking import BlockingPods
from scheduler.plugins.inter_pod_affinity.filtering import (
    FILTER_STATE,
    HOSTNAME,
    CountOfExistingTerms,
    Domains,
    FilterState,
    Incoming,
    Required,
    SumOfExistingTerms,
    SumOfMatchingTerms,
    Topology,
    by_topology_key,
    selects_namespaces,
)
from scheduler.snapshot.pod_kind import kind_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from scheduler.api.field import FieldError
    from scheduler.api.pod_affinity import AffinityTerm, AffinityTerms
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.pod_kind import PodKind, PodWeight

_NO_LABELS: Final[Mapping[str, str]] = {}

#: The rules of an incoming pod's preferred terms, by topology key.
_Preferred = Mapping[str, SumOfMatchingTerms]


#: The sum of the weights in each domain, per topology key.
_SCORES: Final = StateKey[tuple[Domains, ...]](
    "PreScoreInterPodAffinity", 'failed to read "{}" from cycleState: not found'
)


#: The gate with which required terms of hostnames look at the node alone.
_HOSTNAME_FAST_PATH: Final = "InterPodAffinityHostnameFastPath"

#: A search among more pods would hold the event loop of a running scheduler too long.
_PODS_IN_ONE_TURN_MAX: Final = 20_000

#: For remedies: the pods that block, found once for all nodes.
_BLOCKING: Final = StateKey[BlockingPods]("InterPodAffinity/blocking")


class InterPodAffinityArgs(PluginArgs, frozen=True):
    """Arguments of InterPodAffinity."""

    always_written: ClassVar[frozenset[str]] = ALL_FIELDS

    hard_pod_affinity_weight: Int32 = 1
    """Score of an existing pod's required affinity term, from 0 to 100. Default: 1."""

    ignore_preferred_terms_of_existing_pods: bool = False
    """Do not score preferred terms of existing pods. Default: false."""

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        weight = self.hard_pod_affinity_weight
        if 0 <= weight <= 100:
            return []
        weight_path = field.child_path(path, "hardPodAffinityWeight")
        return [field.invalid(weight_path, weight, "not in valid range [0, 100]")]


class InterPodAffinity(Plugin):
    """Keep pods together or apart."""

    only_ranks = True
    ignores_resizes = True
    Args = InterPodAffinityArgs
    args: InterPodAffinityArgs
    reads: ClassVar[tuple[str, ...]] = ("namespaces",)

    def __init__(self) -> None:
        self._hosts_apart: Final = _HOSTNAME_FAST_PATH in self.handle.feature_gates
        # Rules of terms with namespace selectors are valid until a namespace changes.
        self._namespaces_cursor = -1
        is_mended = self.handle.version >= SchedulerVersion.V1_37
        self._matches: Final = _match_any if is_mended else _match_all
        self._selected: Final = _by_name if is_mended else _by_name_and_selector
        looks_both_ways = self.handle.version >= SchedulerVersion.V1_36
        self._after_pod_change: Final = (
            self.is_schedulable_after_pod_change
            if looks_both_ways
            else self.is_schedulable_after_assigned_pod_change
        )
        self._required: Final[WeakKeyDictionary[AffinityTerms, Required]] = WeakKeyDictionary()
        self._preferred: Final[WeakKeyDictionary[AffinityTerms, _Preferred]] = WeakKeyDictionary()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Count matches by domain; skip pods that no required term, own or existing, concerns."""
        snapshot, kind = self.handle.snapshot, pod.kind
        terms = kind.affinity
        if terms.errors:
            return unresolvable(f"parsing pod: {terms.message}")
        in_use = snapshot.pod_index.anti_affinity_terms
        namespace_labels = self._labels_of_namespace(kind.namespace)
        about = in_use.matching(kind.namespace, kind.labels, namespace_labels)
        topology = Topology(snapshot, hosts_apart=self._hosts_apart)
        existing = topology.counted_by(
            {key: CountOfExistingTerms(matches) for key, matches in about.items()}
        )
        existing = {key: domains for key, domains in existing.items() if domains}
        if not existing and not terms.required_affinity and not terms.required_anti_affinity:
            return skip()
        required = self._required_by(terms)
        # Beside other keys affinity counts a hostname as any other key.
        is_mixed = self._hosts_apart and required.affinity_keys != {HOSTNAME}
        of_affinity = Topology(snapshot) if is_mixed else topology
        counts = FilterState(
            Incoming(kind, namespace_labels, required),
            existing=existing,
            affinity=of_affinity.counted_by(
                dict.fromkeys(required.affinity_keys, required.affinity)
            ),
            anti_affinity=topology.counted_by(required.anti_affinity),
            nodes_total=len(snapshot),
        )
        state.write(FILTER_STATE, counts)
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        state.read(FILTER_STATE).change(added.kind, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        state.read(FILTER_STATE).change(removed.kind, node, -1)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that violate affinity or anti-affinity."""
        return state.read(FILTER_STATE).rejections(nodes.base_rows)

    def remedies(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[Remedy]:
        """Name the pods that are in the way, or the pod that is missing."""
        blocking = state.find(_BLOCKING)
        if blocking is None:
            nodes = self.handle.snapshot.nodes
            if state.may_pause and int(nodes.pod_count.sum()) > _PODS_IN_ONE_TURN_MAX:
                return []
            blocking = BlockingPods(state.read(FILTER_STATE), nodes)
            state.write(_BLOCKING, blocking)
        return list(blocking.remedies(node))

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Add up weights by domain; skip if no term applies.

        Raises `ValueError` for malformed terms.
        """
        if self.args.ignore_preferred_terms_of_existing_pods and not _has_preferences(pod.pod):
            return skip()
        snapshot, kind = self.handle.snapshot, pod.kind
        terms = kind.affinity
        if terms.errors:
            raise ValueError(f"failed to parse pod: {terms.message}")
        rules: dict[str, list[PodWeight]] = {
            key: [rule] for key, rule in self._preferred_by(terms).items()
        }
        in_use = snapshot.pod_index.affinity_terms
        if in_use:
            weight = self.args.hard_pod_affinity_weight
            namespace_labels = self._labels_of_namespace(kind.namespace)
            about = in_use.matching(kind.namespace, kind.labels, namespace_labels)
            for key, matches in about.items():
                rules.setdefault(key, []).append(SumOfExistingTerms(matches, weight))
        topology = Topology(snapshot)
        counted = (topology.counted(key, *key_rules) for key, key_rules in rules.items())
        scores = tuple(domains for domains in counted if domains)
        if not scores:
            return skip()
        state.write(_SCORES, scores)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """The sum of the weights of each node's domains."""
        scores = state.read(_SCORES)
        rows = nodes.base_rows
        total = scores[0].at(rows)
        for domains in scores[1:]:
            total += domains.at(rows)
        return total.astype(np.int64)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        lowest = scores.min(initial=INT64_MAX)
        spread = int(scores.max(initial=lowest)) - int(lowest)
        if spread <= 0:
            return np.zeros(len(scores), dtype=np.int64)
        normalized: IntArray = (MAX_NODE_SCORE * ((scores - lowest) / spread)).astype(np.int64)
        return normalized

    def _required_by(self, terms: AffinityTerms) -> Required:
        self._clear_if_namespaces_changed()
        required = self._required.get(terms)
        if required is None:
            required = self._required[terms] = Required.from_terms(
                [self._with_namespaces(term) for term in terms.required_affinity],
                [self._with_namespaces(term) for term in terms.required_anti_affinity],
            )
        return required

    def _preferred_by(self, terms: AffinityTerms) -> _Preferred:
        self._clear_if_namespaces_changed()
        preferred = self._preferred.get(terms)
        if preferred is None:
            both = [
                (weight, self._with_namespaces(term)) for weight, term in terms.preferred_affinity
            ]
            both += [(-w, self._with_namespaces(term)) for w, term in terms.preferred_anti_affinity]
            by_key = by_topology_key(both)
            preferred = {key: SumOfMatchingTerms(weighted) for key, weighted in by_key.items()}
            self._preferred[terms] = preferred
        return preferred

    def _clear_if_namespaces_changed(self) -> None:
        lister = self.handle.lister(Namespace)
        self._namespaces_cursor, changed = lister.changes_since(self._namespaces_cursor)
        if changed is None or changed:
            self._required.clear()
            self._preferred.clear()

    def _with_namespaces(self, term: AffinityTerm) -> AffinityTerm:
        """Return the term with the names of the namespaces that it selects.

        Source: `mergeAffinityTermNamespacesIfNotEmpty`.
        """
        if not selects_namespaces(term):
            return term
        selects = term.namespace_selector.matches
        names = {
            namespace.metadata.name
            for namespace in self.handle.lister(Namespace).list()
            if selects(namespace.metadata.labels)
        }
        return self._selected(term, names)

    def _labels_of_namespace(self, name: str) -> Mapping[str, str]:
        """Return the labels, none for a missing namespace. Source: `GetNamespaceLabelsSnapshot`."""
        namespace = self.handle.lister(Namespace).get(name)
        return _NO_LABELS if namespace is None else namespace.metadata.labels

    def events_to_register(self) -> list[ClusterEventWithHint]:
        relabelled = ActionType.UPDATE_POD_LABEL
        node_change = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [
            *self.on_pods(
                self._after_pod_change,
                assigned=ActionType.ADD | relabelled | ActionType.DELETE,
                target=relabelled,
            ),
            on(Node, node_change, self.is_schedulable_after_node_change),
        ]

    def is_schedulable_after_pod_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if a pod now satisfies affinity, no longer violates anti-affinity, or is this pod.

        Raises `ValueError` for malformed terms.
        """
        original, modified = as_kind(Pod, old, new)
        if original is not None and modified is not None and modified.metadata.uid == pod.uid:
            return QueueingHint.QUEUE
        if any(_has_no_node(other) for other in (original, modified) if other is not None):
            return QueueingHint.QUEUE_SKIP
        if self._helps(pod, original, modified):
            return QueueingHint.QUEUE
        if original is None or modified is not None:
            return QueueingHint.QUEUE_SKIP
        others = kind_of(original).affinity
        _check(others, "requiredAntiAffinityTerms")
        return QueueingHint(self._matches(others.required_anti_affinity, pod.pod))

    def is_schedulable_after_assigned_pod_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if a pod with a node now satisfies affinity or no longer violates anti-affinity.

        The rule up to 1.35: neither changes of the pod itself nor the anti-affinity of others
        count. Raises `ValueError` for malformed terms.
        """
        original, modified = as_kind(Pod, old, new)
        if not all(other.spec.node_name for other in (original, modified) if other is not None):
            return QueueingHint.QUEUE_SKIP
        return QueueingHint(self._helps(pod, original, modified))

    def _helps(self, pod: PodInfo, original: Pod | None, modified: Pod | None) -> bool:
        """Return True if a pod now satisfies affinity, or no longer violates anti-affinity."""
        affinity, anti_affinity = _terms_required_by(pod.kind)
        helps = modified is not None and _match_all(affinity, modified)
        if original is not None:
            helps = helps and not _match_all(affinity, original)
            is_out_of_the_way = modified is None or not self._matches(anti_affinity, modified)
            helps = helps or (self._matches(anti_affinity, original) and is_out_of_the_way)
        return helps

    def is_schedulable_after_node_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the node is new or changed its domain of one of the terms.

        For affinity the node must be in a domain now. For anti-affinity it is enough to be new or
        to have left a domain. Raises `ValueError` for malformed terms.
        """
        original, modified = as_kind(Node, old, new)
        if modified is None:
            return QueueingHint.QUEUE_SKIP
        after = modified.metadata.labels
        before = original.metadata.labels if original is not None else _NO_LABELS
        affinity, anti_affinity = _terms_required_by(pod.kind)
        for term in affinity:
            value = after.get(term.topology_key)
            if value is not None and value != before.get(term.topology_key):
                return QueueingHint.QUEUE
        for term in anti_affinity:
            value = before.get(term.topology_key)
            if original is None or (value is not None and value != after.get(term.topology_key)):
                return QueueingHint.QUEUE
        return QueueingHint.QUEUE_SKIP

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        return pod.kind


def _has_preferences(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and any(
        terms is not None and terms.preferred_during_scheduling_ignored_during_execution
        for terms in (affinity.pod_affinity, affinity.pod_anti_affinity)
    )


def _has_no_node(pod: Pod) -> bool:
    """True if the pod is neither assigned nor nominated to a node."""
    return not pod.spec.node_name and not pod.status.nominated_node_name


def _check(terms: AffinityTerms, *lists: str) -> None:
    """Raise `ValueError` if one of these lists has a malformed term."""
    for name in lists:
        if name in terms.errors:
            raise ValueError(terms.errors[name])


def _terms_required_by(kind: PodKind) -> tuple[Sequence[AffinityTerm], Sequence[AffinityTerm]]:
    terms = kind.affinity
    _check(terms, "requiredAffinityTerms", "requiredAntiAffinityTerms")
    return terms.required_affinity, terms.required_anti_affinity


def _by_name_and_selector(term: AffinityTerm, names: set[str]) -> AffinityTerm:
    """Add namespaces to a term, and keep its selector, as upstream does up to 1.36.

    The selector is evaluated without labels from here on: one that matches then matches all
    namespaces.
    """
    return term._replace(namespaces=term.namespaces | names)


def _by_name(term: AffinityTerm, names: set[str]) -> AffinityTerm:
    """Add namespaces to a term in the place of its selector."""
    return term._replace(namespaces=term.namespaces | names, namespace_selector=NOTHING)


def _match_any(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    metadata = pod.metadata
    return any(term.matches(metadata.namespace, metadata.labels, _NO_LABELS) for term in terms)


def _match_all(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """True if there is a term and all terms match the pod."""
    metadata = pod.metadata
    return bool(terms) and all(
        term.matches(metadata.namespace, metadata.labels, _NO_LABELS) for term in terms
    )
