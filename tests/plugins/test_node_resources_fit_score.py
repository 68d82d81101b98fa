"""NodeResourcesFit's three scoring strategies, beyond upstream's tables (`tests/upstream`)."""

import pytest

from scheduler.api.core import Container, Node, Pod, ResourceRequirements
from scheduler.framework.failures import PluginSetupError
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.testing import make_node, make_pod, snapshot_of
from tests.plugins.running import build, scores

Json = dict[str, object]

LEAST, MOST, RATIO = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"


def fit(kind: str, shape: tuple[tuple[int, int], ...] = (), **weights: int) -> NodeResourcesFit:
    strategy: Json = {"type": kind}
    if weights:
        strategy["resources"] = [
            {"name": name.replace("gpu", "intel.com/foo"), "weight": weight}
            for name, weight in weights.items()
        ]
    if shape:
        points = [{"utilization": at, "score": score} for at, score in shape]
        strategy["requestedToCapacityRatio"] = {"shape": points}
    return build(NodeResourcesFit, {"scoringStrategy": strategy})


def requests(cpu: int, memory: int) -> ResourceRequirements:
    return ResourceRequirements(requests={"cpu": str(cpu), "memory": str(memory)})


def nodes(*offers: tuple[int, int], gpu: int = 0) -> list[Node]:
    more = {"intel.com/foo": str(gpu)} if gpu else {}
    return [
        make_node(f"node{i}", allocatable={"cpu": str(cpu), "memory": str(memory), **more})
        for i, (cpu, memory) in enumerate(offers)
    ]


def running(*homes: tuple[int, int, int]) -> list[Pod]:
    """Pods by the number of their node, cpu and memory."""
    return [
        make_pod(f"p{i}", node_name=f"node{home}", containers=[Container(resources=requests(c, m))])
        for i, (home, c, m) in enumerate(homes)
    ]


#: A pod of 3000 cpus and 5000 bytes in two containers.
LARGE = make_pod(
    containers=[
        Container(resources=requests(1000, 2000)),
        Container(resources=requests(2000, 3000)),
    ]
)


@pytest.mark.parametrize("kind", [LEAST, MOST])
def test_extended_resources_count_only_for_pods_that_ask(kind: str) -> None:
    plugin = fit(kind, cpu=1, memory=1, gpu=2)
    snapshot = snapshot_of([*nodes((6000, 10000), gpu=4), make_node("node1", allocatable={})])
    asking = make_pod(requests={"cpu": "3000", "memory": "5000", "intel.com/foo": "1"})
    assert scores(plugin, LARGE, snapshot) == {"node0": 50, "node1": 0}
    share = 25 if kind == MOST else 75
    assert scores(plugin, asking, snapshot) == {"node0": (50 + 50 + 2 * share) // 4, "node1": 0}


def test_a_resource_that_scores_nothing_does_not_weigh_in_a_ratio() -> None:
    plugin = fit(RATIO, ((0, 0), (100, 10)), cpu=3, memory=1)
    wanting = make_pod(requests={"cpu": "0", "memory": "5000"})
    snapshot = snapshot_of(nodes((4000, 10000), (4000, 10000)), running((1, 2000, 0)))
    assert list(scores(plugin, wanting, snapshot).values()) == [50, 50]
    assert scores(fit(MOST, cpu=3, memory=1), wanting, snapshot)["node0"] == 12


def test_pods_that_ask_for_nothing_are_not_free() -> None:
    """Each container counts 100m and 200Mi; one that asks for 0 counts 0."""
    offer = {"cpu": "1", "memory": "1000Mi"}
    pods = [
        make_pod("silent", node_name="a"),
        make_pod("zero", node_name="b", requests={"cpu": "0", "memory": "0"}),
    ]
    snapshot = snapshot_of([make_node(n, allocatable=offer) for n in "abc"], pods)
    assert scores(fit(LEAST), make_pod(), snapshot) == {"a": 70, "b": 85, "c": 85}


def test_requests_of_the_whole_pod_are_not_known_to_the_score() -> None:
    wanting = make_pod(requests={"cpu": "1", "memory": "0"}, resources={"requests": {"cpu": "3"}})
    snapshot = snapshot_of([make_node("n", allocatable={"cpu": "4", "memory": "1Gi"})])
    assert scores(fit(LEAST, cpu=1), wanting, snapshot) == {"n": 75}


@pytest.mark.parametrize(
    ("strategy", "complaint"),
    [
        (
            {"type": LEAST, "resources": [{"name": "memory", "weight": -1}]},
            "scoringStrategy.resources[0].weight: Invalid value: -1: resource weight of memory not "
            "in valid range (0, 100]",
        ),
        (
            {"type": "Best"},
            'scoringStrategy.type: Unsupported value: "Best": supported values: "LeastAllocated", '
            '"MostAllocated", "RequestedToCapacityRatio"',
        ),
        (
            {"type": RATIO},
            "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type "
            "is RequestedToCapacityRatio",
        ),
    ],
)
def test_a_malformed_strategy_is_refused_when_the_plugin_is_built(
    strategy: Json, complaint: str
) -> None:
    with pytest.raises(PluginSetupError) as caught:
        build(NodeResourcesFit, {"scoringStrategy": strategy})
    assert str(caught.value) == f'initializing plugin "NodeResourcesFit": {complaint}'
