"""NodeDeclaredFeatures and DynamicResources decide alike for all nodes and for each in turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec.structs import replace

from scheduler.api import core
from scheduler.api.dynamic_resources import DeviceClass, ResourceClaim
from scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.plugins.devices import (
    by_name,
    by_template,
    dynamic_resources,
    make_claim,
    make_class,
    with_claims,
)
from tests.plugins.running import build, rejected, verdict_of
from tests.properties import strategies
from tests.properties.strategies import repeatable, up_to
from tests.reference import dynamic_resources as devices_reference
from tests.reference import node_declared_features as features_reference
from tests.reference.cluster import Cluster

pytestmark = pytest.mark.slow

FEATURES = (*features_reference.KNOWN, "AFeatureOfTomorrow", "ZFeatureOfTomorrow")

containers = st.builds(
    core.Container,
    restart_policy_rules=up_to(
        2,
        [
            core.ContainerRestartRule(action)
            for action in ("Restart", "Restart", "RestartAllContainers")
        ],
    ),
)


@st.composite
def demanding_pods(draw: DrawFn) -> core.Pod:
    pod = make_pod(
        containers=draw(st.lists(containers, min_size=1, max_size=2)),
        init_containers=draw(st.lists(containers, max_size=1)),
    )
    spec = replace(
        pod.spec,
        host_network=draw(st.booleans()),
        host_users=draw(st.sampled_from((None, True, False))),
    )
    return replace(pod, spec=spec)


@st.composite
def declaring_nodes(draw: DrawFn) -> tuple[core.Node, ...]:
    """Draw nodes whose features are mostly sorted, as the API server requires."""
    nodes = []
    for name in strategies.NODE_NAMES[: draw(st.integers(1, 6))]:
        features = draw(st.lists(st.sampled_from(FEATURES), max_size=6))
        if draw(st.sampled_from((True, True, True, False))):
            features = sorted(set(features))
        node = make_node(name)
        status = replace(node.status, declared_features=tuple(features))
        nodes.append(replace(node, status=status))
    return tuple(nodes)


@repeatable
@given(declaring_nodes(), demanding_pods())
def test_node_declared_features(nodes: tuple[core.Node, ...], pod: core.Pod) -> None:
    plugin = build(NodeDeclaredFeatures)
    expected = {
        node.metadata.name: verdict
        for node in nodes
        if (verdict := features_reference.filter_node(pod, node, Cluster(nodes)))
    }
    assert rejected(plugin, pod, snapshot_of(nodes)) == expected


CLAIMS = (
    make_claim("free"),
    make_claim("own", owner_uid="uid-default-pod"),
    make_claim("strange", owner_uid="uid-of-another"),
    make_claim("dying", is_deleted=True),
)
ENTRIES = (
    *(by_name(name, entry=f"by-{name}") for name in ("free", "own", "strange", "dying", "absent")),
    *(by_template(entry=f"from-{name}") for name in ("own", "strange", "dying", "absent", "none")),
    by_template(entry="not-yet-made"),
    core.PodResourceClaim(name="neither"),
)
MADE = {f"from-{name}": name for name in ("own", "strange", "dying", "absent")}


@repeatable
@given(
    st.lists(st.sampled_from(CLAIMS), unique_by=id).map(tuple),
    st.lists(st.sampled_from((*ENTRIES, by_template(entry="from-none"))), max_size=2),
)
def test_claims_agree_with_the_reference(
    claims: tuple[ResourceClaim, ...], entries: list[core.PodResourceClaim]
) -> None:
    pod = with_claims(*entries, made={**MADE, "from-none": None})
    plugin = dynamic_resources(claims)
    found = verdict_of(plugin.pre_enqueue(PodInfo(pod)))
    assert found == devices_reference.pre_enqueue(pod, claims)
    node = make_node()
    verdict = devices_reference.filter_node(pod, node, claims, ())
    assert rejected(plugin, pod, snapshot_of([node])) == ({"node": verdict} if verdict else {})


CLASSES = (
    make_class("gpu", extended_resource_name="example.com/gpu"),
    make_class("fpga", extended_resource_name="vendor.io/fpga"),
    make_class("plain"),
)


@repeatable
@given(
    strategies.clusters((strategies.RESOURCES,)),
    strategies.pods((strategies.RESOURCES,)),
    st.lists(st.sampled_from(CLASSES), unique_by=id).map(tuple),
)
def test_extended_resources_that_device_classes_stand_behind(
    cluster: Cluster, pod: core.Pod, classes: tuple[DeviceClass, ...]
) -> None:
    expected = {
        node.metadata.name: verdict
        for node in cluster.nodes
        if (verdict := devices_reference.filter_node(pod, node, (), classes))
    }
    plugin = dynamic_resources(classes=classes)
    assert rejected(plugin, pod, strategies.snapshot(cluster)) == expected
