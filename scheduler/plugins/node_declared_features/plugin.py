"""NodeDeclaredFeatures: a pod that needs features of the kubelet goes where they are declared.

What a pod needs follows from its spec, what a node has it says in `status.declaredFeatures`.
Mirrors `pkg/scheduler/framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from scheduler.api.core import Node, Pod
from scheduler.framework.cycle_state import CycleState, CycleStateError, StateKey
from scheduler.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    as_kind,
)
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Rejections, Status, reject, skip, unresolvable
from scheduler.plugins.node_declared_features.features import DEFAULT_FEATURES

if TYPE_CHECKING:
    from collections.abc import Hashable

    from scheduler.api.core import PodSpec
    from scheduler.plugins.node_declared_features.features import FeatureRegistry, Version
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

_MISMATCH: Final = unresolvable("node(s) didn't match Pod's required features")

#: The features that the pod needs.
_REQUIREMENTS: Final = StateKey[frozenset[str]]("PreFilterNodeDeclaredFeatures")

_GATE: Final = "NodeDeclaredFeatures"

#: The version of Kubernetes that this scheduler is.
_VERSION: Final = (1, 36, 3)


class NodeDeclaredFeatures(Plugin):
    """Keep pods off nodes that lack a feature they need; nothing, with its feature gate off."""

    #: The features that are known, and the version of the cluster that they may be needed in.
    features: ClassVar[FeatureRegistry] = DEFAULT_FEATURES
    version: ClassVar[Version] = _VERSION

    def __init__(self) -> None:
        self._is_enabled: Final = _GATE in self.handle.feature_gates

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Find out what the pod needs; skip pods that need nothing, as most do."""
        requirements = self._needed_by(pod.spec) if self._is_enabled else None
        if not requirements:
            return skip()
        state.write(_REQUIREMENTS, requirements)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that do not declare all of it."""
        if not self._is_enabled:
            return None
        try:
            requirements = state.read(_REQUIREMENTS)
        except CycleStateError as error:
            raise LookupError(
                f'error reading "{_REQUIREMENTS.name}" from cycle-state: {error}'
            ) from error
        declared = nodes.derive(self.features.declared_by)
        return reject(declared.where(lambda has: has is None or not requirements <= has), _MISMATCH)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        """A node that comes or declares other features, and a pod that may need others."""
        if not self._is_enabled:
            return []
        node_change = ClusterEvent(
            EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        )
        pod_change = ClusterEvent(EventResource.POD, ActionType.UPDATE)
        return [
            ClusterEventWithHint(node_change, self.is_schedulable_after_node_change),
            ClusterEventWithHint(pod_change, self.is_schedulable_after_pod_update),
        ]

    def is_schedulable_after_pod_update(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if it is this pod, and it needs other features than before."""
        original, modified = as_kind(Pod, old, new)
        if original is None or modified is None or modified.metadata.uid != pod.uid:
            return QueueingHint.QUEUE_SKIP
        return QueueingHint(self._needed_by(original.spec) != self._needed_by(modified.spec))

    def is_schedulable_after_node_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the node is new or declares other features, known here or not."""
        original, modified = as_kind(Node, old, new)
        if modified is None:
            return QueueingHint.QUEUE_SKIP
        features = modified.status.declared_features
        return QueueingHint(original is None or original.status.declared_features != features)

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        """Nothing of other pods than the one that has changed."""
        return ()

    def _needed_by(self, spec: PodSpec) -> frozenset[str]:
        return self.features.infer_for_pod_scheduling(spec, self.version)
