"""PodTopologySpread: spread matching pods evenly over zones, hosts, or other domains.

A DoNotSchedule constraint rejects nodes in whose domain the pod would make the count exceed the
least count of all domains by more than `maxSkew`. ScheduleAnyway constraints score nodes: the fewer
matching pods in a node's domains, the higher.
Mirrors `pkg/scheduler/framework/plugins/podtopologyspread/*.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from scheduler.api import field
from scheduler.api.core import Node, Pod, TopologySpreadConstraint
from scheduler.api.field import FieldError, FieldErrors
from scheduler.api.names import label_key_errors
from scheduler.api.selectors import SelectorError
from scheduler.api.tolerations import toleration_rule
from scheduler.config.types import FeatureGates, PluginArgs
from scheduler.config.versions import SchedulerVersion
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin, Remedy, same_parts
from scheduler.framework.status import Rejections, Status, skip
from scheduler.plugins.pod_topology_spread.constraints import (
    DO_NOT_SCHEDULE,
    LISTED_KINDS,
    SCHEDULE_ANYWAY,
    SYSTEM_DEFAULT_CONSTRAINTS,
    SpreadConstraint,
    default_selector,
    has_keys,
    parse_constraints,
)
from scheduler.plugins.pod_topology_spread.filtering import PreFilterState
from scheduler.plugins.pod_topology_spread.scoring import PreScoreState

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from scheduler.snapshot.columns import IntArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo

#: The state of a cycle.
PRE_FILTER_STATE: Final = StateKey[PreFilterState](
    "PreFilterPodTopologySpread", 'reading "{}" from cycleState: not found'
)
PRE_SCORE_STATE: Final = StateKey[PreScoreState](
    "PreScorePodTopologySpread", 'error reading "{}" from cycleState: not found'
)

#: The feature gate behind `matchLabelKeys`, on by default.
_MATCH_LABEL_KEYS: Final = "MatchLabelKeysInPodTopologySpread"

#: What error texts call the two kinds of constraints.
_WORDS: Final = {DO_NOT_SCHEDULE: "hard", SCHEDULE_ANYWAY: "soft"}


SYSTEM_DEFAULTING: Final = "System"
LIST_DEFAULTING: Final = "List"

_CAN_NOT_BE_EMPTY: Final = "can not be empty"
_WHEN_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")


class PodTopologySpreadArgs(PluginArgs, frozen=True):
    """Arguments of PodTopologySpread."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    """Constraints, without selectors, for pods that have none; only with defaulting type `List`."""

    defaulting_type: str = ""
    """`System`: spread softly over hosts and zones. `List`: `default_constraints`.

    Default: `System`.
    """

    def with_defaults(self, gates: FeatureGates) -> PodTopologySpreadArgs:
        return msgspec.structs.replace(
            self, defaulting_type=self.defaulting_type or SYSTEM_DEFAULTING
        )

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        errors = self._defaulting_type_errors(field.child_path(path, "defaultingType"))
        for index, constraint in enumerate(self.default_constraints):
            below = field.child_path(path, f"defaultConstraints[{index}]")
            errors += _constraint_errors(constraint, below)
            earlier = self.default_constraints[:index]
            if any(_same_domain(constraint, other) for other in earlier):
                pair = f"{{{constraint.topology_key}, {constraint.when_unsatisfiable}}}"
                errors.append(field.duplicate(below, pair))
        return errors

    def _defaulting_type_errors(self, path: str) -> list[FieldError]:
        supported = (SYSTEM_DEFAULTING, LIST_DEFAULTING)
        if self.defaulting_type not in supported:
            return [field.not_supported(path, self.defaulting_type, supported)]
        if self.defaulting_type == SYSTEM_DEFAULTING and self.default_constraints:
            message = "when .defaultConstraints are not empty"
            return [field.invalid(path, self.defaulting_type, message)]
        return []


def _constraint_errors(constraint: TopologySpreadConstraint, path: str) -> list[FieldError]:
    errors = []
    if constraint.max_skew <= 0:
        message = "not in valid range (0, inf)"
        errors.append(field.invalid(f"{path}.maxSkew", constraint.max_skew, message))
    key, key_path = constraint.topology_key, f"{path}.topologyKey"
    if not key:
        errors.append(field.required(key_path, _CAN_NOT_BE_EMPTY))
    else:
        errors += [field.invalid(key_path, key, text) for text in label_key_errors(key)]
    action, action_path = constraint.when_unsatisfiable, f"{path}.whenUnsatisfiable"
    if not action:
        errors.append(field.required(action_path, _CAN_NOT_BE_EMPTY))
    elif action not in _WHEN_UNSATISFIABLE:
        errors.append(field.not_supported(action_path, action, _WHEN_UNSATISFIABLE))
    if constraint.label_selector is not None:
        message = "constraint must not define a selector, as they deduced for each pod"
        errors.append(field.forbidden(f"{path}.labelSelector", message))
    return errors


def _same_domain(constraint: TopologySpreadConstraint, other: TopologySpreadConstraint) -> bool:
    return (
        constraint.topology_key == other.topology_key
        and constraint.when_unsatisfiable == other.when_unsatisfiable
    )


class PodTopologySpread(Plugin):
    """Apply topology spread constraints: the pod's own, else the profile's."""

    only_ranks = True
    ignores_resizes = True
    reads: ClassVar[tuple[str, ...]] = LISTED_KINDS
    Args = PodTopologySpreadArgs
    args: PodTopologySpreadArgs

    def __init__(self) -> None:
        args = self.args
        self._is_system_defaulted: Final = args.defaulting_type == SYSTEM_DEFAULTING
        defaults = (
            SYSTEM_DEFAULT_CONSTRAINTS if self._is_system_defaulted else args.default_constraints
        )
        self._toleration_rule: Final = toleration_rule(self.handle.feature_gates)
        self._counts_nominated: Final = self.handle.version >= SchedulerVersion.V1_36
        self._uses_match_label_keys: Final = _MATCH_LABEL_KEYS in self.handle.feature_gates
        self._defaults: Final = {
            action: parse_constraints(defaults, {}, action) for action in _WORDS
        }

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Count matching pods by domain; skip pods without hard constraints.

        Raises `ValueError` for a malformed selector.
        """
        try:
            constraints = self._constraints_of(pod, DO_NOT_SCHEDULE)
        except ValueError as error:
            raise ValueError(f"get constraints from pod: {error}") from error
        if not constraints:
            return skip()
        snapshot = self.handle.snapshot
        state.write(
            PRE_FILTER_STATE, PreFilterState(pod, snapshot, constraints, self._toleration_rule)
        )
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        state.read(PRE_FILTER_STATE).change(added, node.base_row, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        state.read(PRE_FILTER_STATE).change(removed, node.base_row, -1)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes without a topology key, and nodes in domains with too many pods."""
        return state.read(PRE_FILTER_STATE).rejections(nodes.base_rows)

    def remedies(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> list[Remedy]:
        """Name the counts of the node's domains, and the pods that are too many."""
        return state.read(PRE_FILTER_STATE).remedies(node.base_row)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Count matching pods by domain; skip pods without soft constraints.

        Nodes without all topology keys are scored only under the system's constraints: a node
        without a zone has a hostname. Raises `ValueError` for a malformed selector.
        """
        try:
            constraints = self._constraints_of(pod, SCHEDULE_ANYWAY)
        except ValueError as error:
            raise ValueError(f"calculating preScoreState: {error}") from error
        if not constraints:
            return skip()
        has_own = bool(pod.spec.topology_spread_constraints)
        pre_score_state = PreScoreState(
            pod,
            self.handle.snapshot,
            constraints,
            nodes,
            self._toleration_rule,
            requires_all_keys=has_own or not self._is_system_defaulted,
        )
        state.write(PRE_SCORE_STATE, pre_score_state)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        """Return the weighted number of pods in each node's domains."""
        return state.read(PRE_SCORE_STATE).scores(nodes)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        return state.read(PRE_SCORE_STATE).normalized(scores)

    def _constraints_of(self, pod: PodInfo, action: str) -> tuple[SpreadConstraint, ...]:
        """Return constraints with this action: the pod's, or the profile's if the pod has none."""
        own = pod.spec.topology_spread_constraints
        if own:
            labels = pod.labels if self._uses_match_label_keys else {}
            try:
                return parse_constraints(own, labels, action)
            except (SelectorError, FieldErrors) as error:
                subject = f"pod's {_WORDS[action]} topology spread constraints"
                raise ValueError(f"obtaining {subject}: {error}") from error
        defaults = self._defaults[action]
        if not defaults:
            return ()
        selector = default_selector(pod, self.handle)
        if selector.is_empty:
            return ()
        return tuple(constraint._replace(selector=selector) for constraint in defaults)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        add_or_delete = ActionType.ADD | ActionType.DELETE
        pod_update = ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION
        node_update = ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return [
            *self.on_pods(
                self.is_schedulable_after_pod_change,
                assigned=add_or_delete | ActionType.UPDATE_POD_LABEL,
                target=pod_update,
            ),
            on(Node, add_or_delete | node_update, self.is_schedulable_after_node_change),
        ]

    def is_schedulable_after_pod_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the change adds or removes a matching pod.

        Also queue if this pod tolerates other taints, which may change the nodes that count. Only
        pods assigned or, since 1.36, nominated to a node count. Raises `ValueError` for a malformed
        selector.
        """
        original, modified = as_kind(Pod, old, new)
        if any(one and not self._is_involved(one, pod) for one in (original, modified)):
            return QueueingHint.QUEUE_SKIP
        constraints = self._constraints_of(pod, DO_NOT_SCHEDULE)
        if original is None or modified is None:
            changed = original or modified
            return QueueingHint(
                changed is not None
                and any(c.selector.matches(changed.metadata.labels) for c in constraints)
            )
        if (
            pod.uid == modified.metadata.uid
            and modified.spec.tolerations != original.spec.tolerations
            and any(constraint.honors_taints for constraint in constraints)
        ):
            return QueueingHint.QUEUE
        before, after = original.metadata.labels, modified.metadata.labels
        return QueueingHint(
            any(c.selector.matches(before) != c.selector.matches(after) for c in constraints)
        )

    def _is_involved(self, changed: Pod, pod: PodInfo) -> bool:
        """Return True if the pod is the same or may count (`involvedInTopologySpreading`)."""
        if changed.metadata.uid == pod.uid:
            return True
        nominated = changed.status.nominated_node_name if self._counts_nominated else ""
        has_node = bool(changed.spec.node_name or nominated)
        return has_node and changed.metadata.namespace == pod.namespace

    def is_schedulable_after_node_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if a node with all topology keys is added, deleted, relabelled or tainted anew.

        Raises `ValueError` for a malformed selector.
        """
        original, modified = as_kind(Node, old, new)
        constraints = self._constraints_of(pod, DO_NOT_SCHEDULE)
        was_in = original is not None and has_keys(original.metadata.labels, constraints)
        is_in = modified is not None and has_keys(modified.metadata.labels, constraints)
        if original is None or modified is None or was_in != is_in:
            return QueueingHint(was_in or is_in)
        return QueueingHint(
            is_in
            and (
                original.spec.taints != modified.spec.taints
                or _changes_domain(original, modified, constraints)
            )
        )

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        """Return the pod's constraints, and its labels if `matchLabelKeys` uses them.

        The profile's constraints depend on services and owners; such pods share no hints.
        """
        own = pod.spec.topology_spread_constraints
        if not own:
            return pod.uid
        takes_labels = any(constraint.match_label_keys for constraint in own)
        labels = tuple(sorted(pod.labels.items())) if takes_labels else ()
        return pod.namespace, same_parts(own), labels


def _changes_domain(
    original: Node, modified: Node, constraints: Sequence[SpreadConstraint]
) -> bool:
    before, after = original.metadata.labels, modified.metadata.labels
    return any(before[c.topology_key] != after[c.topology_key] for c in constraints)
