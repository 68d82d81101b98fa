"""NodeResourcesBalancedAllocation, beyond upstream's table (`tests/upstream`)."""

import pytest

from scheduler.api.core import ContainerStatus, Node, Pod, PodStatus, ResourceRequirements
from scheduler.framework import CycleState
from scheduler.framework.failures import PluginSetupError
from scheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.plugins.running import build, scores


def amounts(cpu: int, memory: int) -> dict[str, str]:
    found = {"cpu": f"{cpu}m", "memory": str(memory)}
    return {name: text for name, text in found.items() if text not in ("0", "0m")}


def node(name: str, cpu: int, memory: int) -> Node:
    return make_node(name, allocatable=amounts(cpu, memory))


def pod(cpu: int, memory: int = 0, *, on: str = "") -> Pod:
    return make_pod(f"on-{on}", node_name=on, requests=amounts(cpu, memory))


LARGE = pod(3000, 5000)


def test_a_resource_that_a_node_lacks_is_left_out_there() -> None:
    nodes = [node("a", 6000, 10000), node("b", 6000, 0), node("c", 0, 0)]
    plugin = build(NodeResourcesBalancedAllocation)
    assert scores(plugin, pod(3000), snapshot_of(nodes)) == {"a": 62, "b": 75, "c": 75}


def test_the_score_is_the_same_without_pre_score() -> None:
    snapshot = snapshot_of([node("a", 10000, 20000)], [pod(3000, on="a")])
    plugin = build(NodeResourcesBalancedAllocation)
    found = plugin.score_nodes(CycleState(), PodInfo(LARGE), snapshot.nodes)
    assert found.tolist() == [73]


def test_resources_allocated_by_the_kubelet_count_here() -> None:
    """Upstream's scorer here reads the pod's status, unlike NodeResourcesFit's."""
    given = ContainerStatus("c", resources=ResourceRequirements(requests=amounts(3000, 5000)))
    small = pod(1, 1)
    resized = Pod(small.metadata, small.spec, PodStatus(container_statuses=(given,)))
    snapshot = snapshot_of([node("a", 4000, 10000)])
    assert scores(build(NodeResourcesBalancedAllocation), resized, snapshot) == {"a": 68}
    assert scores(build(NodeResourcesBalancedAllocation), small, snapshot) == {"a": 74}


def test_no_resource_may_weigh_more() -> None:
    args = {"resources": [{"name": "cpu", "weight": 2}, {"name": "cpu", "weight": 1}]}
    with pytest.raises(PluginSetupError) as caught:
        build(NodeResourcesBalancedAllocation, args)
    assert str(caught.value) == (
        'initializing plugin "NodeResourcesBalancedAllocation": [resources[0].weight: Invalid '
        'value: 2: must be 1, resources[1].name: Duplicate value: "cpu"]'
    )
