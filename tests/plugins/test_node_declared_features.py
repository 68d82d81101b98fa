"""NodeDeclaredFeatures."""

from typing import cast

import pytest
from msgspec.structs import replace

from scheduler.api import core
from scheduler.api.core import Node, Pod
from scheduler.config import SchedulerVersion
from scheduler.framework import CycleState
from scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from scheduler.runtime.registry import Registry
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.plugins.running import QUEUE, SKIP, UNRESOLVABLE, build, hint, rejected

RESTARTS = "RestartAllContainersOnContainerExits"
HOST_USERS = "UserNamespacesHostNetworkSupport"
MISMATCH = (UNRESOLVABLE, ("node(s) didn't match Pod's required features",))

RULE = core.ContainerRestartRule("RestartAllContainers")
RESTARTING = make_pod(containers=[core.Container(name="c", restart_policy_rules=(RULE,))])


def _on_host_network(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, host_network=True, host_users=False))


def _node(name: str, *features: str) -> Node:
    node = make_node(name)
    return replace(node, status=replace(node.status, declared_features=features))


SNAPSHOT = snapshot_of(
    [
        _node("none"),
        _node("restarts", RESTARTS),
        _node("users", HOST_USERS),
        _node("all", "AFeatureOfTomorrow", RESTARTS, HOST_USERS),
        _node("muddled", HOST_USERS, RESTARTS),
    ]
)


@pytest.mark.parametrize(
    ("pod", "refused"),
    [
        (make_pod(), set()),
        (RESTARTING, {"none", "users", "muddled"}),
        (_on_host_network(make_pod()), {"none", "restarts"}),
        (_on_host_network(RESTARTING), {"none", "restarts", "users", "muddled"}),
    ],
)
def test_a_node_must_declare_all_that_the_pod_needs(pod: Pod, refused: set[str]) -> None:
    assert rejected(build(NodeDeclaredFeatures), pod, SNAPSHOT) == dict.fromkeys(refused, MISMATCH)


def test_in_1_35_the_message_has_the_features() -> None:
    handle = FakeHandle(version=SchedulerVersion.V1_35)
    handle.feature_gates |= {"NodeDeclaredFeatures", RESTARTS}
    plugin = cast(
        "NodeDeclaredFeatures",
        Registry([NodeDeclaredFeatures]).create("NodeDeclaredFeatures", None, handle),
    )
    message = f"node declared features check failed - unsatisfied requirements: {RESTARTS}"
    found = rejected(plugin, RESTARTING, snapshot_of([_node("none")]))
    assert found == {"none": (UNRESOLVABLE, (message,))}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (RESTARTING, make_pod(), QUEUE),
        (make_pod(), RESTARTING, QUEUE),
        (RESTARTING, replace(RESTARTING, status=core.PodStatus("Pending")), SKIP),
        # Whatever else has changed, and whatever event it is.
        (make_pod(labels={"a": "b"}), make_pod(), SKIP),
        (make_pod(scheduling_gates=["a"]), make_pod(), SKIP),
        (replace(RESTARTING, metadata=core.ObjectMeta(uid="other")), None, None),
    ],
)
def test_a_pod_that_needs_other_features_is_tried_again(
    old: Pod, new: Pod | None, expected: str | None
) -> None:
    assert hint(build(NodeDeclaredFeatures), make_pod(), old=old, new=new) == expected


def test_with_its_feature_gate_off_it_rejects_nothing() -> None:
    handle = FakeHandle()
    handle.feature_gates -= {"NodeDeclaredFeatures"}
    plugin = cast(
        "NodeDeclaredFeatures",
        Registry([NodeDeclaredFeatures]).create("NodeDeclaredFeatures", None, handle),
    )
    assert rejected(plugin, RESTARTING, SNAPSHOT) == {}
    assert plugin.filter_nodes(CycleState(), PodInfo(RESTARTING), SNAPSHOT.nodes) is None
    assert plugin.events_to_register() == []
