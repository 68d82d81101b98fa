"""The predicates and priorities of v1.13 that look at services, controllers and labels of nodes.

    SelectorSpreadPriority       spread the pods of a service or controller over nodes and zones
    ServiceSpreadingPriority     the same for services only
    ServiceAntiAffinityPriority  spread the pods of a service over the values of a node label
    CheckServiceAffinity         keep the pods of a service on nodes with equal values of labels
    CheckNodeLabelPresence       reject nodes with, or without, certain labels

Source: v1.13 `algorithm/priorities/{selector_spreading,metadata}.go`,
`algorithm/predicates/{predicates,metadata}.go`, client-go `listers/*/*_expansion.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
import numpy as np

from scheduler.api.core import Node, Pod
from scheduler.api.field import FieldErrors
from scheduler.api.selectors import SelectorError, parse_label_selector, selector_from_set
from scheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from scheduler.framework.cycle_state import StateKey
from scheduler.framework.events import ActionType, ClusterEventWithHint, on
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Rejections, reject, unresolvable, unschedulable
from scheduler.plugins.legacy.scores import MAX_PRIORITY, SCALE
from scheduler.snapshot.columns import uniform
from scheduler.snapshot.nodes import label_of, zone_key
from scheduler.snapshot.pod_kind import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduler.api.selectors import Selector
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.handle import Handle
    from scheduler.snapshot.columns import BoolArray, Codes, FloatArray, IntArray
    from scheduler.snapshot.nodes import NodeInfo, Nodes
    from scheduler.snapshot.pod_info import PodInfo
    from scheduler.snapshot.pod_kind import PodKind

_ZONE_WEIGHTING: Final = 2.0 / 3.0

_LABELS_ABSENT: Final = unresolvable("node(s) didn't have the requested labels")
_NO_SERVICE_AFFINITY: Final = unschedulable("node(s) didn't match service affinity")


class _MatchingPods(Rule):
    """Rule that counts a namespace's pods that one of the selectors matches, if not terminating."""

    def __init__(self, namespace: str, selectors: Sequence[Selector]) -> None:
        requirements = frozenset(
            frozenset((r.key, r.operator, r.values) for r in selector.requirements)
            for selector in selectors
        )
        super().__init__((namespace, requirements))
        self.namespaces: Final = frozenset((namespace,))
        self._selectors: Final = selectors

    def __call__(self, kind: PodKind) -> int:
        if kind.is_terminating or kind.namespace not in self.namespaces:
            return 0
        return int(any(selector.matches(kind.labels) for selector in self._selectors))


def _service_selectors(pod: PodInfo, handle: Handle) -> Iterator[Selector]:
    """Yield the selectors of the pod's services. A service without a selector has no pods."""
    for service in handle.lister(Service).list(pod.namespace):
        selected = service.spec.selector
        if selected and selected.items() <= pod.labels.items():
            yield selector_from_set(selected)


def _controller_selectors(pod: PodInfo, handle: Handle) -> Iterator[Selector]:
    """Yield the selectors of controllers that match the pod, whether it is theirs or not."""
    for controller in handle.lister(ReplicationController).list(pod.namespace):
        selected = controller.spec.selector
        if selected and selected.items() <= pod.labels.items():
            yield selector_from_set(selected)
    specs = [
        *(owner.spec for owner in handle.lister(ReplicaSet).list(pod.namespace)),
        *(owner.spec for owner in handle.lister(StatefulSet).list(pod.namespace)),
    ]
    for spec in specs:
        try:
            selector = parse_label_selector(spec.selector)
        except (SelectorError, FieldErrors):
            continue
        if selector.requirements and pod.labels and selector.matches(pod.labels):
            yield selector


def _sums_by(codes: Codes[str], counts: IntArray) -> IntArray:
    """Return for each node the sum of the counts of all nodes with its value; 0 without one."""
    numbers = codes.codes.astype(np.int64) + 1
    sums = np.bincount(numbers, weights=counts, minlength=1).astype(np.int64)
    sums[0] = 0
    return sums.take(numbers)


def _inverse(counts: IntArray, highest: int) -> FloatArray:
    """Return 10 for a count of 0, and 0 for the highest."""
    if not highest:
        return np.full(len(counts), float(MAX_PRIORITY))
    return MAX_PRIORITY * ((highest - counts) / highest)


class ServiceSpreadingPriority(Plugin):
    """Prefer nodes and zones with fewer pods of the pod's services."""

    reads: ClassVar[tuple[str, ...]] = ("services",)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        selectors = [*self._selectors(pod)]
        if not selectors:
            return uniform(len(nodes), np.int64(MAX_PRIORITY * SCALE))
        rule = _MatchingPods(pod.namespace, selectors)
        counts = self.handle.snapshot.count_pods(rule)[nodes.base_rows]
        scores = _inverse(counts, int(counts.max(initial=0)))
        zones = nodes.derive(_zone)
        in_zone = _sums_by(zones, counts)
        zone_scores = _inverse(in_zone, int(in_zone.max(initial=0)))
        mixed = scores * (1.0 - _ZONE_WEIGHTING) + _ZONE_WEIGHTING * zone_scores
        return np.where(zones.present, mixed, scores).astype(np.int64) * SCALE

    def _selectors(self, pod: PodInfo) -> Iterator[Selector]:
        return _service_selectors(pod, self.handle)


def _zone(node: Node) -> str | None:
    return zone_key(node) or None


class SelectorSpreadPriority(ServiceSpreadingPriority):
    """Prefer nodes and zones with fewer pods of the pod's services and controllers."""

    reads: ClassVar[tuple[str, ...]] = (
        "services",
        "replicationcontrollers",
        "replicasets",
        "statefulsets",
    )

    def _selectors(self, pod: PodInfo) -> Iterator[Selector]:
        yield from _service_selectors(pod, self.handle)
        yield from _controller_selectors(pod, self.handle)


class ServiceAntiAffinityArgs(msgspec.Struct, frozen=True):
    """Arguments of ServiceAntiAffinityPriority."""

    label: str = ""


class ServiceAntiAffinityPriority(Plugin):
    """Prefer values of a node label with fewer pods of the pod's first service."""

    Args = ServiceAntiAffinityArgs
    args: ServiceAntiAffinityArgs
    reads: ClassVar[tuple[str, ...]] = ("services",)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        values = nodes.labels(self.args.label)
        first = [*_service_selectors(pod, self.handle)][:1]
        if not first:
            return values.present * np.int64(MAX_PRIORITY * SCALE)
        rule = _MatchingPods(pod.namespace, first)
        counts = self.handle.snapshot.count_pods(rule)[nodes.base_rows]
        scores = _inverse(_sums_by(values, counts), int(counts.sum()))
        return np.where(values.present, scores, 0).astype(np.int64) * SCALE


class LabelsPresenceArgs(msgspec.Struct, frozen=True):
    """Arguments of CheckNodeLabelPresence."""

    labels: tuple[str, ...] = ()
    presence: bool = False


class CheckNodeLabelPresence(Plugin):
    """Reject nodes without one of the labels or, with `presence: false`, with one of them."""

    Args = LabelsPresenceArgs
    args: LabelsPresenceArgs

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        rejected = np.zeros(len(nodes), dtype=np.bool_)
        for label in self.args.labels:
            rejected |= nodes.labels(label).present != self.args.presence
        return reject(rejected, _LABELS_ABSENT)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [on(Node, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)]


class ServiceAffinityArgs(msgspec.Struct, frozen=True):
    """Arguments of CheckServiceAffinity."""

    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Wanted:
    """The labels that the pod's node selector sets, and the number of pods like it per node.

    `rule` counts these pods; it is None if the node selector has all labels, or without a service.

    A dry run changes each node in a world of its own: `changes` by base row apply to that row only.
    """

    selected: Mapping[str, str]
    rule: _PodsWithLabels | None
    counts: IntArray
    changes: dict[int, int] = field(default_factory=dict)

    def clone(self) -> _Wanted:
        return replace(self, changes=dict(self.changes))

    def change(self, other: PodInfo, row: int, sign: int) -> None:
        """Add (1) or remove (-1) a pod on the node."""
        if self.rule is not None:
            self.changes[row] = self.changes.get(row, 0) + sign * self.rule(other.kind)

    def first(self, row: int | None = None) -> int | None:
        """Return the first row with a pod, in the world of `row`; None if there is none."""
        counts = self.counts
        if row is not None:
            counts = counts.copy()
            counts[row] += self.changes[row]
        rows = np.flatnonzero(counts)
        return int(rows[0]) if len(rows) else None


_WANTED: Final = StateKey[_Wanted]("PreFilterCheckServiceAffinity")


class CheckServiceAffinity(Plugin):
    """Keep the pods of a service on nodes with the same values of some labels.

    A label's value comes from the pod's node selector or, if the pod is in a service, from the
    first node with a pod with the same labels.
    """

    Args = ServiceAffinityArgs
    args: ServiceAffinityArgs
    reads: ClassVar[tuple[str, ...]] = ("services",)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        selector = pod.spec.node_selector
        selected = {label: selector[label] for label in self.args.labels if label in selector}
        rule, counts = None, np.zeros(len(nodes), dtype=np.int64)
        is_complete = len(self.args.labels) <= len(selected)
        if not is_complete and next(_service_selectors(pod, self.handle), None) is not None:
            rule = _PodsWithLabels(pod.namespace, frozenset(pod.labels.items()))
            counts = self.handle.snapshot.count_pods(rule)
        state.write(_WANTED, _Wanted(selected, rule, counts))

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        state.read(_WANTED).change(added, node.base_row, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        state.read(_WANTED).change(removed, node.base_row, -1)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        wanted = state.read(_WANTED)
        rejected = self._mismatch(wanted, wanted.first(), nodes)
        for index, row in enumerate(nodes.base_rows.tolist() if wanted.changes else ()):
            if wanted.changes.get(row):
                alone = nodes.slice(index, index + 1)
                rejected[index] = self._mismatch(wanted, wanted.first(row), alone)[0]
        return reject(rejected, _NO_SERVICE_AFFINITY)

    def _mismatch(self, wanted: _Wanted, first: int | None, nodes: Nodes) -> BoolArray:
        """Return True for nodes with another value than the node selector or the first node."""
        mismatch = np.zeros(len(nodes), dtype=np.bool_)
        for label in self.args.labels:
            value = wanted.selected.get(label)
            if value is None and first is not None:
                value = label_of(label)(self.handle.snapshot.nodes[first].node)
            if value is not None:
                mismatch |= ~nodes.labels(label).isin((value,))
        return mismatch

    def events_to_register(self) -> list[ClusterEventWithHint]:
        pod_change = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        return [
            on(Pod, pod_change),
            on(Node, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(Service, ActionType.ALL),
        ]


@dataclass(frozen=True)
class _PodsWithLabels:
    """Rule that counts the pods of a namespace that have all of the labels."""

    namespace: str
    labels: frozenset[tuple[str, str]]
    needs_affinity_terms: ClassVar[bool] = False

    @property
    def namespaces(self) -> frozenset[str]:
        return frozenset((self.namespace,))

    @property
    def wanted_labels(self) -> frozenset[tuple[str, str]] | None:
        return self.labels or None

    def __call__(self, kind: PodKind) -> int:
        return int(kind.namespace == self.namespace and self.labels <= kind.labels.items())
