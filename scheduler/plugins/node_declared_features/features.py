"""Features that nodes declare, and which of them a pod needs to run.

A kubelet writes the names of what it can do into `node.status.declaredFeatures`. Some pods need
such a feature; which ones, every feature says for itself. A feature that every kubelet in reach has
by some version of the cluster need not be asked for beyond that version (`max_version`).
What a kubelet makes of its feature gates (`Discover`), and what an update of a running pod needs
(`InferForUpdate`), is the business of kubelets and API servers.
Source: `k8s.io/component-helpers/nodedeclaredfeatures`, v0.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduler.api.core import Node, PodSpec

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
