"""NodeAffinity: which nodes a pod's words, and the profile's, allow and prefer.

A node must meet the profile's `addedAffinity` and the pod's `nodeSelector` and required node
affinity. Required terms that name nodes narrow the search to those. Of the nodes left, those that
meet more, or weightier, preferred terms score higher.
Mirrors `pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from scheduler.api import field
from scheduler.api.core import Node, PreferredSchedulingTerm
from scheduler.api.core import NodeAffinity as NodeAffinitySpec
from scheduler.api.field import FieldError, FieldErrors
from scheduler.api.node_selectors import (
    METADATA_NAME,
    NodeSelectorMatcher,
    PreferredTerms,
    RequiredNodeAffinity,
    field_value,
    parse_node_selector,
    parse_preferred_terms,
)
from scheduler.config.types import FeatureGates, PluginArgs
from scheduler.framework.arithmetic import default_normalize_score
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    as_kind,
)
from scheduler.framework.interface import Plugin, Remedy
from scheduler.framework.likeness import same_parts
from scheduler.framework.status import (
    Rejections,
    Status,
    reject,
    reject_by,
    skip,
    unresolvable,
)
from scheduler.framework.types import PreFilterResult

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from scheduler.api.core import NodeSelector, NodeSelectorTerm
    from scheduler.api.node_selectors import Term
    from scheduler.api.selectors import Requirement
    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo

_POD_MISMATCH: Final = unresolvable("node(s) didn't match Pod's node affinity/selector")
_ENFORCED_MISMATCH: Final = unresolvable("node(s) didn't match scheduler-enforced node affinity")
_CONFLICT: Final = unresolvable("pod affinity terms conflict")

#: The pod's preferred terms; None if it has none.
_PREFERRED: Final = StateKey[PreferredTerms | None]("PreScoreNodeAffinity")


class NodeAffinityArgs(PluginArgs, frozen=True):
    """Arguments of NodeAffinity."""

    added_affinity: NodeAffinitySpec | None = None
    """Node affinity of all pods of the profile, in addition to their own."""

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        if self.added_affinity is None:
            return []
        below = field.child_path(path, "addedAffinity")
        errors: list[FieldError] = []
        required = self.added_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            required_path = f"{below}.requiredDuringSchedulingIgnoredDuringExecution"
            errors += parse_node_selector(required, path=required_path).errors
        errors += _preferred_errors(
            self.added_affinity.preferred_during_scheduling_ignored_during_execution,
            f"{below}.preferredDuringSchedulingIgnoredDuringExecution",
        )
        return errors


def _preferred_errors(terms: Sequence[PreferredSchedulingTerm], path: str) -> list[FieldError]:
    try:
        parse_preferred_terms(terms, path=path)
    except FieldErrors as malformed:
        return list(malformed.errors)
    return []


class NodeAffinity(Plugin):
    """Respect node selectors and node affinity."""

    Args = NodeAffinityArgs
    args: NodeAffinityArgs

    def __init__(self) -> None:
        added = self.args.added_affinity
        required = added and added.required_during_scheduling_ignored_during_execution
        self._added: Final = parse_node_selector(required) if required else None
        self._added_preferred: Final = _parse_preferred(added)

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: Nodes
    ) -> PreFilterResult | Status | None:
        """Skip pods that say nothing about nodes; narrow the search for those that name some."""
        if self._added is None and pod.required_node_affinity.is_empty:
            return skip()
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        node_names = _names_of(required) if required else None
        if node_names is None:
            return None
        return PreFilterResult(node_names) if node_names else _CONFLICT

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that the profile or the pod does not allow; a malformed term allows none."""
        mismatch = ~nodes.allowed_by(pod.required_node_affinity)
        if self._added is None:
            return reject(mismatch, _POD_MISMATCH)
        return reject_by(
            (~nodes.selected_by(self._added), _ENFORCED_MISMATCH), (mismatch, _POD_MISMATCH)
        )

    def remedies(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[Remedy]:
        wanted = pod.required_node_affinity
        unmet = [*_unmet(wanted.node_selector.requirements, node)] if wanted.node_selector else []
        for terms in (self._added, wanted.terms):
            if terms is not None and not terms.matches(node.node):
                options = [_unmet_of(term, node) for term in terms.terms if not term.errors]
                nearest: list[str] = min(options or [["a well-formed node affinity term"]], key=len)
                unmet += nearest
        return [Remedy(text) for text in unmet]

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip pods without preferences; raises `ValueError` for malformed ones."""
        preferred = _preferred_by(pod)
        if preferred is None and self._added_preferred is None:
            return skip()
        state.write(_PREFERRED, preferred)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """The sum of the weights of the preferred terms that each node meets."""
        # Nothing is written where the profile leaves PreScore out; then the pod is asked again.
        preferred = state.find(_PREFERRED) or _preferred_by(pod)
        scores = np.zeros(len(nodes), dtype=np.int64)
        for terms in (self._added_preferred, preferred):
            for weight, term in terms.terms if terms else ():
                scores += nodes.meeting(term) * np.int64(weight)
        return scores

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        return default_normalize_score(scores)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        node_change = ClusterEvent(
            EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        )
        return [ClusterEventWithHint(node_change, self.is_schedulable_after_node_change)]

    def is_schedulable_after_node_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if a node is now allowed that was not allowed by the pod, or was not there.

        Raises `ValueError` if only a malformed term keeps the node out.
        """
        original, modified = as_kind(Node, old, new)
        if modified is None or (self._added is not None and not self._added.matches(modified)):
            return QueueingHint.QUEUE_SKIP
        if not _allows(pod.required_node_affinity, modified):
            return QueueingHint.QUEUE_SKIP
        return QueueingHint(original is None or not _allows(pod.required_node_affinity, original))

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        return same_parts(pod.spec.affinity, pod.spec.node_selector)


def _names_of(required: NodeSelector) -> frozenset[str] | None:
    """The only nodes that a selector can mean, going by the names in it; None if it gives none.

    Within a term names are ANDed; a term without names may mean any node.
    """
    named: frozenset[str] = frozenset()
    for term in required.node_selector_terms:
        names = _names_of_term(term)
        if names is None:
            return None
        named |= names
    return named if required.node_selector_terms else None


def _unmet_of(term: Term, node: NodeInfo) -> list[str]:
    """What a node lacks to meet one term."""
    names = [
        f"{r.key} {r.operator} ({', '.join(r.values)})"
        for r in term.fields
        if not r.accepts(field_value(r.key, node.node))
    ]
    return [*_unmet(term.expressions, node), *names]


def _unmet(requirements: Iterable[Requirement], node: NodeInfo) -> Iterator[str]:
    for requirement in requirements:
        if not requirement.matches(node.labels):
            yield _label_text(requirement)


def _label_text(requirement: Requirement) -> str:
    """The label that would do: `label disk=ssd`, `label zone in (a, b)`, `no label gpu`."""
    key, values = requirement.key, ", ".join(requirement.values)
    match requirement.operator:
        case "In":
            one = len(requirement.values) == 1
            return f"label {key}={values}" if one else f"label {key} in ({values})"
        case "NotIn":
            return f"label {key} not in ({values})"
        case "Exists":
            return f"label {key}"
        case "DoesNotExist":
            return f"no label {key}"
    return f"label {key} {'>' if requirement.operator == 'Gt' else '<'} {values}"


def _names_of_term(term: NodeSelectorTerm) -> frozenset[str] | None:
    names: frozenset[str] | None = None
    for requirement in term.match_fields:
        if requirement.key == METADATA_NAME and requirement.operator == "In":
            values = frozenset(requirement.values)
            names = values if names is None else names & values
    return names


def _preferred_by(pod: PodInfo) -> PreferredTerms | None:
    return _parse_preferred(pod.spec.affinity.node_affinity if pod.spec.affinity else None)


def _parse_preferred(affinity: NodeAffinitySpec | None) -> PreferredTerms | None:
    terms = affinity and affinity.preferred_during_scheduling_ignored_during_execution
    if not terms:
        return None
    try:
        return parse_preferred_terms(terms)
    except ExceptionGroup as group:
        raise ValueError(field.aggregate(group.exceptions)) from group


def _allows(affinity: RequiredNodeAffinity, node: Node) -> bool:
    """Whether a pod allows this node; raises `ValueError` where it takes a malformed term to say.

    Upstream's queueing hint does so, unlike its filter.
    """
    if affinity.matches(node):
        return True
    selector = affinity.node_selector
    if selector is None or selector.matches(node.metadata.labels):
        _raise_errors(affinity.terms)
    return False


def _raise_errors(terms: NodeSelectorMatcher | None) -> None:
    if terms is not None and (errors := terms.errors):
        raise ValueError(field.aggregate(errors))
