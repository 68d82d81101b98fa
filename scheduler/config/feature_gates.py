"""The feature gates that change what a configuration means.

A set of gates is the names of those that are on. The flag `--feature-gates` adds to the default
set and takes away from it, and hands the outcome to `load_config` and `validate_config`.
Source: `pkg/features/kube_features.go` at v1.36.
"""

from __future__ import annotations

from typing import Final

#: The names of the gates that are on.
FeatureGates = frozenset[str]

#: Those on by default. Off, and read here too: GangScheduling, TopologyAwareWorkloadScheduling,
#: StorageCapacityScoring.
DEFAULT_FEATURE_GATES: Final[FeatureGates] = frozenset(
    {
        "DRADeviceBindingConditions",
        "DRAExtendedResource",
        "DRAResourceClaimDeviceStatus",
        "DRASchedulerFilterTimeout",
        "DynamicResourceAllocation",
        "MatchLabelKeysInPodTopologySpread",
        "NodeDeclaredFeatures",
        "SchedulerAsyncPreemption",
    }
)
