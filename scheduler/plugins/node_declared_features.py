"""NodeDeclaredFeatures: reject nodes that do not declare the kubelet features a pod needs.

A kubelet lists its features in `node.status.declaredFeatures`. The features a pod needs follow from
its spec. A feature that every supported kubelet has from some cluster version on is no longer
required then (`max_version`).
Mirrors `pkg/scheduler/framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go`, v1.36.3, and
`k8s.io/component-helpers/nodedeclaredfeatures`, v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

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

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from scheduler.api.core import PodSpec
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

#: A version of Kubernetes: major, minor, patch.
Version = tuple[int, int, int]


class Feature(NamedTuple):
    """A feature by its well-known name, and whether a pod needs it in order to be placed.

    `max_version` is the last version of the cluster in which nodes may be without it; None means
    that they always may.
    """

    name: str
    is_needed_by: Callable[[PodSpec], bool]
    max_version: Version | None = None


class FeatureRegistry:
    """The features that are known. All others that a node declares mean nothing."""

    def __init__(self, features: Iterable[Feature]) -> None:
        self._features: Final = sorted(features, key=lambda feature: feature.name)
        #: Their names, in order.
        self.names: Final = tuple(feature.name for feature in self._features)

    def infer_for_pod_scheduling(self, spec: PodSpec, target_version: Version) -> frozenset[str]:
        """The features that a node of a cluster of this version must declare to run the pod."""
        return frozenset(
            feature.name
            for feature in self._features
            if (feature.max_version is None or target_version <= feature.max_version)
            and feature.is_needed_by(spec)
        )

    def known_among(self, declared: Sequence[str]) -> frozenset[str]:
        """The known features among those that a node declares, ascending as the API keeps them.

        Both lists are walked once, side by side: what stands out of order may go unseen
        (`FeatureMapper.TryMap`).
        """
        found: list[str] = []
        remaining = iter(self.names)
        known = next(remaining, None)
        for name in declared:
            while known is not None and known < name:
                known = next(remaining, None)
            if known == name:
                found.append(name)
                known = next(remaining, None)
        return frozenset(found)

    def declared_by(self, node: Node) -> frozenset[str]:
        """The known features that a node declares."""
        return self.known_among(node.status.declared_features)


def _never(spec: PodSpec) -> bool:
    """Whether a pod is placed does not depend on it; updates and connections do."""
    return False


def _restarts_all_containers(spec: PodSpec) -> bool:
    return any(
        rule.action == "RestartAllContainers"
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    )


def _has_user_namespace_on_host_network(spec: PodSpec) -> bool:
    return spec.host_network and spec.host_users is False


#: Every feature that Kubernetes v1.36 knows (`features.AllFeatures`). None has an upper bound yet.
ALL_FEATURES: Final = (
    Feature("RestartAllContainersOnContainerExits", _restarts_all_containers),
    Feature("InPlacePodLevelResourcesVerticalScaling", _never),
    Feature("ExtendWebSocketsToKubelet", _never),
    Feature("InPlacePodVerticalScalingInitContainers", _never),
    Feature("UserNamespacesHostNetworkSupport", _has_user_namespace_on_host_network),
)

#: What the scheduler goes by.
DEFAULT_FEATURES: Final = FeatureRegistry(ALL_FEATURES)


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
