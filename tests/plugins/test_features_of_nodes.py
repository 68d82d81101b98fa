"""Features that a pod needs, and known features among those that a node declares."""

from collections.abc import Sequence

import msgspec
import pytest

from scheduler.api.core import PodSpec
from scheduler.config import SchedulerVersion
from scheduler.plugins.node_declared_features import (
    ALL_FEATURES,
    DEFAULT_FEATURES,
    Feature,
    FeatureRegistry,
    Version,
)

RESTARTS = "RestartAllContainersOnContainerExits"
HOST_USERS = "UserNamespacesHostNetworkSupport"
MOUNT_OPTIONS = "VolumeBindMountOptions"
MOUNTING = {"name": "name", "volumeMounts": [{"name": "v"}, {"bindMountOptions": ["noexec"]}]}
RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
DEMANDING = {"name": "container", "restartPolicy": "Never", "restartPolicyRules": [RULE]}
LENIENT = {"name": "lenient", "restartPolicyRules": [{"action": "Restart"}]}
PLAIN = {"name": "name", "image": "image"}


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (SchedulerVersion.V1_35, (RESTARTS,)),
        (SchedulerVersion.V1_36, (RESTARTS, HOST_USERS)),
        (SchedulerVersion.V1_37, (RESTARTS, HOST_USERS, MOUNT_OPTIONS)),
    ],
)
def test_the_features_are_those_of_the_version(
    version: SchedulerVersion, names: tuple[str, ...]
) -> None:
    assert DEFAULT_FEATURES.as_of(version).names == names
    assert {feature.max_version for feature in ALL_FEATURES} == {None}


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        # `TestInferForScheduling` of restartallcontainers.
        ({"initContainers": [DEMANDING], "containers": [PLAIN]}, {RESTARTS}),
        ({"initContainers": [PLAIN], "containers": [DEMANDING]}, {RESTARTS}),
        ({"initContainers": [PLAIN], "containers": [PLAIN]}, set()),
        ({"containers": [PLAIN, LENIENT, DEMANDING]}, {RESTARTS}),
        ({"containers": [LENIENT]}, set()),
        ({"hostNetwork": True, "hostUsers": False}, {HOST_USERS}),
        ({"hostNetwork": True, "hostUsers": True}, set()),
        ({"hostNetwork": True}, set()),
        ({"hostUsers": False}, set()),
        ({"hostNetwork": True, "hostUsers": False, "containers": [DEMANDING]}, None),
        ({"containers": [PLAIN, MOUNTING]}, {MOUNT_OPTIONS}),
        ({"initContainers": [MOUNTING]}, {MOUNT_OPTIONS}),
        # What only updates of a running pod need.
        ({"resources": {"requests": {"cpu": "1"}}}, set()),
    ],
)
def test_the_needed_features_are_inferred_from_the_spec(
    spec: dict[str, object], needed: set[str] | None
) -> None:
    expected = {RESTARTS, HOST_USERS} if needed is None else needed
    found = DEFAULT_FEATURES.infer_for_pod_scheduling(msgspec.convert(spec, PodSpec), (1, 36, 3))
    assert found == expected


@pytest.mark.parametrize(
    ("max_version", "target", "is_needed"),
    [
        (None, (1, 30, 0), True),
        ((1, 30, 0), (1, 30, 0), True),
        ((1, 30, 0), (1, 30, 1), False),
        ((1, 30, 0), (1, 31, 0), False),
        ((1, 30, 0), (1, 40, 0), False),
        ((1, 30, 0), (0, 0, 0), True),
    ],
)
def test_a_feature_is_not_required_after_its_last_version(
    max_version: Version | None, target: Version, *, is_needed: bool
) -> None:
    """`TestInferForPodScheduling`."""
    registry = FeatureRegistry([Feature("F", lambda spec: True, max_version)])
    assert bool(registry.infer_for_pod_scheduling(PodSpec(), target)) == is_needed


@pytest.mark.parametrize(
    ("declared", "known"),
    [
        # `TestFeatureMapper`.
        ((), ""),
        (("a",), "a"),
        (("a", "c"), "ac"),
        (("a", "b", "c", "d"), "abcd"),
        (("0", "a"), "a"),
        (("a", "ab", "b"), "ab"),
        (("d", "e"), "d"),
        # Lists are walked side by side: what stands out of order is passed over.
        (("b", "a"), "b"),
        (("d", "a", "b"), "d"),
        (("a", "a", "b"), "ab"),
    ],
)
def test_unknown_features_are_ignored(declared: Sequence[str], known: str) -> None:
    registry = FeatureRegistry(Feature(name, lambda spec: True) for name in "dcba")
    assert registry.known_among(declared) == set(known)
