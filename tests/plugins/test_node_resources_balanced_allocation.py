"""NodeResourcesBalancedAllocation: `TestNodeResourcesBalancedAllocation`."""

import pytest

from scheduler.api.core import ContainerStatus, Node, Pod, PodStatus, ResourceRequirements
from scheduler.framework import CycleState
from scheduler.framework.failures import PluginSetupError
from scheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.plugins.running import build, scores

GPU = "nvidia.com/gpu"
THREE = {"resources": [{"name": name, "weight": 1} for name in ("cpu", "memory", GPU)]}


def amounts(cpu: int, memory: int, gpu: int) -> dict[str, str]:
    found = {"cpu": f"{cpu}m", "memory": str(memory), GPU: str(gpu)}
    return {name: text for name, text in found.items() if text not in ("0", "0m")}


def node(name: str, cpu: int, memory: int, gpu: int = 0) -> Node:
    return make_node(name, allocatable=amounts(cpu, memory, gpu))


def pod(cpu: int = 0, memory: int = 0, gpu: int = 0, *, on: str = "") -> Pod:
    return make_pod(f"on-{on}", node_name=on, requests=amounts(cpu, memory, gpu))


LARGE = pod(3000, 5000)


@pytest.mark.parametrize(
    ("wanting", "nodes", "running", "expected"),
    [
        (LARGE, [node("a", 4000, 10000), node("b", 6000, 10000)], [], [68, 75]),
        (
            LARGE,
            [node("a", 10000, 20000), node("b", 10000, 20000)],
            [pod(3000, on="a"), pod(3000, 5000, on="b")],
            [73, 74],
        ),
        (
            LARGE,
            [node("a", 10000, 20000), node("b", 10000, 50000)],
            [pod(3000, on="a"), pod(3000, 5000, on="b")],
            [73, 70],
        ),
        (
            pod(memory=5000),
            [node("a", 3000, 5000), node("b", 3000, 5000)],
            [pod(3000, on="a")],
            [100, 50],
        ),
        (
            pod(3000),
            [node("a", 6000, 10000), node("b", 6000, 10000)],
            [pod(3000, on="a"), pod(3000, 5000, on="b")],
            [62, 62],
        ),
        (pod(9000), [node("a", 6000, 10000)], [], [50]),
    ],
)
def test_the_score_is_how_much_evener_the_node_gets(
    wanting: Pod, nodes: list[Node], running: list[Pod], expected: list[int]
) -> None:
    plugin = build(NodeResourcesBalancedAllocation)
    assert list(scores(plugin, wanting, snapshot_of(nodes, running)).values()) == expected


def test_a_scalar_resource_counts_if_the_pod_asks_for_it() -> None:
    nodes = [node("a", 3500, 40000, 8), node("b", 3500, 40000, 8)]
    running = [pod(3000, 5000, 3, on="a"), pod(3000, 5000, on="b")]
    plugin = build(NodeResourcesBalancedAllocation, THREE)
    assert scores(plugin, pod(gpu=1), snapshot_of(nodes, running)) == {"a": 75, "b": 76}


def test_a_scalar_resource_that_the_pod_does_not_ask_for_does_not_count() -> None:
    nodes = [node("a", 3500, 40000, 8), node("b", 3500, 40000)]
    plugin = build(NodeResourcesBalancedAllocation, THREE)
    assert scores(plugin, LARGE, snapshot_of(nodes)) == {"a": 56, "b": 56}


def test_a_resource_that_a_node_lacks_is_left_out_there() -> None:
    nodes = [node("a", 6000, 10000), node("b", 6000, 0), node("c", 0, 0)]
    plugin = build(NodeResourcesBalancedAllocation)
    assert scores(plugin, pod(3000), snapshot_of(nodes)) == {"a": 62, "b": 75, "c": 75}


def test_a_pod_that_asks_for_nothing_is_skipped() -> None:
    snapshot = snapshot_of([node("a", 4000, 10000)])
    plugin = build(NodeResourcesBalancedAllocation)
    assert scores(plugin, pod(), snapshot) == {}
    assert scores(plugin, pod(gpu=1), snapshot) == {}
    without_pre_score = plugin.score_nodes(CycleState(), PodInfo(pod()), snapshot.nodes)
    assert without_pre_score.tolist() == [0]


def test_the_score_is_the_same_without_pre_score() -> None:
    snapshot = snapshot_of([node("a", 10000, 20000)], [pod(3000, on="a")])
    plugin = build(NodeResourcesBalancedAllocation)
    found = plugin.score_nodes(CycleState(), PodInfo(LARGE), snapshot.nodes)
    assert found.tolist() == [73]


def test_resources_allocated_by_the_kubelet_count_here() -> None:
    """Upstream's scorer here reads the pod's status, unlike NodeResourcesFit's."""
    given = ContainerStatus("c", resources=ResourceRequirements(requests=amounts(3000, 5000, 0)))
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
