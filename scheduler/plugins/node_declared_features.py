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
from scheduler.config.versions import SchedulerVersion
from scheduler.framework.cycle_state import CycleState, StateKey
from scheduler.framework.events import ActionType, ClusterEventWithHint, QueueingHint, as_kind, on
from scheduler.framework.interface import Plugin
from scheduler.framework.status import Rejections, Status, reject, skip, unresolvable
from scheduler.plugins._queueing_hints import updated_self

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from scheduler.api.core import PodSpec
    from scheduler.snapshot.nodes import Nodes
    from scheduler.snapshot.pod_info import PodInfo

#: A version of Kubernetes: major, minor, patch.
Version = tuple[int, int, int]


class Feature(NamedTuple):
    """A feature of the kubelet that pods may need."""

    name: str
    is_needed_by: Callable[[PodSpec], bool]
    #: The last version of the cluster in which nodes may lack the feature; None: no such limit.
    max_version: Version | None = None
    #: The first scheduler that knows the feature.
    since: SchedulerVersion = SchedulerVersion.V1_35


class FeatureRegistry:
    """The known features. All other features of a node are ignored."""

    def __init__(self, features: Iterable[Feature]) -> None:
        self._features: Final = sorted(features, key=lambda feature: feature.name)
        #: Their names, in order.
        self.names: Final = tuple(feature.name for feature in self._features)

    def as_of(self, version: SchedulerVersion) -> FeatureRegistry:
        """Return the features that a scheduler of this version knows."""
        return FeatureRegistry(feature for feature in self._features if feature.since <= version)

    def infer_for_pod_scheduling(self, spec: PodSpec, target_version: Version) -> frozenset[str]:
        """Return the features a node must declare to run the pod in a cluster of this version."""
        return frozenset(
            feature.name
            for feature in self._features
            if (feature.max_version is None or target_version <= feature.max_version)
            and feature.is_needed_by(spec)
        )

    def known_among(self, declared: Sequence[str]) -> frozenset[str]:
        """Return the known features of a list that the API keeps in ascending order.

        Both lists are read in one pass, so that a feature out of order may be missed, as upstream
        (`FeatureMapper.TryMap`).
        """
        matches: list[str] = []
        remaining = iter(self.names)
        feature = next(remaining, None)
        for name in declared:
            while feature is not None and feature < name:
                feature = next(remaining, None)
            if feature == name:
                matches.append(name)
                feature = next(remaining, None)
        return frozenset(matches)

    def declared_by(self, node: Node) -> frozenset[str]:
        return self.known_among(node.status.declared_features)


def _restarts_all_containers(spec: PodSpec) -> bool:
    return any(
        rule.action == "RestartAllContainers"
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    )


def _has_user_namespace_on_host_network(spec: PodSpec) -> bool:
    return spec.host_network and spec.host_users is False


def _has_bind_mount_options(spec: PodSpec) -> bool:
    containers = (*spec.containers, *spec.init_containers)
    return any(mount.bind_mount_options for c in containers for mount in c.volume_mounts)


#: The features that a pod can need when it is scheduled, of all that a kubelet may declare. None
#: has an upper bound yet.
ALL_FEATURES: Final = (
    Feature("RestartAllContainersOnContainerExits", _restarts_all_containers),
    Feature(
        "UserNamespacesHostNetworkSupport",
        _has_user_namespace_on_host_network,
        since=SchedulerVersion.V1_36,
    ),
    Feature("VolumeBindMountOptions", _has_bind_mount_options, since=SchedulerVersion.V1_37),
)

#: The features that all versions check together.
DEFAULT_FEATURES: Final = FeatureRegistry(ALL_FEATURES)


_MISMATCH: Final = unresolvable("node(s) didn't match Pod's required features")


def _named_mismatch(requirements: frozenset[str]) -> Status:
    """Return the text of 1.35, which knows a single feature that a pod can need."""
    names = ", ".join(sorted(requirements))
    return unresolvable(f"node declared features check failed - unsatisfied requirements: {names}")


#: The features that the pod needs.
_REQUIREMENTS: Final = StateKey[frozenset[str]](
    "PreFilterNodeDeclaredFeatures", 'error reading "{}" from cycle-state: not found'
)

#: The feature gate.
DECLARED_FEATURES: Final = "NodeDeclaredFeatures"

#: The version of Kubernetes that this scheduler is.
_VERSION: Final = (1, 36, 3)


class NodeDeclaredFeatures(Plugin):
    """Keep pods off nodes that lack a feature they need. No-op without its feature gate."""

    only_takes_room: ClassVar[bool] = True
    ignores_resizes = True
    #: The features of all schedulers, and the version of the cluster.
    features: ClassVar[FeatureRegistry] = DEFAULT_FEATURES
    version: ClassVar[Version] = _VERSION

    def __init__(self) -> None:
        self._is_enabled: Final = DECLARED_FEATURES in self.handle.feature_gates
        self._features: Final = self.features.as_of(self.handle.version)
        self._names_features: Final = self.handle.version < SchedulerVersion.V1_36

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Skip pods that need no feature, as most do."""
        requirements = self._needed_by(pod.spec) if self._is_enabled else None
        if not requirements:
            return skip()
        state.write(_REQUIREMENTS, requirements)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that do not declare all features the pod needs."""
        if not self._is_enabled:
            return None
        requirements = state.read(_REQUIREMENTS)
        declared = nodes.derive(self._features.declared_by)
        lacking = declared.where(lambda has: has is None or not requirements <= has)
        return reject(lacking, _named_mismatch(requirements) if self._names_features else _MISMATCH)

    def events_to_register(self) -> list[ClusterEventWithHint]:
        if not self._is_enabled:
            return []
        node_change = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        return [
            on(Node, node_change, self.is_schedulable_after_node_change),
            *self.on_pods(self.is_schedulable_after_pod_update, target=ActionType.UPDATE),
        ]

    def is_schedulable_after_pod_update(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if this pod was updated and needs other features than before."""
        modified = updated_self(pod, old, new)
        if modified is None or not isinstance(old, Pod):
            return QueueingHint.QUEUE_SKIP
        return QueueingHint(self._needed_by(old.spec) != self._needed_by(modified.spec))

    def is_schedulable_after_node_change(
        self, pod: PodInfo, old: object, new: object
    ) -> QueueingHint:
        """Queue if the node is new or declares other features than before, known or not."""
        original, modified = as_kind(Node, old, new)
        if modified is None:
            return QueueingHint.QUEUE_SKIP
        features = modified.status.declared_features
        return QueueingHint(original is None or original.status.declared_features != features)

    def hints_depend_on(self, pod: PodInfo) -> Hashable:
        return ()

    def _needed_by(self, spec: PodSpec) -> frozenset[str]:
        return self._features.infer_for_pod_scheduling(spec, self.version)
