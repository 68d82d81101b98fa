"""NodeAffinity: filter and score nodes by node selector and node affinity.

A node must match the profile's `addedAffinity` and the pod's `nodeSelector` and required node
affinity. Required terms with node names limit the search to those nodes. A node's score is the sum
of the weights of the preferred terms that it matches.
Mirrors `pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from scheduler.api import field
from scheduler.api.core import Node, PreferredSchedulingTerm
from scheduler.api.core import NodeAffinity as NodeAffinitySpec
from scheduler.api.field import FieldError, FieldErrors
from scheduler.api.node_selectors import (
    METADATA_NAME,
    PreferredTerms,
    RequiredNodeAffinity,
    field_value,
    parse_node_selector,
    parse_preferred_terms,
)
from scheduler.config.types import FeatureGates, PluginArgs
from scheduler.framework.arithmetic import default_normalize_score
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin, Remedy, same_parts
from scheduler.framework.status import Rejections, Status, reject, reject_by, skip, unresolvable
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

#: The number of a label's values that are named where none is right.
_VALUES_SHOWN: Final = 5

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
    """Filter and score nodes by node selector and node affinity."""

    only_takes_room: ClassVar[bool] = True
    ignores_resizes = True
    only_ranks = True
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
        """Skip pods without required terms; limit the search if the terms name nodes."""
        if self._added is None and pod.required_node_affinity.is_empty:
            return skip()
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        node_names = _names_of(required) if required else None
        if node_names is None:
            return None
        return PreFilterResult(node_names) if node_names else _CONFLICT

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that the profile's or the pod's terms do not match.

        A malformed term matches no node.
        """
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
        # The pod asks for other nodes: any other change is smaller.
        return [Remedy(text, 2.0, f"do not require {text}", _on_node(text)) for text in unmet]

    def cause(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> str:
        """Name what no node has, and the values that nodes have instead."""
        wanted = pod.required_node_affinity
        if nodes.allowed_by(wanted).any():  # the profile's affinity rejects the other nodes
            return ""
        selector = wanted.node_selector.requirements if wanted.node_selector else ()
        if wanted.terms is None:
            return _lacking(selector, nodes)
        if any(term.errors or term.fields for term in wanted.terms.terms):
            return ""
        texts = [_lacking((*selector, *t.expressions), nodes) for t in wanted.terms.terms]
        return ", and ".join(dict.fromkeys(texts)) if all(texts) else ""

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip pods without preferred terms; raises `ValueError` for malformed ones."""
        preferred = preferred_by(pod)
        if preferred is None and self._added_preferred is None:
            return skip()
        state.write(_PREFERRED, preferred)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        # A profile may leave out PreScore; then nothing is stored.
        preferred = state.find(_PREFERRED) or preferred_by(pod)
        scores = np.zeros(len(nodes), dtype=np.int64)
        for terms in (self._added_preferred, preferred):
            for weight, term in terms or ():
                scores += nodes.meeting(term) * np.int64(weight)
        return scores

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        return default_normalize_score(scores)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        node_change = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [on(Node, node_change, self.is_schedulable_after_node_change)]

    def is_schedulable_after_node_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the node matches now and did not before, or is new.

        Raises `ValueError` if only a malformed term does not match.
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
    """Return the names of the only nodes a selector can match; None if any node may match.

    Names within a term are ANDed; a term without names may match any node.
    """
    named: frozenset[str] = frozenset()
    for term in required.node_selector_terms:
        names = _names_of_term(term)
        if names is None:
            return None
        named |= names
    return named if required.node_selector_terms else None


def _unmet_of(term: Term, node: NodeInfo) -> list[str]:
    """Return texts for the requirements of a term that the node does not meet."""
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


def _lacking(requirements: Sequence[Requirement], nodes: Nodes) -> str:
    """Return a text for the requirements that no node meets; empty if there are none."""
    texts = []
    for requirement in requirements:
        found = nodes.labels(requirement.key)
        if not np.count_nonzero(nodes.accepted_by(requirement)):
            text = f"no node has {requirement.text}"
            values = sorted({v for v in found.values if v is not None})
            if values and requirement.values:
                shown = ", ".join(values[:_VALUES_SHOWN])
                rest = len(values) - _VALUES_SHOWN
                more = f" and {rest:,} more" if rest > 0 else ""
                text += f"; {requirement.key} has {shown}{more}"
            elif requirement.values:
                text += f", nor any label {requirement.key}"
            texts.append(text)
    if not texts and len(requirements) > 1:
        both = " and ".join(r.text for r in requirements)
        return f"no node has {both}"
    return "; ".join(texts)


def _on_node(text: str) -> str:
    """Return the change of a node after which it has a label, or no longer."""
    return f"remove the {text.removeprefix('no ')}" if text.startswith("no label ") else text


def _label_text(requirement: Requirement) -> str:
    """Return a text such as `label disk=ssd`, `label zone in (a, b)`, `no label gpu`."""
    return f"{'' if requirement.operator == 'DoesNotExist' else 'label '}{requirement.text}"


def _names_of_term(term: NodeSelectorTerm) -> frozenset[str] | None:
    names: frozenset[str] | None = None
    for requirement in term.match_fields:
        if requirement.key == METADATA_NAME and requirement.operator == "In":
            values = frozenset(requirement.values)
            names = values if names is None else names & values
    return names


def preferred_by(pod: PodInfo) -> PreferredTerms | None:
    """Return the pod's preferred terms; raises `ValueError` for malformed ones."""
    return _parse_preferred(pod.spec.affinity.node_affinity if pod.spec.affinity else None)


def _parse_preferred(affinity: NodeAffinitySpec | None) -> PreferredTerms | None:
    terms = affinity and affinity.preferred_during_scheduling_ignored_during_execution
    return parse_preferred_terms(terms) if terms else None


def _allows(affinity: RequiredNodeAffinity, node: Node) -> bool:
    """True if the node matches; raises `ValueError` if it might match a malformed term.

    Upstream's queueing hint does so, unlike its filter.
    """
    if affinity.matches(node):
        return True
    selector, terms = affinity.node_selector, affinity.terms
    is_selected = selector is None or selector.matches(node.metadata.labels)
    if is_selected and terms is not None and terms.errors:
        raise ValueError(field.aggregate(terms.errors))
    return False
